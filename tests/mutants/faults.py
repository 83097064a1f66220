"""A fault: one file of the tree with another text, and what is then wrong with the product."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.deleting import deletions
from tests.mutants.seeds import Mutant


@dataclass(frozen=True, slots=True)
class Fault:
    """`text` is the whole file as it is wrong; `line` where it differs, in the sound one.

    `first` are the tests to begin with, where somebody knows them.
    """

    wrong: str
    path: str
    line: int
    text: str
    first: tuple[str, ...] = ()


class NotPlantable(Exception):  # noqa: N818 - named for what it is
    """A seed names a text that its file does not have."""


def seeded(seed: Mutant, *, root: Path) -> Fault:
    """The fault of a seed; raises `NotPlantable`."""
    sound = (root / seed.path).read_text()
    before, found, _ = sound.partition(seed.old)
    if not found:
        raise NotPlantable(f"{seed.wrong}: {seed.path} has no {seed.old!r}")
    line = before.count("\n") + 1 + (len(seed.old) - len(seed.old.lstrip("\n")))
    wrong = sound.replace(seed.old, seed.new, 1)
    return Fault(seed.wrong, seed.path, line, wrong, (seed.by,))


def deleted(places: Iterable[str], *, root: Path) -> Iterator[Fault]:
    """One fault for each line that can be taken away of the modules, or of `module:line`."""
    for place in places:
        path, _, only = place.partition(":")
        lines = (root / path).read_text().splitlines()
        for number, text in deletions("\n".join(lines) + "\n"):
            if only not in ("", str(number)):
                continue
            yield Fault(f"{path}:{number}  {lines[number - 1].strip()}", path, number, text)
