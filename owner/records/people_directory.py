"""Find people and link names to their pages: names, addresses, counts by stream, first and last contact."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db.models import Exists, F, Max, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Coalesce, Substr
from django.urls import reverse

from evidence.access.gate import Gate
from evidence.access.grant_text import stream_label
from evidence.access.records import VisibleRecords
from evidence.ledger.entries import DisclosedItem
from owner.records.models import Mention, PersonCount, PersonMerge
from owner.records.person_identities import (
    PersonName,
    describe_identity,
    normalize_phone,
    owner_identities,
    people_of,
    subject_of,
    with_country,
)
from owner.records.record_roles import Layout, StreamRoles
from owner.records.record_summaries import RecordSummary
from owner.site import owner
from owner.text import one_line


def link_people(summaries: Iterable[RecordSummary]) -> None:
    """Set the page of whom each record is from or about, unless it is the owner. One query."""
    found = [
        (each, subject.identity)
        for each in summaries
        if each.roles.names_people
        and not each.is_by_owner
        and (subject := subject_of(each.roles, each.record.data, each.connection_id)) is not None
    ]
    country = country_for(identity for _, identity in found)
    urls = person_urls({with_country(identity, country) for _, identity in found})
    for summary, identity in found:
        summary.person_url = urls.get(with_country(identity, country), "")


def people_in(summary: RecordSummary) -> list[tuple[str, str]]:
    """Return the people of a record besides its subject, with their pages if any. One query."""
    if not summary.roles.names_people or summary.roles.is_contact_card:
        return []
    people = _others(summary)
    urls = person_urls({each.identity for each in people})
    return [
        (one_line(each.name or describe_identity(each.identity)), urls.get(each.identity, ""))
        for each in people
    ]


def _others(summary: RecordSummary) -> list[PersonName]:
    roles, data, connection = summary.roles, summary.record.data, summary.record.connection
    subject = subject_of(roles, data, connection.connection_id)
    country = owner().country
    people = people_of(
        roles,
        data,
        connection_id=connection.connection_id,
        identities=connection.identities,
        owner=owner_identities(connection.identities, country),
        country=country,
    )
    own = None if subject is None else with_country(subject.identity, country)
    return [each for each in people if each.identity != own]


def country_for(identities: Iterable[str]) -> str:
    """Return the owner's country if some identity may need it. One query, none for addresses alone."""
    return owner().country if any(not each.startswith("mail:") for each in identities) else ""


def person_url(person: str) -> str:
    return reverse("person", args=[person])


def person_urls(identities: Iterable[str]) -> Mapping[str, str]:
    """Return the page of each identity that occurs in a record."""
    rows = PersonCount.unscoped.filter(identity__in=list(identities))
    return {
        identity: person_url(person)
        for identity, person in rows.values_list("identity", "person").distinct()
    }


PAGE_SIZE = 50
MAX_FOUND = 1_000
"""People that a query finds."""
SORTS = {"": "last_at", "most": "records"}
"""Orders of the list: by last contact, and by the largest number of records in one stream."""
NEVER = datetime(1, 1, 1, tzinfo=UTC)
MIN_DIGITS = 3
"""Digits of a query that find a number in another way of writing."""
_PREFIX = len("tel:")


@dataclass(frozen=True, slots=True)
class Place:
    """A stream of a connection that names people."""

    visible: VisibleRecords
    roles: StreamRoles

    @property
    def key(self) -> tuple[str, str]:
        return self.visible.connections[0].connection_id, self.visible.stream.name

    @property
    def label(self) -> str:
        return self.visible.connections[0].display_name

    @property
    def kind(self) -> str:
        return stream_label(self.visible.stream)

    @property
    def fields(self) -> frozenset[str]:
        """The fields that name people and date their records."""
        roles = self.roles
        names = {roles.actor, roles.actor_id, roles.stream.event_time_field,
                 *roles.addresses, *roles.participants}  # fmt: skip
        return frozenset(filter(None, names | ({roles.title} if roles.is_contact_card else set())))

    @property
    def is_calendar(self) -> bool:
        return self.roles.layout == Layout.CALENDAR

    @property
    def is_conversation(self) -> bool:
        return not self.is_calendar and not self.roles.is_contact_card


