"""Each breach of the threat model is guarded, by tests that are there."""

import ast
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "THREAT_MODEL.md").read_text()


def breaches() -> set[int]:
    section = TEXT.split("## What counts as a breach")[1].split("\n## ")[0]
    return {int(number) for number in re.findall(r"^(\d+)\. \*\*", section, re.MULTILINE)}


def guards() -> dict[int, list[tuple[str, str]]]:
    """The tests of each breach, as file and name."""
    named = tomllib.loads((ROOT / "tests" / "guards.toml").read_text())
    return {
        int(number): [(file, name) for file, _, name in (each.partition("::") for each in tests)]
        for number, tests in named.items()
    }


def names_in(file: str) -> set[str]:
    tree = ast.parse((ROOT / file).read_text())
    return {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def test_it_is_short_and_lists_no_tests() -> None:
    assert len(TEXT.split()) <= 3_000
    assert "tests/" not in TEXT


def test_every_breach_has_tests_that_guard_it() -> None:
    assert len(breaches()) > 12
    assert guards().keys() == breaches()


def test_every_test_that_is_named_is_there() -> None:
    named = {each for several in guards().values() for each in several}

    assert [(file, name) for file, name in sorted(named) if name not in names_in(file)] == []


def test_every_file_that_is_named_is_there() -> None:
    named = re.findall(
        r"`((?:cli|deploy|docs|evidence|importers|mcp_adapter|operations|owner|pdpp_site|tests)/[\w/.]*)",
        TEXT + (ROOT / "docs" / "security.md").read_text(),
    )

    assert len(named) > 20
    assert [path for path in named if not (ROOT / path).exists()] == []
