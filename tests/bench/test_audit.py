"""An audit that could check nothing differs from a clean one."""

from typing import Any

import pytest

from bench.audit import UNREACHABLE, verdict

SOUND = {"name": "sound", "version": "1.0", "vulns": []}
VULNERABLE = {
    "name": "weak",
    "version": "2.0",
    "vulns": [{"id": "PYSEC-1", "fix_versions": ["2.1"]}, {"id": "PYSEC-2", "fix_versions": []}],
}
UNKNOWN = {"name": "unknown", "skip_reason": "Dependency not found on PyPI"}


@pytest.mark.parametrize(
    ("packages", "message", "code"),
    [
        ([], UNREACHABLE, 0),
        ([UNKNOWN, UNKNOWN], UNREACHABLE, 0),
        (
            [SOUND, UNKNOWN],
            "pip-audit found no vulnerabilities in 1 of 2 packages; it does not know the others.",
            0,
        ),
        (
            [SOUND, VULNERABLE],
            "pip-audit checked 2 of 2 packages:\nweak 2.0: PYSEC-1, fixed in 2.1\nweak 2.0: PYSEC-2",
            1,
        ),
    ],
)
def test_verdict_counts_only_checked_packages(
    packages: list[dict[str, Any]], message: str, code: int
) -> None:
    assert verdict(packages) == (message, code)
