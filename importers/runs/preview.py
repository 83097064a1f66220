"""What an export is, said before anything is written."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from evidence.errors import InvalidRequest
from evidence.models.imports import ImportReceipt, ImportRun
from importers.core.export_files import Entry, Export, fingerprint, open_export
from importers.core.importer import ChoiceNeeded, Kind, Options, Wish
from importers.core.results import MEANINGS, Code, Remark
from importers.registry import KINDS
from importers.runs.record_feed import Feed, Spool, said_of
from importers.runs.seen_keys import KeySet
from importers.runs.store import Said, Target, recall, receipts_of, target


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


def survey(path: Path, *, wish: Wish, owner_id: str, now: datetime) -> Survey:
    """Raises ``UnreadableError`` for what cannot be opened, ``InvalidRequest`` for a wish that
    fits nothing. Writes nothing."""
    export = open_export(path)
    options = replace(wish.options, horizon_year=now.year + 2)
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


LEFT_SHOWN = 5
RECEIPTS_SHOWN = 20


def size(count: int) -> str:
    """``12.3 MB``."""
    amount = float(count)
    for unit in ("bytes", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} bytes" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


def surveyed(survey: Survey) -> Iterator[str]:
    """What is there, before anything is written."""
    for each in survey.parts:
        yield f"{survey.label}: {part(each)}"
    if not survey.parts:
        yield f"{survey.label}: nothing that can be imported"
    for name, remark in survey.left[:LEFT_SHOWN]:
        yield f"  not read: {name}: {MEANINGS[remark.code].sentence}"
    if len(survey.left) > LEFT_SHOWN:
        yield f"  not read: {len(survey.left) - LEFT_SHOWN:,} more"


def part(found: Part) -> str:
    files = "1 file" if len(found.entries) == 1 else f"{len(found.entries):,} files"
    known = found.target.connection_id
    where = f"into {found.target.name} ({known or 'a new connection'})"
    zone = f", times without a zone in {found.options.zone}" if found.kind.has_local_times else ""
    return f"{found.kind.title}, {files}, {size(found.size)}, {where}{zone}"


def finished(run: ImportRun) -> Iterator[str]:
    """The counts, then the first receipts."""
    yield (
        f"  {run.created:,} new, {run.updated:,} changed, {run.unchanged:,} as they were,"
        f" {run.doubles:,} doubles left out, {run.files:,} files kept"
    )
    if run.left_out or run.remarked:
        yield f"  {run.left_out:,} not imported, {run.remarked:,} imported with a remark:"
    for receipt in receipts_of(run.run_id, most=RECEIPTS_SHOWN):
        yield f"    {receipt_line(receipt)}"
    more = run.left_out + run.remarked - RECEIPTS_SHOWN
    if more > 0:
        yield f"    and {more:,} more; --report FILE writes all of them"


def receipt_line(receipt: ImportReceipt) -> str:
    """File, place, reason, what to do."""
    meaning = MEANINGS[Code(receipt.code)]
    where = ", ".join(filter(None, (receipt.file, receipt.place)))
    detail = f" ({receipt.detail})" if receipt.detail else ""
    return f"{where}: {meaning.sentence}{detail} {meaning.next_step}"


SAID_KEPT = 10_000


@dataclass(slots=True)
class Tried:
    """``rows`` counts by stream."""

    rows: Counter[str] = field(default_factory=Counter)
    doubles: int = 0
    said: list[Said] = field(default_factory=list)


def try_part(part: Part) -> Tried:
    tried, spool = Tried(), Spool()
    feed = Feed(
        part.kind.read(part.entries, part.options),
        connection_id="",
        skip=0,
        seen=KeySet(),
        spool=spool,
    )
    try:
        while feed.more:
            for _ in feed.lines():
                _count(tried, feed, spool)
            _count(tried, feed, spool)
    finally:
        spool.close()
    return tried


def _count(tried: Tried, feed: Feed, spool: Spool) -> None:
    spool.take(up_to=feed.number)
    spool.shrink()
    for mark in feed.stored(up_to=feed.number):
        tried.rows.update(mark.rows)
        tried.doubles += mark.doubles
        tried.said += said_of(mark)[: SAID_KEPT - len(tried.said)]
