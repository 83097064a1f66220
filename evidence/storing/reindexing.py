"""Making search text anew where it is of other languages or of another analyser.

Batch by batch, each in a transaction of its own that holds the connection as every writer does and
keeps how far it has come. So a run may be cut short, two may be under way at once, and imports go on
between batches: what they store is of the present kind already. Records stay as they are.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import F, Q, QuerySet, Sum

from evidence.analyser import VERSION
from evidence.models.connections import Connection, StreamState
from evidence.storing import rows
from evidence.storing.comparing import State
from evidence.storing.deriving import derive
from evidence.storing.destinations import Target, targets_of
from evidence.storing.indexes import Upkeep
from evidence.storing.locking import hold
from evidence.storing.rows import Ref

RECORDS_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class _Place:
    """How far a connection has come: after a record of a stream, for these languages and this
    analyser. Streams go by name."""

    languages: list[str]
    analyser: int
    stream: str = ""
    after: str = ""

    def kept(self) -> dict[str, Any]:
        return {
            "languages": self.languages,
            "analyser": self.analyser,
            "stream": self.stream,
            "after": self.after,
        }


def pending() -> list[str]:
    """The connections whose search text is not all of the present kind; one query."""
    found = _outdated().order_by("connection_id")
    return list(found.values_list("connection_id", flat=True))


def records_of(connection_ids: Collection[str]) -> int:
    """How many records these connections hold."""
    states = StreamState.unscoped.filter(connection_id__in=connection_ids)
    return states.aggregate(total=Sum("record_count"))["total"] or 0


def make_pending(connection_ids: Collection[str]) -> None:
    """Lets everything in these connections be indexed anew from the beginning."""
    rows_named = Connection.unscoped.filter(connection_id__in=connection_ids)
    rows_named.update(indexed_analyser=0, reindexing=None)


def reindex(connection_ids: Collection[str]) -> Iterator[int]:
    """Indexes what is pending in these connections, batch by batch; how many records each time.

    Raises ``DatabaseError``; what was done before stays.
    """
    upkeep = Upkeep()
    for connection_id in connection_ids:
        while (count := reindex_some(connection_id)) is not None:
            upkeep.note(count)
            yield count
    upkeep.finish(connection_ids)


def reindex_some(connection_id: str, *, limit: int = RECORDS_AT_ONCE) -> int | None:
    """Indexes the next records of a connection, durably; how many, None when nothing is pending."""
    with transaction.atomic():
        hold([connection_id])
        row = _outdated().select_related("source").filter(connection_id=connection_id).first()
        return None if row is None else _advance(row, limit)


def _outdated() -> QuerySet[Connection]:
    same = Q(indexed_languages=F("languages"), indexed_analyser=VERSION)
    return Connection.unscoped.exclude(same)


def _advance(row: Connection, limit: int) -> int:
    place = _place(row)
    for target in sorted(targets_of(row), key=lambda each: each.stream.name):
        name = target.stream.name
        if name < place.stream or not target.layout["search"]:
            continue
        after = place.after if name == place.stream else ""
        page = rows.page(row.connection_id, name, after=after, limit=limit)
        if page:
            _index(target, page)
            last = max(ref.record_key for ref in page)
            _keep(row, _Place(place.languages, place.analyser, name, last))
            return len(page)
    _finish(row)
    return 0


def _place(row: Connection) -> _Place:
    """Where to go on; at the beginning when what is wanted has changed since."""
    start = _Place(row.languages, VERSION)
    if row.reindexing is None:
        return start
    kept = _Place(**row.reindexing)
    wanted = (kept.languages, kept.analyser) == (start.languages, start.analyser)
    return kept if wanted else start


def _index(target: Target, page: dict[Ref, State]) -> None:
    derived = [derive(target, key=ref.record_key, data=state.data) for ref, state in page.items()]
    rows.delete_search(page)
    rows.add_search(each.search for each in derived if each.search is not None)


def _keep(row: Connection, place: _Place) -> None:
    row.reindexing = place.kept()
    row.save(update_fields=["reindexing"])


def _finish(row: Connection) -> None:
    row.reindexing = None
    row.indexed_languages, row.indexed_analyser = row.languages, VERSION
    row.save(update_fields=["reindexing", "indexed_languages", "indexed_analyser"])
