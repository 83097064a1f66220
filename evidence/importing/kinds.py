"""What every kind of export brings."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from evidence.importing.exports import Entry
from evidence.importing.items import Pieces
from evidence.importing.options import Options

DECLARATIONS = Path(__file__).parent / "declarations"

Entries = Sequence[Entry]
Claim = Callable[[Entries], list[Entry]]
Reader = Callable[[Entries, Options], Pieces]
Preparer = Callable[[Entries, Options], Options]


def _as_it_is(entries: Entries, options: Options) -> Options:
    return options


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """``claim`` takes its own out of the entries of an export, ``read`` makes pieces of them.

    ``prepare`` settles what the entries leave open before anything is written; it raises
    ``ChoiceNeeded``. ``source`` names the declaration, ``label`` the connection that records go to
    unless the owner names another. ``has_local_times``: some may be without a zone.
    ``has_series``: repeating events are expanded between two years.
    """

    name: str
    title: str
    source: str
    label: str
    claim: Claim
    read: Reader
    prepare: Preparer = _as_it_is
    has_local_times: bool = False
    has_series: bool = False

    @property
    def declaration(self) -> bytes:
        return (DECLARATIONS / f"{self.source}.json").read_bytes()

    @property
    def connector_key(self) -> str:
        return f"imported-{self.source}"


def by_suffix(*suffixes: str) -> Claim:
    """Claims files by how their names end."""
    return lambda entries: [each for each in entries if each.suffix in suffixes]
