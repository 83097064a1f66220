"""Pages of people: everybody, one person with their timeline, and joining two people."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from urllib.parse import urlencode

from django.contrib import messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from evidence.access.crypto import decode_cursor, encode_cursor
from evidence.access.gate import Gate
from evidence.access.granted_streams import key_filter
from evidence.access.owner_scope import owner_scope
from evidence.access.record_counts import within
from evidence.access.record_parts import fetch_one_related
from evidence.access.records import RecordKey
from evidence.access.scope import TimeRange
from evidence.errors import ApiException
from evidence.models.owners import current_owner
from owner.permissions import owner_required
from owner.records import people_index
from owner.records.models import Mention, PersonCount, PersonMerge
from owner.records.people_directory import (
    PAGE_SIZE,
    SORTS,
    Directory,
    Person,
    Place,
    country_for,
    link_people,
    person_url,
)
from owner.records.person_identities import author_of, with_country
from owner.records.record_page import facts
from owner.records.record_summaries import (
    RecordSummary,
    are_all_demo,
    listed_items,
    record_owner_read,
    summarize,
)

TIMELINE_SIZE = 40
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
    found = _first(rows, "-at", "-record_key", limit=TIMELINE_SIZE + 1)
    records = _load(directory, found[:TIMELINE_SIZE])
    has_more = len(found) > TIMELINE_SIZE
    position = (
        Position(found[TIMELINE_SIZE - 1][3], found[TIMELINE_SIZE - 1][2]) if has_more else None
    )
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


CURSOR_KIND = "owner.person"
MAX_QUERY = 200
MAX_START = 1_000_000


@require_safe
@owner_required
def people_page(request: HttpRequest) -> HttpResponse:
    """List people by last contact or number of records, or those that a query finds."""
    query = request.GET.get("who", "").strip()[:MAX_QUERY]
    sort = request.GET.get("sort", "")
    sort = sort if sort in SORTS else ""
    start = _number(request.GET.get("start", ""))
    gate = Gate(owner_scope(current_owner()))
    with transaction.atomic():
        directory = Directory(gate, now=timezone.now())
        people, has_more = directory.find(query, sort=sort, start=start)
        record_owner_read(gate.scope, directory.disclosed(people), route="people")
    context = {
        "here": "people",
        "who": query,
        "sort": sort,
        "people": people,
        "recent_url": _list_url(who=query),
        "most_url": _list_url(who=query, sort="most"),
        "next_url": _list_url(who=query, sort=sort, start=start + PAGE_SIZE) if has_more else "",
        "first_url": _list_url(who=query, sort=sort) if start else "",
        "is_collecting": people_index.is_collecting(),
    }
    return render(request, "owner/records/people.html", context)


@require_safe
@owner_required
def person_page(request: HttpRequest, person: str) -> HttpResponse:
    """Show one person: addresses, cards, events, and all conversations in one order."""
    gate, now = Gate(owner_scope(current_owner())), timezone.now()
    directory = Directory(gate, now=now)
    shown = _person_or_404(directory, person)
    if shown.person_id != person:
        return redirect("person", shown.person_id)
    query = {"person": shown.person_id}
    after = _position(request.GET.get("after"), gate, query)
    with transaction.atomic():
        found = history(directory, shown, after=after)
        coming, past = ([], []) if after else events(directory, shown, now=now)
        contact_cards = cards(directory, shown)
        records = [*found.records, *coming, *past, *contact_cards]
        items = [*listed_items(records), *directory.disclosed([shown])]
        record_owner_read(gate.scope, items, route="person")
    link_people(found.records)
    who = request.GET.get("who", "").strip()[:MAX_QUERY]
    context = {
        "here": "people",
        "person": shown,
        "is_all_demo": are_all_demo(found.records),
        "cards": [(card, facts(card)) for card in contact_cards],
        "coming": coming,
        "past": past,
        "days": [(day, list(rows)) for day, rows in groupby(found.records, lambda each: each.day)],
        "next_url": _next_url(gate, shown, found.next_position),
        "is_first": after is None,
        "namesakes": directory.namesakes(shown),
        "who": who,
        "others": _others(directory, shown, who),
    }
    return render(request, "owner/records/person.html", context)


@require_POST
@owner_required
def merge_people(request: HttpRequest, person: str) -> HttpResponse:
    """Join another person with this one: all identities of the other belong to this person."""
    directory = Directory(Gate(owner_scope(current_owner())), now=timezone.now())
    kept = _person_or_404(directory, person)
    other = _person_or_404(directory, request.POST.get("other", ""))
    if other.person_id != kept.person_id:
        now = timezone.now()
        with transaction.atomic():
            for identity in {row.identity for row in other.rows}:
                PersonMerge.unscoped.update_or_create(
                    identity=identity, defaults={"person": kept.person_id, "merged_at": now}
                )
            people_index.join_people()
        messages.success(request, f"{other.name} and {kept.name} are one person now.")
    return redirect(_current_url(kept))


@require_POST
@owner_required
def separate_identity(request: HttpRequest, person: str) -> HttpResponse:
    """Undo the merge of one identity."""
    own = request.POST.get("identity", "")
    rows = PersonCount.unscoped.filter(own_person=own, person=person)
    with transaction.atomic():
        merges = PersonMerge.unscoped.filter(identity__in=rows.values("identity"))
        if merges.delete()[0]:
            people_index.join_people()
            messages.success(request, "The merge is undone.")
    return redirect("person", person)


def _person_or_404(directory: Directory, person_id: str) -> Person:
    found = directory.person(person_id)
    if found is None:
        raise Http404
    return found


def _current_url(person: Person) -> str:
    """Return the page of a person whose id a merge may have changed."""
    row = PersonCount.unscoped.filter(own_person=person.rows[0].own_person).first()
    return person_url(person.person_id if row is None else row.person)


def _others(directory: Directory, person: Person, query: str) -> list[Person]:
    """Return the people that a query for a merge finds."""
    if not query:
        return []
    people, _ = directory.find(query, sort="most", start=0)
    return [each for each in people if each.person_id != person.person_id][:10]


def _position(after: str | None, gate: Gate, query: dict[str, str]) -> Position | None:
    if not after:
        return None
    try:
        place = decode_cursor(after, CURSOR_KIND, scope=gate.scope, query=query)
    except ApiException:
        return None
    return Position(datetime.fromisoformat(place["at"]), place["record_key"])


def _next_url(gate: Gate, person: Person, position: Position | None) -> str:
    if position is None:
        return ""
    place = {"at": position.at.isoformat(), "record_key": position.record_key}
    query = {"person": person.person_id}
    cursor = encode_cursor(CURSOR_KIND, scope=gate.scope, query=query, place=place)
    return f"{person.url}?{urlencode({'after': cursor})}"


def _list_url(**query: object) -> str:
    chosen = {name: value for name, value in query.items() if value}
    return f"{reverse('people')}?{urlencode(chosen)}" if chosen else reverse("people")


def _number(text: str) -> int:
    is_number = text.isascii() and text.isdigit() and len(text) < 8
    return min(int(text), MAX_START) if is_number else 0
