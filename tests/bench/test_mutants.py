"""The list of changes that no test notices is up to date, as far as its text shows."""

import tomllib
from pathlib import Path

from bench.mutants import SURVIVORS, TESTS, listed_changes

WITHOUT_SURVIVORS = ("gate", "scope", "grant_terms", "tokens", "crypto")


def modules() -> dict[str, Path]:
    return {path.removesuffix(".py").replace("/", "."): Path(path) for path in TESTS}


def test_listed_lines_are_still_in_their_modules() -> None:
    for change in listed_changes():
        [path] = [path for name, path in modules().items() if change.function.startswith(name)]
        lines = [line.strip() for line in path.read_text().splitlines()]
        assert "\n".join(change.before.splitlines()) in "\n".join(lines), change.function


def test_each_listed_change_has_a_reason() -> None:
    listed = tomllib.loads(SURVIVORS.read_text())["survivor"]
    assert [each["function"] for each in listed if not each["reason"]] == []


def test_no_change_of_the_access_rules_is_listed() -> None:
    names = [name for name in modules() if name.rpartition(".")[2] in WITHOUT_SURVIVORS]
    assert len(names) == len(WITHOUT_SURVIVORS)
    assert not [change for change in listed_changes() if change.function.startswith(tuple(names))]
    assert [test for tests in TESTS.values() for test in tests if not Path(test).exists()] == []
