"""The manifest and the tests agree, in both directions."""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

from tests.scenarios import MANIFEST

TESTS = Path(__file__).parent.parent
COUNTS = {"A": 9, "B": 11, "C": 20, "D": 9}


@functools.cache
def cited() -> set[str]:
    """Every id that stands in a `@scenario(…)` above a test function."""
    return {each for path in TESTS.rglob("test_*.py") for each in _ids(ast.parse(path.read_text()))}


def _ids(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and _name(decorator.func) == "scenario":
                    yield from (str(ast.literal_eval(argument)) for argument in decorator.args)


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def test_the_manifest_has_every_scenario_of_every_section_once() -> None:
    expected = [f"{section}{n}" for section, count in COUNTS.items() for n in range(1, count + 1)]

    assert list(MANIFEST) == expected


def test_a_scenario_is_cited_by_a_test_or_says_why_not() -> None:
    silent = [entry.id for entry in MANIFEST.values() if not entry.untested]

    assert sorted(set(silent) - cited()) == []


def test_a_scenario_that_is_cited_does_not_excuse_itself() -> None:
    excused = {entry.id for entry in MANIFEST.values() if entry.untested}

    assert excused & cited() == set()


def test_what_is_cited_is_in_the_manifest() -> None:
    assert cited() <= set(MANIFEST)
