"""What an export is, said before anything is written."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from evidence.importing.all_kinds import KINDS
from evidence.importing.codes import Code
from evidence.importing.exports import Entry, Export, fingerprint, open_export
from evidence.importing.items import Remark
from evidence.importing.kinds import Kind
from evidence.importing.options import YEARS_AHEAD, ChoiceNeeded, Options
from evidence.importing.runs import Target, recall, target
from evidence.refusals import InvalidRequest


@dataclass(frozen=True, slots=True)
class Part:
    """The files of one kind. ``needed`` is what the owner must say before it can be read."""

    kind: Kind
    entries: tuple[Entry, ...]
    target: Target
    options: Options
    needed: ChoiceNeeded | None = None

    @property
    def size(self) -> int:
        return sum(each.size for each in self.entries)

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.entries)


@dataclass(frozen=True, slots=True)
class Survey:
    """``left`` are the files that no part reads, and why."""

    label: str
    parts: tuple[Part, ...]
    left: tuple[tuple[str, Remark], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the owner said. ``connection`` is the name or id of one; ``columns`` and ``date_order``
    are remembered for the connection."""

    kind: str | None = None
    connection: str | None = None
    languages: tuple[str, ...] = ()
    options: Options = field(default_factory=Options)


def survey(path: Path, *, wish: Wish, owner_id: str, now: datetime) -> Survey:
    """Raises ``UnreadableError`` for what cannot be opened, ``InvalidRequest`` for a wish that
    fits nothing. Writes nothing."""
    export = open_export(path)
    options = replace(wish.options, horizon_year=now.year + YEARS_AHEAD)
    claimed, left = _claims(export, only=_kind(wish.kind))
    parts = [
        _part(kind, entries, options=options, wish=wish, owner_id=owner_id)
        for kind, entries in claimed
    ]
    unknown = [(each.name, _unknown(each)) for each in left]
    return Survey(export.name, tuple(parts), (*export.faults, *unknown))


def _kind(name: str | None) -> Kind | None:
    if name is None:
        return None
    found = next((kind for kind in KINDS if kind.name == name), None)
    if found is None:
        names = ", ".join(kind.name for kind in KINDS)
        raise InvalidRequest(message=f"No kind is called {name!r}; there are {names}.", param="as")
    return found


def _claims(
    export: Export, *, only: Kind | None
) -> tuple[list[tuple[Kind, list[Entry]]], list[Entry]]:
    """Each kind takes its own of what the kinds before it left. A kind that the owner named takes
    a single file on trust."""
    left = list(export.entries)
    claimed = []
    for kind in KINDS if only is None else (only,):
        entries = kind.claim(left)
        if only is not None and not entries and len(left) == 1:
            entries = left
        if entries:
            claimed.append((kind, entries))
            taken = set(map(id, entries))
            left = [each for each in left if id(each) not in taken]
    return claimed, left


def _part(
    kind: Kind, entries: Iterable[Entry], *, options: Options, wish: Wish, owner_id: str
) -> Part:
    there = target(kind, name=wish.connection, owner_id=owner_id, languages=wish.languages)
    listed = tuple(entries)
    known = recall(there, options)
    try:
        settled = kind.prepare(listed, known)
    except ChoiceNeeded as needed:
        return Part(kind, listed, there, known, needed)
    return Part(kind, listed, there, settled)


def _unknown(entry: Entry) -> Remark:
    return Remark(Code.NOT_RECOGNISED if entry.size else Code.EMPTY)
