"""Choose the layout of a stream from its declared roles and types, and summarize its records."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import StrEnum
from functools import cached_property
from typing import Any
from urllib.parse import quote, urlencode

from django.urls import reverse

from evidence.access.grant_text import humanize, stream_label
from evidence.access.records import VisibleRecord, VisibleRecords
from evidence.declarations.authorship import Origin, determine_origin, normalize_identity
from evidence.declarations.declaration import (
    ACTOR_ID_ROLE,
    ACTOR_ROLE,
    Field,
    Relation,
    StreamDeclaration,
)
from evidence.declarations.values import field_text, money_format
from owner.text import escape_invisible, one_line

TEXT_ROLE = "secondary"
AMOUNT_TYPE = "currency"
HTML_MEDIA_TYPE = "text/html"
EXCERPT_CHARS = 160
WITHOUT_CENTS = frozenset({"CLP", "ISK", "JPY", "KRW", "PYG", "UGX", "VND", "XAF", "XOF", "XPF"})
"""Currencies whose smallest unit is the currency itself (ISO 4217)."""


class Layout(StrEnum):
    MAILBOX = "mailbox"
    CONVERSATION = "conversation"
    CALENDAR = "calendar"
    BOOKINGS = "bookings"
    LIST = "list"


@dataclass(frozen=True)
class StreamRoles:
    """The fields of a stream by what they mean. Only roles, types and relations decide."""

    stream: StreamDeclaration

    @cached_property
    def actor(self) -> str | None:
        return self._first(lambda field: field.role == ACTOR_ROLE)

    @cached_property
    def actor_id(self) -> str | None:
        return self._first(lambda field: field.role == ACTOR_ID_ROLE)

    @cached_property
    def text(self) -> str | None:
        """The long text: the secondary field, or a title that is declared as text."""
        title = self.stream.fields.get(self.stream.title_field or "")
        if title is not None and title.pdpp_type == "text":
            return title.name
        return self._first(lambda field: field.role == TEXT_ROLE)

    @cached_property
    def title(self) -> str | None:
        """The title field, unless it is the text itself."""
        title = self.stream.title_field
        return None if title == self.text else title

    @cached_property
    def amount(self) -> str | None:
        return self._first(lambda field: field.pdpp_type == AMOUNT_TYPE)

    def smallest_units(self, currency: str) -> int:
        """Return how many units of the amount field make one unit of the currency."""
        field = self.stream.fields.get(self.amount or "")
        declared = None if field is None else money_format(field)
        if declared is not None and (unit := declared.text(1, currency)) is not None:
            return round(1 / float(unit.split()[0]))
        if field is None or field.types != ("integer",) or currency in WITHOUT_CENTS:
            return 1
        return 100

    @cached_property
    def end(self) -> str | None:
        """A second time that records can be selected by: when an event ends."""
        start = self.stream.event_time_field
        return self._first(
            lambda field: (
                field.kind == "time" and bool(field.range_operators) and field.name != start
            )
        )

    @cached_property
    def html(self) -> str | None:
        """A string field whose schema declares the media type of HTML."""
        return self._first(lambda field: field.schema.get("contentMediaType") == HTML_MEDIA_TYPE)

    @cached_property
    def parent(self) -> Relation | None:
        """The relation to the record that contains this one, such as a channel."""
        relations = self.stream.relations.values()
        return next((each for each in relations if each.cardinality == "has_one"), None)

    @cached_property
    def layout(self) -> Layout:
        if self.amount and self.stream.event_time_field:
            return Layout.BOOKINGS
        if self.end and self.title:
            return Layout.CALENDAR
        if self.actor and self.text and not self.title:
            return Layout.CONVERSATION
        if self.actor and self.text and self.title:
            return Layout.MAILBOX
        return Layout.LIST

    def _first(self, test: Any) -> str | None:
        fields: Iterable[Field] = self.stream.fields.values()
        return next((field.name for field in fields if test(field)), None)


@dataclass(frozen=True)
class RecordSummary:
    """One record as lists show it. Every text is inert, with invisible characters escaped."""

    visible: VisibleRecords
    record: VisibleRecord
    roles: StreamRoles

    @property
    def url(self) -> str:
        return record_url(self.connection_id, self.visible.stream.name, self.record.record_key)

    @property
    def connection_id(self) -> str:
        return self.record.connection.connection_id

    @property
    def connection(self) -> str:
        return self.record.connection.display_name

    @property
    def kind(self) -> str:
        return stream_label(self.visible.stream)

    @property
    def layout(self) -> str:
        return self.roles.layout.value

    @property
    def title(self) -> str:
        """The title; without one the begin of the text, else the key."""
        for name in (self.roles.title, self.roles.text):
            if text := self.line(name):
                return text
        return one_line(self.record.record_key)

    @property
    def actor(self) -> str:
        return self.line(self.roles.actor) or self.line(self.roles.actor_id)

    @property
    def address(self) -> str:
        """The address beside the name: the id of the actor if it is an address."""
        address = self.line(self.roles.actor_id)
        return address if "@" in address and address != self.actor else ""

    @property
    def excerpt(self) -> str:
        """The begin of the text, empty where the title already shows it."""
        return self.line(self.roles.text, EXCERPT_CHARS) if self.line(self.roles.title) else ""

    @property
    def text(self) -> str:
        return escape_invisible(field_text(self.record.data.get(self.roles.text or "")) or "")

    @cached_property
    def at(self) -> datetime | None:
        """The event time; midnight UTC for a date."""
        return parse_time(self.record.data.get(self.visible.stream.event_time_field or ""))

    @cached_property
    def end(self) -> datetime | None:
        return parse_time(self.record.data.get(self.roles.end or ""))

    @property
    def has_clock(self) -> bool:
        """Whether the time says more than the day."""
        value = self.record.data.get(self.visible.stream.event_time_field or "")
        return isinstance(value, str) and len(value) > 10 and not self.is_all_day

    @property
    def is_all_day(self) -> bool:
        return self.record.data.get("is_all_day") is True

    @property
    def clock(self) -> str:
        return f"{self.at:%H:%M}" if self.at is not None and self.has_clock else ""

    @property
    def day(self) -> date | None:
        return None if self.at is None else self.at.date()

    @property
    def value(self) -> str:
        """The measured value with its unit; empty for records without one."""
        return " ".join(filter(None, map(self.line, ("value", "unit"))))

    @property
    def amount(self) -> float | None:
        """The amount in units of its currency. Integers count its smallest unit, such as cents."""
        value = self.record.data.get(self.roles.amount or "")
        if not isinstance(value, int | float) or isinstance(value, bool):
            return None
        return value / self.roles.smallest_units(self.currency)

    @property
    def currency(self) -> str:
        return self.line("currency")

    @property
    def listed_fields(self) -> frozenset[str]:
        """The fields that a list shows."""
        roles = self.roles
        names = (roles.title, roles.text, roles.actor, roles.actor_id, roles.end, roles.amount,
                 "currency", self.visible.stream.event_time_field)  # fmt: skip
        return frozenset(name for name in names if name in self.record.data)

    @property
    def is_by_owner(self) -> bool:
        """Whether to show the record as the owner's own: by direction or id, else by name."""
        identities, roles = self.record.connection.identities, self.visible.stream.authorship
        deciding = {name: role for name, role in roles.items() if role != ACTOR_ROLE}
        if deciding:
            origin = determine_origin(self.record.data, roles=deciding, identities=identities)
            return origin == Origin.OWNER
        name = self.record.data.get(self.roles.actor or "")
        return isinstance(name, str) and normalize_identity(name) in identities

    def line(self, name: str | None, max_length: int = 120) -> str:
        """Return a field on one line; empty without a value."""
        value = self.record.data.get(name or "")
        if value is None or value in ("", []):
            return ""
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            value = ", ".join(value)
        return one_line(value, max_length=max_length)


def summarize(visible: VisibleRecords, records: Iterable[VisibleRecord]) -> list[RecordSummary]:
    roles = StreamRoles(visible.stream)
    return [RecordSummary(visible, record, roles) for record in records]


def parse_time(value: object) -> datetime | None:
    """Return a date or an instant of a record as UTC, or None."""
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def record_url(connection_id: str, stream: str, key: str) -> str:
    """Return the page of a record. Browsers would shorten a path that ends in dots."""
    end = quote(key, safe="") if key.strip(".") else f"?{urlencode({'key': key})}"
    return f"{reverse('record-list', args=[connection_id, stream])}{end}"


def stream_url(connection_id: str, stream: str, **query: object) -> str:
    """Return the page that lists a stream of a connection; empty parameters are left out."""
    chosen = {name: value for name, value in query.items() if value not in (None, "")}
    address = reverse("record-list", args=[connection_id, stream])
    return f"{address}?{urlencode(chosen)}" if chosen else address


def relation_label(relation: Relation) -> str:
    return humanize(relation.stream)
