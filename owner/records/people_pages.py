"""Pages of people: everybody, one person with their timeline, and joining two people."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby

from django.contrib import messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone

from evidence.access.crypto import decode_cursor, encode_cursor
from evidence.access.gate import Gate
from evidence.access.owner_scope import owner_scope
from evidence.access.record_counts import within
from evidence.access.record_details import fetch_one_related
from evidence.access.records import RecordKey
from evidence.access.scope import TimeRange
from evidence.errors import ApiException
from evidence.models.owners import current_owner
from evidence.read.filters import key_filter
from owner.permissions import owner_posts, owner_reads
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
from owner.site import link

TIMELINE_SIZE = 40
MAX_EVENTS = 5
MAX_CARDS = 5
MAX_REPLIES = 60
MAX_CHATS = 6
"""Chats of one page whose other side is looked up."""

MentionKey = tuple[str, str, str, datetime]
"""Connection, stream, record key and time of a mention."""


def history(
    directory: Directory, person: Person, *, after: tuple[datetime, str] | None
) -> tuple[list[RecordSummary], tuple[datetime, str] | None]:
    """Return a page of mails, messages and other records, newest first, with the owner's replies.

    A page continues after the time and the record key of a mention: with earlier mentions, and
    smaller keys at the same time. The second value is where the next page continues, if there is one.
    """
    rows = _mentions(directory, person, lambda place: place.is_conversation)
    if after is not None:
        at, key = after
        rows = [each.filter(at__lte=at).exclude(at=at, record_key__gte=key) for each in rows]
    found = _first(rows, "-at", "-record_key", limit=TIMELINE_SIZE + 1)
    records = _load(directory, found[:TIMELINE_SIZE])
    *_, last_key, last_at = found[TIMELINE_SIZE - 1] if len(found) > TIMELINE_SIZE else (None, None)
    window = TimeRange(found[-1][3] if found else None, None if after is None else after[0])
    own = _replies(person, records, window)
    ordered = sorted([*records, *own], key=_newest_first, reverse=True)
    return ordered, None if last_at is None or last_key is None else (last_at, last_key)


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
        authors = [author_of(m.roles, m.record.data, m.connection_id) for m in others]
        country = country_for(each.identity for each in authors if each)
        if all(each and with_country(each.identity, country) in identities for each in authors):
            found += [each for each in messages if each.is_by_owner]
    return found


def _newest_first(summary: RecordSummary) -> tuple[float, str]:
    return (0.0 if summary.at is None else summary.at.timestamp(), summary.record.record_key)


CURSOR_KIND = "owner.person"
MAX_QUERY = 200


@owner_reads
def people_page(request: HttpRequest) -> HttpResponse:
    """List people by last contact or number of records, or those that a query finds."""
    query = request.GET.get("who", "").strip()[:MAX_QUERY]
    sort = request.GET.get("sort", "")
    sort = sort if sort in SORTS else ""
    digits = request.GET.get("start", "")
    start = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 7 else 0
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
        "recent_url": link("people", who=query),
        "most_url": link("people", who=query, sort="most"),
        "next_url": link("people", who=query, sort=sort, start=start + PAGE_SIZE)
        if has_more
        else "",
        "first_url": link("people", who=query, sort=sort) if start else "",
        "is_collecting": people_index.is_collecting(),
    }
    return render(request, "owner/records/people.html", context)


@owner_reads
def person_page(request: HttpRequest, person: str) -> HttpResponse:
    """Show one person: addresses, cards, events, and all conversations in one order."""
    gate, now = Gate(owner_scope(current_owner())), timezone.now()
    directory = Directory(gate, now=now)
    shown = _person_or_404(directory, person)
    if shown.person_id != person:
        return redirect("person", shown.person_id)
    query, after = {"person": shown.person_id}, None
    try:
        place = decode_cursor(
            request.GET.get("after", ""), CURSOR_KIND, scope=gate.scope, query=query
        )
        after = datetime.fromisoformat(place["at"]), place["record_key"]
    except ApiException:
        pass  # the first page
    with transaction.atomic():
        talk, position = history(directory, shown, after=after)
        coming, past = ([], []) if after else events(directory, shown, now=now)
        contact_cards = cards(directory, shown)
        records = [*talk, *coming, *past, *contact_cards]
        items = [*listed_items(records), *directory.disclosed([shown])]
        record_owner_read(gate.scope, items, route="person")
    link_people(talk)
    next_url = ""
    if position is not None:
        place = {"at": position[0].isoformat(), "record_key": position[1]}
        cursor = encode_cursor(CURSOR_KIND, scope=gate.scope, query=query, place=place)
        next_url = link("person", shown.person_id, after=cursor)
    who = request.GET.get("who", "").strip()[:MAX_QUERY]
    found = directory.find(who, sort="most", start=0)[0] if who else []
    context = {
        "here": "people",
        "person": shown,
        "is_all_demo": are_all_demo(talk),
        "cards": [(card, facts(card)) for card in contact_cards],
        "coming": coming,
        "past": past,
        "days": [(day, list(rows)) for day, rows in groupby(talk, lambda each: each.day)],
        "next_url": next_url,
        "is_first": after is None,
        "namesakes": directory.namesakes(shown),
        "who": who,
        # The people that a query for a merge finds.
        "others": [each for each in found if each.person_id != shown.person_id][:10],
    }
    return render(request, "owner/records/person.html", context)


@owner_posts
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
        is_namesake = other.name == kept.name
        who = f"Two people named {kept.name}" if is_namesake else f"{other.name} and {kept.name}"
        messages.success(request, f"{who} are one person now.")
    # A merge may have changed the id of the person.
    row = PersonCount.unscoped.filter(own_person=kept.rows[0].own_person).first()
    return redirect("person", kept.person_id if row is None else row.person)


@owner_posts
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
