"""Run the suite and evaluate the checks that apply to a read-only server."""

import json
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
REVISIONS = ("2026-07-28", "2025-11-25")
_HARMLESS = frozenset({"SUCCESS", "SKIPPED", "INFO", "WARNING"})


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a scenario at a revision. `excused` says why it does not apply."""

    revision: str
    scenario: str
    passed: int
    failures: tuple[str, ...]
    excused: str

    @property
    def passes(self) -> bool:
        """Whether every check that applies passed."""
        return not self.failures or bool(self.excused)


def run(url: str, *, node: Path, suite: Path, output: Path) -> Iterator[Verdict]:
    """Yield the result of every scenario that each revision requires."""
    excuses = tomllib.loads((HERE / "excused.toml").read_text())
    for revision in REVISIONS:
        results = output / revision
        command = [str(node), str(suite), "server", "--url", url, "--requirements", revision]
        # Its exit code also counts checks that do not apply, so this reads the checks.
        subprocess.run(
            [*command, "--output-dir", str(results)], check=False, capture_output=True, timeout=900
        )
        for path in sorted(results.glob("*/checks.json")):
            yield _verdict(revision, path, excuses)


def _verdict(revision: str, path: Path, excuses: Mapping[str, Mapping[str, str]]) -> Verdict:
    # server-tools-list-2026-11-21T23-40-00-718Z
    scenario = path.parent.name.removeprefix("server-").rsplit("-", 6)[0].removesuffix("-")
    checks = json.loads(path.read_text())
    failures = [
        f"{check['id']}: {check.get('errorMessage', check.get('description', ''))}"
        for check in checks
        if check["status"] not in _HARMLESS and check["id"] not in excuses["checks"]
    ]
    passed = sum(check["status"] == "SUCCESS" for check in checks)
    excused = excuses["scenarios"].get(scenario, "") if failures else ""
    return Verdict(revision, scenario, passed, tuple(failures), excused)
