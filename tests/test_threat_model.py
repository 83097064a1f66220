"""Each breach of the threat model is guarded, by tests that are there."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEXT = (ROOT / "THREAT_MODEL.md").read_text()


def breaches() -> set[int]:
    section = TEXT.split("## What counts as a breach")[1].split("\n## ")[0]
    return {int(number) for number in re.findall(r"^(\d+)\. \*\*", section, re.MULTILINE)}


def guards() -> dict[int, list[tuple[str, str]]]:
    """The tests of each breach, as file and name; a name alone is of the file before it."""
    found: dict[int, list[tuple[str, str]]] = {}
    for number, cell in re.findall(r"^\| (\d+) \| (.+) \|$", TEXT, re.MULTILINE):
        file = ""
        for said in re.findall(r"`([^`]+)`", cell):
            path, _, name = said.partition("::")
            file = path or file
            found.setdefault(int(number), []).append((file, name))
    return found


def names_in(file: str) -> set[str]:
    tree = ast.parse((ROOT / file).read_text())
    return {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def test_every_breach_names_a_test_that_guards_it() -> None:
    assert len(breaches()) > 12
    assert guards().keys() == breaches()


def test_every_test_that_is_named_is_there() -> None:
    named = {each for several in guards().values() for each in several}

    assert [(file, name) for file, name in sorted(named) if name not in names_in(file)] == []


def test_every_file_that_is_named_is_there() -> None:
    named = re.findall(
        r"`((?:cli|deploy|docs|evidence|importers|mcp_adapter|operations|owner|pdpp_site|tests)/[\w/.]*)",
        TEXT,
    )

    assert len(named) > 20
    assert [path for path in named if not (ROOT / path).exists()] == []
