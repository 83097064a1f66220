"""Which tests reach a line: one run of them under coverage, each test a context of its own."""

import ast
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from coverage import CoverageData

TESTS = ("tests/api", "tests/access", "tests/management", "tests/test_non_interference.py")
# Generated requests and long pagings take minutes and look for other faults than these.
SLOW = (
    "tests/api/test_schemathesis.py",
    "tests/api/test_paging_model.py",
    "tests/api/test_bad_input.py",
    "tests/api/test_search_at_scale.py",
)
PLAIN = ("-q", "-n0", "-p", "no:cacheprovider", "-p", "no:randomly", "--reuse-db")


@dataclass(frozen=True)
class Reached:
    """For each file of the tree its lines and the tests that reach them; what each test takes."""

    tests: dict[str, dict[int, list[str]]]
    seconds: dict[str, float]

    def of(self, path: str, line: int, *, root: Path) -> list[str]:
        """The tests to try, the quickest first; those of the whole module for its constants."""
        lines = self.tests.get(path, {})
        source = (root / path).read_text()
        found: set[str] = set()
        for number in _lines_to_ask(source, line):
            found.update(lines.get(number, ()))
        if not found:
            found = {test for tests in lines.values() for test in tests}
        return sorted(found, key=lambda test: self.seconds.get(test, 0.0))


def measured(tree: Path, environment: dict[str, str], *, where: Sequence[str]) -> Reached:
    """Run the tests once in `tree`; `where` are the folders and files to watch. A test that fails
    here is of no use later."""
    setup = tree / "contexts.coveragerc"
    watched = ",".join(f"{each}/*" if (tree / each).is_dir() else each for each in where)
    setup.write_text(f"[run]\ndata_file = {tree}/contexts.data\ninclude = {watched}\n")
    command = [
        sys.executable, "-m", "coverage", "run", f"--rcfile={setup}", "-m", "pytest", *PLAIN,
        "-p", "tests.mutants.contexts", *(f"--ignore={each}" for each in SLOW), *TESTS,
    ]  # fmt: skip
    run = subprocess.run(command, cwd=tree, env=environment, capture_output=True, check=False)
    if run.returncode not in (0, 1):
        raise RuntimeError(f"The tests do not run:\n{run.stdout.decode()[-3000:]}")
    seconds: dict[str, float] = json.loads((tree / "contexts.json").read_text())
    data = CoverageData(str(tree / "contexts.data"))
    data.read()
    tests = {
        str(Path(file).relative_to(tree)): {
            line: [each for each in contexts if each in seconds]
            for line, contexts in data.contexts_by_lineno(file).items()
        }
        for file in data.measured_files()
    }
    return Reached(tests, seconds)


def _lines_to_ask(source: str, line: int) -> list[int]:
    """Where the line's statement begins; for a constant, where the module mentions its name."""
    tree = ast.parse(source)
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and _holds(node, line):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = {each.id for each in targets if isinstance(each, ast.Name)}
            return [
                each.lineno
                for each in ast.walk(tree)
                if isinstance(each, ast.Name) and each.id in names and not _holds(node, each.lineno)
            ]
    inside = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and _holds(node, line)]
    return [max(node.lineno for node in inside), line] if inside else [line]


def _holds(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)
