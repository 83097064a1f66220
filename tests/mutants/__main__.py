"""Plant faults in a copy of the tree and see that a test fails: ``make mutants``.

``python -m tests.mutants [WORD…]`` plants the seeds, or only those whose description has one of the
words; each names the test that finds it. With ``--lines`` the words are modules or ``module:line`` (all
of ``evidence/access`` without any), and the faults are their lines, each taken away alone: at first from
the loaded modules of one long session of tests, and where that finds nothing from the file itself.
``--by`` takes the tests of one folder, file or function in place of all that could see it.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from operations.postgres.server import EmbeddedPostgres, url
from tests.mutants.faults import Fault, NotPlantable, seeded
from tests.mutants.seeds import MUTANTS
from tests.mutants.session import TESTS
from tests.mutants.trying import Tree, copied

ROOT = Path(__file__).resolve().parent.parent.parent
CONTROLLED = 20
"""After so many faults it is made sure that the sound tree still passes."""


def main(arguments: Sequence[str]) -> int:
    """0 where each fault turned a test red."""
    parser = argparse.ArgumentParser(prog="make mutants ARGS=…")
    parser.add_argument("--lines", action="store_true", help="take lines away")
    parser.add_argument(
        "--by", metavar="TEST", action="append", help="with --lines: look only here"
    )
    parser.add_argument("words", nargs="*")
    asked = parser.parse_args(arguments)
    faults, faulty = ([], []) if asked.lines else _seeds(asked.words)
    for complaint in faulty:
        _say(f"NOT PLANTED  {complaint}")
    with _tree() as tree:
        killed = list(
            _of_lines(tree, asked.words, by=asked.by or TESTS)
            if asked.lines
            else _tried(tree, faults)
        )
    survivors = killed.count(False)
    _say(f"{len(killed) - survivors} killed, {survivors} survived, {len(faulty)} not planted")
    return 1 if survivors or faulty else 0


def _of_lines(tree: Tree, words: Sequence[str], *, by: Sequence[str]) -> Iterator[bool]:
    modules = words or [
        str(path.relative_to(ROOT)) for path in sorted((ROOT / "evidence/access").rglob("*.py"))
    ]
    left: list[Fault] = []
    for fault, killed in tree.tried_in_forks(modules, by=by):
        if killed:
            _say(f"killed    {fault.wrong}")
            yield True
        else:
            left.append(fault)
    yield from _tried(tree, left)


def _seeds(words: Sequence[str]) -> tuple[list[Fault], list[str]]:
    faults, faulty = [], []
    for seed in MUTANTS:
        if words and not any(word in seed.wrong for word in words):
            continue
        try:
            faults.append(seeded(seed, root=ROOT))
        except NotPlantable as complaint:
            faulty.append(str(complaint))
    return faults, faulty


@contextmanager
def _tree() -> Iterator[Tree]:
    home = Path(tempfile.mkdtemp(prefix="pdpp-mutants-"))
    server = EmbeddedPostgres(home / "pg", scratch=True)
    server.start()
    try:
        tree = copied(ROOT, home, name="faulty", database=url(home / "pg"))
        with tree.nursery:
            yield tree
    finally:
        server.stop()
        shutil.rmtree(home, ignore_errors=True)


def _tried(tree: Tree, faults: Sequence[Fault]) -> Iterator[bool]:
    """Whether each was killed; raises ``RuntimeError`` where its tests fail without it, too."""
    sound = set[tuple[str, ...]]()
    for number, fault in enumerate(faults):
        if number % CONTROLLED == 0:
            sound.clear()
        if fault.first not in sound and not tree.is_sound(fault):
            raise RuntimeError(f"The sound tree fails before {fault.wrong}")
        sound.add(fault.first)
        killed = tree.kills(fault)
        _say(f"{'killed  ' if killed else 'SURVIVED'}  {fault.wrong}")
        yield killed


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
