"""What one person and the owner wrote to each other on all channels, and the events with them."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import QuerySet

from evidence.access.granted_streams import key_filter
from evidence.access.record_counts import within
from evidence.access.record_parts import fetch_one_related
from evidence.access.records import RecordKey
from evidence.access.scope import TimeRange
from owner.records.models import Mention
from owner.records.people_directory import Directory, Person, Place
from owner.records.person_identities import author_of, with_country
from owner.records.person_links import country_for
from owner.records.record_summaries import RecordSummary, summarize

PAGE_SIZE = 40
MAX_EVENTS = 5
MAX_CARDS = 5
MAX_REPLIES = 60
MAX_CHATS = 6
"""Chats of one page whose other side is looked up."""

MentionKey = tuple[str, str, str, datetime]
"""Connection, stream, record key and time of a mention."""


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a history: it continues with earlier mentions, and smaller keys at the same time."""

    at: datetime
    record_key: str


@dataclass(frozen=True, slots=True)
class HistoryPage:
    records: Sequence[RecordSummary]
    next_position: Position | None


def history(directory: Directory, person: Person, *, after: Position | None) -> HistoryPage:
    """Return a page of mails, messages and other records, newest first, with the owner's replies."""
    rows = _mentions(directory, person, lambda place: place.is_conversation)
    if after is not None:
        rows = [
            each.filter(at__lte=after.at).exclude(at=after.at, record_key__gte=after.record_key)
            for each in rows
        ]
    found = _first(rows, "-at", "-record_key", limit=PAGE_SIZE + 1)
    records = _load(directory, found[:PAGE_SIZE])
    has_more = len(found) > PAGE_SIZE
    position = Position(found[PAGE_SIZE - 1][3], found[PAGE_SIZE - 1][2]) if has_more else None
    window = TimeRange(found[-1][3] if found else None, None if after is None else after.at)
    own = _replies(person, records, window)
    ordered = sorted([*records, *own], key=_newest_first, reverse=True)
    return HistoryPage(ordered, position)


def events(
    directory: Directory, person: Person, *, now: datetime
) -> tuple[list[RecordSummary], list[RecordSummary]]:
    """Return the next events with a person, and the latest past ones."""
    rows = _mentions(directory, person, lambda place: place.is_calendar)
    ahead = _first(
        [each.filter(at__gte=now) for each in rows], "at", "record_key", limit=MAX_EVENTS
    )
    past = _first(
        [each.filter(at__lt=now) for each in rows], "-at", "-record_key", limit=MAX_EVENTS
    )
    coming = sorted(_load(directory, ahead), key=_newest_first)
    return coming, sorted(_load(directory, past), key=_newest_first, reverse=True)


def cards(directory: Directory, person: Person) -> list[RecordSummary]:
    """Return the contact cards of a person."""
    keys: dict[tuple[str, str], set[RecordKey]] = defaultdict(set)
    for row in person.rows:
        place = directory.places[row.connection_id, row.stream]
        if place.roles.is_contact_card:
            rows = Mention.unscoped.filter(
                connection_id=row.connection_id, stream=row.stream, identity=row.identity
            )
            found = rows.values_list("record_key", flat=True).order_by("record_key")[:MAX_CARDS]
            keys[place.key] |= {RecordKey(row.connection_id, key) for key in found}
    return _summaries(directory, keys)[:MAX_CARDS]


def _mentions(
    directory: Directory, person: Person, is_wanted: Callable[[Place], bool]
) -> list[QuerySet[Mention]]:
    """Return the dated mentions of each identity in each wanted stream."""
    return [
        Mention.unscoped.filter(
            connection_id=row.connection_id,
            stream=row.stream,
            identity=row.identity,
            at__isnull=False,
        )
        for row in person.rows
        if is_wanted(directory.places[row.connection_id, row.stream])
    ]


def _first(rows: Sequence[QuerySet[Mention]], *order: str, limit: int) -> list[MentionKey]:
    """Return the first mentions of all together, each from the index. One query."""
    if not rows:
        return []
    columns = ("connection_id", "stream", "record_key", "at")
    parts = [each.order_by(*order).values_list(*columns)[:limit] for each in rows]
    # A record can have several identities of the person, so the union drops duplicates.
    union = parts[0].union(*parts[1:]) if len(parts) > 1 else parts[0]
    return list(union.order_by(*order)[:limit] if len(parts) > 1 else union)


def _load(directory: Directory, found: Iterable[MentionKey]) -> list[RecordSummary]:
    keys: dict[tuple[str, str], set[RecordKey]] = defaultdict(set)
    for connection_id, stream, key, _ in found:
        keys[connection_id, stream].add(RecordKey(connection_id, key))
    return _summaries(directory, keys)


def _summaries(
    directory: Directory, keys: Mapping[tuple[str, str], Collection[RecordKey]]
) -> list[RecordSummary]:
    """Return the records of these keys. One query a stream."""
    return [
        summary
        for place, wanted in keys.items()
        for summary in summarize(
            directory.places[place].visible,
            fetch_one_related(directory.places[place].visible, wanted).values(),
        )
    ]


def _replies(
    person: Person, records: Sequence[RecordSummary], window: TimeRange
) -> list[RecordSummary]:
    """Return what the owner wrote in the chats of these records where nobody else did."""
    chats = {
        (each.connection_id, each.visible.stream.name, chat): each
        for each in records
        if each.roles.parent is not None and each.roles.actor and each.roles.title is None
        and isinstance(chat := each.record.data.get(each.roles.parent.foreign_key), str)
    }  # fmt: skip
    identities = {row.identity for row in person.rows}
    until = None if window.until is None else window.until + timedelta(microseconds=1)
    found = []
    for (_, _, chat), first in list(chats.items())[:MAX_CHATS]:
        parent = first.roles.parent
        visible = first.visible
        if parent is None or visible.stream.consent_time_field is None:
            continue
        in_time = within(visible, TimeRange(window.since, until))
        messages = summarize(
            visible,
            in_time.page(
                limit=MAX_REPLIES,
                descending=True,
                where=[key_filter(visible, parent.foreign_key, chat)],
            ),
        )
        others = [each for each in messages if not each.is_by_owner]
        authors = [_identity(each) for each in others]
        country = country_for(filter(None, authors))
        if all(each and with_country(each, country) in identities for each in authors):
            found += [each for each in messages if each.is_by_owner]
    return found


def _identity(summary: RecordSummary) -> str | None:
    author = author_of(summary.roles, summary.record.data, summary.connection_id)
    return None if author is None else author.identity


def _newest_first(summary: RecordSummary) -> tuple[float, str]:
    return (0.0 if summary.at is None else summary.at.timestamp(), summary.record.record_key)
