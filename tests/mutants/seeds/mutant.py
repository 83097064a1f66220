"""One fault, as it is written down."""

from typing import NamedTuple


class Mutant(NamedTuple):
    wrong: str
    path: str
    old: str
    new: str
    by: str
    """The test that finds it, or the file of tests."""
