"""One page of the records of a stream, with the cursors of the pages before and after it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from evidence.access.crypto import decode_cursor, encode_cursor
from evidence.access.gate import Gate
from evidence.access.records import Keyset, VisibleRecord, VisibleRecords
from evidence.access.sql import SQL
from evidence.errors import ApiException
from evidence.ledger.entries import DisclosedItem
from evidence.read import records as reading
from owner.records.record_roles import Layout, StreamRoles
from owner.records.record_summaries import RecordSummary, summarize
from owner.records.record_urls import stream_url

PAGE_SIZE = 50
CURSOR_KIND = "owner.records"


@dataclass(frozen=True, slots=True)
class Listing:
    """The stream that a page lists, and the parameters of its URL."""

    gate: Gate
    visible: VisibleRecords
    roles: StreamRoles
    params: Mapping[str, str]

    @property
    def layout(self) -> Layout:
        """The layout of the stream, or the thread that the URL names."""
        is_thread = self.roles.thread is not None and self.params.get("thread")
        return Layout.THREAD if is_thread else self.roles.layout

    @property
    def connection_id(self) -> str:
        return self.visible.connections[0].connection_id

    def url(self, **query: object) -> str:
        return stream_url(self.connection_id, self.visible.stream.name, **query)


@dataclass(frozen=True, slots=True)
class PageContent:
    """Template variables, the records that the page shows, and the streams that it sums up."""

    context: Mapping[str, Any]
    shown: Sequence[RecordSummary]
    summed: Sequence[DisclosedItem] = ()


@dataclass(frozen=True, slots=True)
class ListPage:
    """One page of records, newest first; a URL is empty where there are no more records."""

    shown: Sequence[RecordSummary]
    next_url: str = ""
    later_url: str = ""


def page_of(
    listing: Listing,
    visible: VisibleRecords,
    kept: Mapping[str, str],
    *,
    where: Sequence[SQL] = (),
) -> ListPage:
    """Return a page of records; its URLs keep the parameters `kept`.

    `after` continues with earlier records, `before` with later ones.
    """
    query = {"connection": listing.connection_id, "stream": visible.stream.name, **kept}
    is_later = "before" in listing.params
    place = _place(listing, query)
    found = reading.page(
        visible, limit=PAGE_SIZE, descending=not is_later, after=place, where=where
    )
    records = found.records[::-1] if is_later else found.records
    if not records:
        return ListPage([])

    def url(param: str, record: VisibleRecord) -> str:
        position = asdict(record.position)
        cursor = encode_cursor(CURSOR_KIND, scope=listing.gate.scope, query=query, place=position)
        return listing.url(**kept, **{param: cursor})

    has_earlier = place is not None if is_later else found.has_more
    has_later = found.has_more if is_later else place is not None
    return ListPage(
        summarize(visible, records),
        url("after", records[-1]) if has_earlier else "",
        url("before", records[0]) if has_later else "",
    )


def _place(listing: Listing, query: Mapping[str, str]) -> Keyset | None:
    """Return the position that the URL continues from."""
    cursor = listing.params.get("before") or listing.params.get("after")
    if not cursor:
        return None
    try:
        place = decode_cursor(cursor, CURSOR_KIND, scope=listing.gate.scope, query=query)
    except ApiException:
        return None
    return Keyset(**place)


def are_all_demo(records: Iterable[RecordSummary]) -> bool:
    """Return whether a page shows demo data alone, so that one badge at its heading says so."""
    shown = [record.is_demo for record in records]
    return bool(shown) and all(shown)
