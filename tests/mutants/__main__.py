"""Plant each fault in a copy of the tree and see that a test fails: ``make mutants``.

``python -m tests.mutants [WORD…]`` takes only the faults whose description has one of the words.
Two run at a time, each on a database of its own in one scratch server.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

import psycopg

from pdpp_site.embedded_postgres import EmbeddedPostgres, url
from tests.mutants.seeds import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parent.parent.parent
LEFT_OUT = (".git", ".venv", "var", ".mypy_cache", ".ruff_cache", ".pytest_cache", "__pycache__")
TESTS = ("tests/api", "tests/access", "tests/test_non_interference.py")
# Generated requests and long pagings take minutes and look for other faults than these.
SLOW = ("tests/api/test_schemathesis.py", "tests/api/test_paging_model.py")
AT_ONCE = 2
SECONDS = 600


def main(words: Sequence[str]) -> int:
    chosen = [each for each in MUTANTS if not words or any(word in each.wrong for word in words)]
    home = Path(tempfile.mkdtemp(prefix="pdpp-mutants-"))
    server = EmbeddedPostgres(home / "pg", scratch=True)
    server.start()
    try:
        survivors = _all(chosen, home, url(home / "pg"))
    finally:
        server.stop()
        shutil.rmtree(home, ignore_errors=True)
    print(f"{len(chosen) - len(survivors)} killed, {len(survivors)} survived")  # noqa: T201
    return 1 if survivors else 0


def _all(chosen: Sequence[Mutant], home: Path, database: str) -> list[Mutant]:
    trees: Queue[Path] = Queue()
    for number in range(AT_ONCE):
        tree = home / f"tree{number}"
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(*LEFT_OUT))
        trees.put(tree)
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {tree.name}")

    def killed(mutant: Mutant) -> bool:
        tree = trees.get()
        try:
            return _killed(mutant, tree, database.replace("/postgres", f"/{tree.name}", 1))
        finally:
            trees.put(tree)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        verdicts = list(pool.map(killed, chosen))
    return [mutant for mutant, dead in zip(chosen, verdicts, strict=True) if not dead]


def _killed(mutant: Mutant, tree: Path, database: str) -> bool:
    path = tree / mutant.path
    sound = path.read_text()
    if sound.count(mutant.old) < 1:
        print(f"NOT PLANTED  {mutant.wrong}: {mutant.path} has no {mutant.old!r}")  # noqa: T201
        return False
    path.write_text(sound.replace(mutant.old, mutant.new, 1))
    try:
        failed = _fails(tree, database)
    finally:
        path.write_text(sound)
    print(f"{'killed  ' if failed else 'SURVIVED'}  {mutant.wrong}", flush=True)  # noqa: T201
    return failed


def _fails(tree: Path, database: str) -> bool:
    """Whether a test fails; a run that is cut short or finds no test is no proof."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n0", "-p", "no:cacheprovider",
        "-p", "no:randomly", "--reuse-db", *(f"--ignore={each}" for each in SLOW), *TESTS]  # fmt: skip
    environment = os.environ | {"DATABASE_URL": database, "PYTHONDONTWRITEBYTECODE": "1"}
    run = subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, timeout=SECONDS, check=False
    )
    return run.returncode == 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
