"""The pages of people: a list to search, one person, and merging two of them."""

from datetime import datetime
from itertools import groupby
from urllib.parse import urlencode

from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from evidence.access.crypto import decode_cursor, encode_cursor
from evidence.access.gate import Gate
from evidence.access.owner_scope import owner_scope
from evidence.errors import ApiException
from evidence.models.owners import current_owner
from owner.permissions import owner_required
from owner.records import people_index
from owner.records.models import PersonCount, PersonMerge
from owner.records.owner_reads import listed_items, record_owner_read
from owner.records.people_directory import PAGE_SIZE, SORTS, Directory, Person
from owner.records.person_history import Position, cards, events, history
from owner.records.person_links import link_people, person_url
from owner.records.record_lists import are_all_demo
from owner.records.record_page import facts

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
                    identity=identity,
                    defaults={"person": kept.person_id, "merged_at": now},
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
