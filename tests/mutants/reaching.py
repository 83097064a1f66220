"""Which tests reach a line."""

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

SECONDS_OF_TESTS = 10.0
AT_LEAST = 3


@dataclass(frozen=True)
class Reached:
    """For each file of the tree its lines and the tests that reach them; what each test takes."""

    tests: dict[str, dict[int, list[str]]]
    seconds: dict[str, float]

    def of(self, path: str, line: int, *, root: Path, before: Collection[str] = ()) -> list[str]:
        """The tests to try, as many as there is time for: first those that reach what hangs on the
        line, then those of `before`, then the quickest. Those of the whole module for its constants."""
        lines = self.tests.get(path, {})
        asked, inside = _lines_to_ask((root / path).read_text(), line)
        found = {test for number in asked for test in lines.get(number, ())}
        deeper = {test for number in inside for test in lines.get(number, ())}
        if not found:
            found = {test for tests in lines.values() for test in tests}
        order = sorted(
            found, key=lambda test: (test not in deeper, test not in before, self.seconds[test])
        )
        return list(self._first(order))

    def _first(self, tests: list[str]) -> Iterator[str]:
        left = SECONDS_OF_TESTS
        for number, test in enumerate(tests):
            left -= self.seconds[test]
            if left < 0 and number >= AT_LEAST:
                return
            yield test


def _lines_to_ask(source: str, line: int) -> tuple[list[int], list[int]]:
    """Where the line's statement begins, and the body that goes with its header; for a constant, where
    the module mentions its name. None for what a class is made of."""
    tree = ast.parse(source)
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and _holds(node, line):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = {each.id for each in targets if isinstance(each, ast.Name)}
            return [
                each.lineno
                for each in ast.walk(tree)
                if isinstance(each, ast.Name) and each.id in names and not _holds(node, each.lineno)
            ], []
    inside = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and _holds(node, line)]
    if not any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in inside):
        return [], []  # whoever imported it first says nothing about who needs it
    innermost = max(inside, key=lambda node: node.lineno)
    body = getattr(innermost, "body", [])
    return [innermost.lineno, line], [each.lineno for each in body]


def _holds(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)
