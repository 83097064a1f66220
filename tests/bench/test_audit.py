"""An audit that could ask nobody does not look like a clean one."""

from typing import Any

import pytest

from bench.audit import UNREACHED, verdict

CLEAN = {"name": "sound", "version": "1.0", "vulns": []}
WEAK = {
    "name": "weak",
    "version": "2.0",
    "vulns": [{"id": "PYSEC-1", "fix_versions": ["2.1"]}, {"id": "PYSEC-2", "fix_versions": []}],
}
UNKNOWN = {"name": "unknown", "skip_reason": "Dependency not found on PyPI"}


@pytest.mark.parametrize(
    ("found", "said", "code"),
    [
        ([], UNREACHED, 0),
        ([UNKNOWN, UNKNOWN], UNREACHED, 0),
        (
            [CLEAN, UNKNOWN],
            "pip-audit knows nothing against 1 of 2 packages; the others it does not know.",
            0,
        ),
        (
            [CLEAN, WEAK],
            "pip-audit judged 2 of 2 packages:\nweak 2.0: PYSEC-1, mended in 2.1\nweak 2.0: PYSEC-2",
            1,
        ),
    ],
)
def test_what_is_said_is_what_was_judged(found: list[dict[str, Any]], said: str, code: int) -> None:
    assert verdict(found) == (said, code)