@dataclass(frozen=True, slots=True)
class Person:
    """One person. `counts` are records by connection; `rows` the counts as stored."""

    person_id: str
    name: str
    identities: Sequence[dict[str, Any]]
    counts: Sequence[tuple[str, int]]
    first: datetime | None
    last: datetime | None
    rows: Sequence[PersonCount]

    @property
    def url(self) -> str:
        return person_url(self.person_id)

    @property
    def records(self) -> int:
        return sum(count for _, count in self.counts)

    @property
    def addresses(self) -> list[str]:
        """The addresses and numbers."""
        return [each["text"] for each in self.identities if each["is_address"]]


class Directory:
    """The people of the connections that are not revoked."""

    def __init__(self, gate: Gate, *, now: datetime) -> None:
        self._now = now
        places = (
            Place(visible.for_connection(facts.connection_id), roles)
            for visible in gate.streams()
            if (roles := StreamRoles(visible.stream)).names_people
            for facts in visible.connections
        )
        self.places: Mapping[tuple[str, str], Place] = {each.key: each for each in places}

    def find(self, query: str, *, sort: str, start: int) -> tuple[list[Person], bool]:
        """Return a page of people, and whether there are more. Four queries.

        The list reads counts in their order, and skips all but the first of each person: so the cost
        of a page does not grow with the number of people.
        """
        rows = self._rows()
        if query:
            rows = rows.filter(person__in=self._matching(query)[:MAX_FOUND])
        found = rows.filter(~Exists(_ahead_of(SORTS[sort], self._rows())))
        order = F(SORTS[sort]).desc(nulls_last=True)
        ids = list(found.order_by(order).values_list("person", flat=True)[start:][: PAGE_SIZE + 1])
        people = self.people(ids[:PAGE_SIZE])
        return [people[each] for each in ids if each in people], len(ids) > PAGE_SIZE

    def person(self, person_id: str) -> Person | None:
        """Return a person by the current or an earlier id."""
        own = self._rows().filter(own_person=person_id).values("person")[:1]
        ids = self._rows().filter(Q(person=person_id) | Q(person__in=own))
        current = ids.values_list("person", flat=True).first()
        return None if current is None else self.people([current]).get(current)

    def namesakes(self, person: Person) -> list[Person]:
        """Return other people with one of the names of a person."""
        condition = Q(pk__in=[])
        for name in {row.name for row in person.rows if row.name}:
            condition |= Q(name__iexact=name)
        ids = self._rows().filter(condition).exclude(person=person.person_id)
        people = self.people(list(ids.values_list("person", flat=True).distinct()[:10]))
        return sorted(people.values(), key=lambda each: -each.records)

    def people(self, ids: Sequence[str]) -> dict[str, Person]:
        """Return people by id. Three queries."""
        groups: dict[str, list[PersonCount]] = defaultdict(list)
        for row in self._rows().filter(person__in=ids).order_by("-records", "identity"):
            if (row.connection_id, row.stream) in self.places:
                groups[row.person].append(row)
        every = [row for rows in groups.values() for row in rows]
        merged = PersonMerge.unscoped.filter(identity__in={row.identity for row in every})
        merges = frozenset(merged.values_list("identity", flat=True))
        past = self._last_before_now([row for row in every if self._is_ahead(row)])
        return {
            person_id: self._person(person_id, rows, merges, past)
            for person_id, rows in groups.items()
        }

    def disclosed(self, people: Iterable[Person]) -> list[DisclosedItem]:
        """Return which streams the counts of people sum up."""
        keys = {(row.connection_id, row.stream) for person in people for row in person.rows}
        return [DisclosedItem(*key, None, self.places[key].fields) for key in sorted(keys)]

    def _rows(self) -> QuerySet[PersonCount]:
        keys = self.places.keys()
        return PersonCount.unscoped.filter(
            connection_id__in={connection_id for connection_id, _ in keys},
            stream__in={stream for _, stream in keys},
        )

    def _matching(self, query: str) -> QuerySet[PersonCount, str]:
        rows = self._rows().annotate(text=Substr("identity", _PREFIX + 1))
        reachable = Q(identity__startswith="mail:") | Q(identity__startswith="tel:")
        found = Q(text__icontains=query)
        typed = with_country(f"tel:{normalize_phone(query) or query}", owner().country)
        number = typed.partition(":")[2].lstrip("+0")
        if len(number) >= MIN_DIGITS and number.isdigit():
            found |= Q(text__contains=number)
        return rows.filter(Q(name__icontains=query) | reachable & found).values_list(
            "person", flat=True
        )

    def _is_ahead(self, row: PersonCount) -> bool:
        return row.last_at is not None and row.last_at > self._now

    def _last_before_now(
        self, rows: Sequence[PersonCount]
    ) -> Mapping[tuple[str, str, str], datetime]:
        """Return the last mention that is not in the future, of counts that have one."""
        condition = Q(pk__in=[])
        for row in rows:
            condition |= Q(
                connection_id=row.connection_id, stream=row.stream, identity=row.identity
            )
        if not rows:
            return {}
        found = Mention.unscoped.filter(condition, at__lte=self._now)
        places = found.values_list("connection_id", "stream", "identity")
        return {tuple(key): at for *key, at in places.annotate(at=Max("at"))}

    def _person(
        self,
        person_id: str,
        rows: Sequence[PersonCount],
        merges: frozenset[str],
        past: Mapping[tuple[str, str, str], datetime],
    ) -> Person:
        counts: dict[str, int] = defaultdict(int)
        for row in rows:
            place = self._place(row)
            # A card has several identities of one person.
            count = counts[place.label] + row.records
            counts[place.label] = row.records if place.roles.is_contact_card else count
        firsts = [row.first_at for row in rows if row.first_at and row.first_at <= self._now]
        lasts = [
            past.get((row.connection_id, row.stream, row.identity))
            if self._is_ahead(row)
            else row.last_at
            for row in rows
        ]
        return Person(
            person_id=person_id,
            name=self._name(rows),
            identities=self._identities(rows, merges),
            counts=sorted(counts.items(), key=lambda each: (-each[1], each[0])),
            first=min(firsts, default=None),
            last=max(filter(None, lasts), default=None),
            rows=rows,
        )

    def _name(self, rows: Sequence[PersonCount]) -> str:
        """Return the name on a contact card, else the most frequent one, else an address."""
        cards = [row for row in rows if self._place(row).roles.is_contact_card]
        names = [row.name for row in [*cards, *rows] if row.name]
        return one_line(names[0] if names else describe_identity(rows[0].identity))

    def _identities(
        self, rows: Sequence[PersonCount], merges: frozenset[str]
    ) -> list[dict[str, Any]]:
        """Return the addresses, numbers, names and ids of a person, and which the owner merged."""
        labels: dict[str, list[str]] = defaultdict(list)
        for row in rows:
            labels[row.identity].append(self._place(row).label)
        own = {row.identity: row.own_person for row in rows}
        has_name = any(row.name or not row.identity.startswith("id:") for row in rows)
        return [
            {
                "text": one_line(describe_identity(identity)),
                "is_address": identity.startswith(("mail:", "tel:")),
                "own_person": own[identity],
                "is_merged": identity in merges,
                "labels": list(dict.fromkeys(found)),
            }
            for identity, found in labels.items()
            if not (has_name and identity.startswith("id:") and identity not in merges)
        ]

    def _place(self, row: PersonCount) -> Place:
        return self.places[row.connection_id, row.stream]


def _ahead_of(column: str, shown: QuerySet[PersonCount]) -> QuerySet[PersonCount]:
    """Return the shown counts of the same person that come before a count in an order of the list."""
    value = Coalesce(column, Value(NEVER)) if column == "last_at" else F(column)
    outer = Coalesce(OuterRef(column), Value(NEVER)) if column == "last_at" else OuterRef(column)
    rows = shown.filter(person=OuterRef("person")).annotate(value=value)
    same_connection = Q(connection_id=OuterRef("connection_id"))
    key_is_larger = (
        Q(connection_id__gt=OuterRef("connection_id"))
        | same_connection & Q(stream__gt=OuterRef("stream"))
        | same_connection & Q(stream=OuterRef("stream"), identity__gt=OuterRef("identity"))
    )
    return rows.filter(Q(value__gt=outer) | Q(value=outer) & key_is_larger)
