"""Summarize records as lists and pages show them, and record what they showed. Every text is inert."""

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from functools import cached_property
from itertools import islice
from typing import Any
from urllib.parse import quote, urlencode

from django.db import transaction
from django.urls import reverse
from django.utils import timezone

from evidence.access.gate import Gate
from evidence.access.grant_text import field_label, format_day, humanize, stream_label
from evidence.access.records import VisibleRecord, VisibleRecords
from evidence.access.scope import Scope
from evidence.declarations.declaration import (
    ACTOR_ROLE,
    BLOB_REFERENCE,
    DIRECTION_ROLE,
    Field,
    Origin,
    determine_origin,
    field_text,
    normalize_identity,
)
from evidence.declarations.values import key_text
from evidence.errors import ApiException
from evidence.ledger.entries import DisclosedAnswer, DisclosedItem, record_disclosure
from owner.records.record_roles import ALL_DAY_FIELDS, HTML_MEDIA_TYPE, Layout, StreamRoles
from owner.site import link
from owner.text import (
    DATE_CHARS,
    duration_text,
    escape_invisible,
    file_type_text,
    number_text,
    one_line,
    parse_time,
    to_local_time,
    value_text,
)

EXCERPT_CHARS = 160
NOT_BRIEF = ("latitude", "longitude", "confidence")
"""Numbers that say nothing in a line about a record."""
BRIEF_CHARS, BRIEF_VALUES = 40, 3
MAX_LATITUDE, MAX_LONGITUDE = 90, 180
PICTURE_TYPES = frozenset({"image/avif", "image/gif", "image/jpeg", "image/png", "image/webp"})
"""The types of pictures that blobs are served with inline."""


@dataclass(eq=False)
class RecordSummary:
    """One record as lists show it. Every text is inert, with invisible characters escaped.

    `person_url` is the page of its actor, set by `person_links`; `thread_size` the number of records
    in its thread, set by `browse_page`.
    """

    visible: VisibleRecords
    record: VisibleRecord
    roles: StreamRoles
    person_url: str = ""
    thread_size: int = 0

    @property
    def thread(self) -> str | None:
        return key_text(self.record.data.get(self.roles.thread or ""))

    @property
    def thread_url(self) -> str:
        name = self.visible.stream.name
        return stream_url(self.connection_id, name, thread=self.thread) if self.thread else ""

    @cached_property
    def url(self) -> str:
        return record_url(self.connection_id, self.visible.stream.name, self.record.record_key)

    @property
    def connection_id(self) -> str:
        return self.record.connection.connection_id

    @property
    def connection(self) -> str:
        return self.record.connection.display_name

    @property
    def is_demo(self) -> bool:
        return self.record.connection.is_demo

    @cached_property
    def kind(self) -> str:
        return stream_label(self.visible.stream)

    @property
    def heading(self) -> str:
        """The title, who it is from and its day, for a page that is about this record."""
        day = "" if self.day is None else format_day(self.day)
        return " \N{MIDDLE DOT} ".join(filter(None, [f"“{self.title}”", self.actor, day]))

    @property
    def layout(self) -> str:
        return self.roles.layout.value

    @cached_property
    def title(self) -> str:
        """The title; without one the begin of the text, the kind of journey, position or key."""
        for name in (self.roles.title, self.roles.text):
            if text := self.line(name):
                return humanize(text) if self.roles.is_title_chosen else text
        if self._is_journey and (kind := self.line(self.roles.kind)):
            return humanize(kind)
        position = [self.record.data.get(name) for name in self.roles.position or ()]
        numbers = [f"{each:.4f}" for each in position if isinstance(each, int | float)]
        return ", ".join(numbers) or one_line(self.record.record_key)

    @property
    def _is_journey(self) -> bool:
        """Whether the record has a second position, where it ends."""
        ends = self.record.data.keys() - {*(self.roles.position or ())}
        return any(self.record.data[name] is not None for name in ends if name.endswith("latitude"))

    @cached_property
    def duration(self) -> str:
        """How long a visit or a journey lasted; empty for other records."""
        if self.roles.layout != Layout.PLACES or not self.at or not self.end or self.end <= self.at:
            return ""
        return duration_text((self.end - self.at).total_seconds())

    @property
    def stay(self) -> str:
        """Return until when a visit or a journey lasted, and how long."""
        if not self.duration or self.at is None or self.end is None:
            return ""
        day = "" if self.end.date() == self.at.date() else f"{format_day(self.end)}, "
        return f"until {day}{self.end:%H:%M}, {self.duration}"

    @cached_property
    def actor(self) -> str:
        """The name of who wrote the record, else the address or id."""
        addresses = () if self.roles.is_contact_card else self.roles.addresses
        names = (self.roles.actor, self.roles.actor_id, *addresses)
        return next(filter(None, map(self.line, names)), "")

    @property
    def address(self) -> str:
        """The address beside the name: the address or id of the actor if it is an address."""
        names = (self.roles.actor_id, *self.roles.addresses)
        address = next(filter(None, map(self.line, names)), "")
        return address if "@" in address and address != self.actor else ""

    @cached_property
    def excerpt(self) -> str:
        """The begin of the text, empty where the title already shows it."""
        return self.line(self.roles.text, EXCERPT_CHARS) if self.line(self.roles.title) else ""

    @property
    def brief(self) -> str:
        """A few short values, for records without a measured value; beside a text only numbers."""
        lines = (
            f"{field_label(each, self.roles.stream.fields)}: {self.words(each, BRIEF_CHARS)}"
            for each in self._brief_fields
        )
        return " \N{MIDDLE DOT} ".join(map(escape_invisible, lines))

    @cached_property
    def _brief_fields(self) -> Sequence[Field]:
        if self.value or self.amount is not None:
            return ()
        kinds = ("number",) if self.excerpt else ("number", "string")
        shown = {*self.roles.stream.primary_key, *self._role_fields, self.roles.kind}
        fields = (
            field
            for name, field in self.roles.stream.fields.items()
            if name not in shown and not name.endswith(("_id", *NOT_BRIEF))
            if field.kind in kinds and name != "media_type" and self.line(name)
        )
        return tuple(islice(fields, BRIEF_VALUES))

    @property
    def text(self) -> str:
        return escape_invisible(field_text(self.record.data.get(self.roles.text or "")) or "")

    @cached_property
    def at(self) -> datetime | None:
        """The event time in the owner's time zone; midnight of the day if it has no clock."""
        return self._local_time(self.visible.stream.event_time_field)

    @cached_property
    def end(self) -> datetime | None:
        return self._local_time(self.roles.end)

    def _local_time(self, name: str | None) -> datetime | None:
        value = self.record.data.get(name or "")
        moment = parse_time(value)
        if moment is None:
            return None
        if self.is_all_day or len(str(value)) <= DATE_CHARS:
            # The day as the source wrote it, whatever its offset from UTC.
            day = datetime.fromisoformat(str(value)).date()
            return datetime.combine(day, time.min, timezone.get_current_timezone())
        return to_local_time(moment)

    @property
    def has_clock(self) -> bool:
        """Whether the time says more than the day."""
        value = self.record.data.get(self.visible.stream.event_time_field or "")
        return isinstance(value, str) and len(value) > DATE_CHARS and not self.is_all_day

    @property
    def is_all_day(self) -> bool:
        return any(self.record.data.get(name) is True for name in ALL_DAY_FIELDS)

    @property
    def clock(self) -> str:
        return f"{self.at:%H:%M}" if self.at is not None and self.has_clock else ""

    @property
    def day(self) -> date | None:
        return None if self.at is None else self.at.date()

    @cached_property
    def value(self) -> str:
        """The measured value with its unit; empty for records without one."""
        number: Any = self.record.data.get(self.roles.measure or "")
        unit, text = self.line(self.roles.unit), self.line(self.roles.measure)
        if isinstance(number, int | float) and not isinstance(number, bool):
            if unit == "min":
                return duration_text(60 * number)
            text = number_text(number)
        return " ".join(filter(None, (text, unit_text(unit, self.line(self.roles.title)))))

    @property
    def position(self) -> str:
        """Latitude and longitude, ``52.6, 13.3``; empty for a record without a place on earth."""
        match [self.record.data.get(name) for name in self.roles.position or ()]:
            case [float() | int() as latitude, float() | int() as longitude] if (
                abs(latitude) <= MAX_LATITUDE and abs(longitude) <= MAX_LONGITUDE
            ):
                return f"{latitude}, {longitude}"
        return ""

    @property
    def amount(self) -> float | None:
        """The amount in units of its currency. Integers count its smallest unit, such as cents."""
        value = self.record.data.get(self.roles.amount or "")
        if not isinstance(value, int | float) or isinstance(value, bool):
            return None
        return value / self.roles.smallest_units(self.currency)

    @property
    def currency(self) -> str:
        return self.line(self.roles.currency)

    @property
    def listed_fields(self) -> frozenset[str]:
        """The fields that a list shows."""
        names = (*self._role_fields, *(field.name for field in self._brief_fields))
        return frozenset(name for name in names if name in self.record.data)

    @property
    def _role_fields(self) -> frozenset[str]:
        roles = self.roles
        names = (roles.title, roles.text, roles.kind, roles.actor, roles.actor_id, *roles.addresses,
                 roles.end, roles.amount, roles.currency, roles.measure, roles.unit, *(roles.position or ()),
                 self.visible.stream.event_time_field)  # fmt: skip
        return frozenset(filter(None, names))

    @property
    def is_by_owner(self) -> bool:
        """Whether to show the record as the owner's own: by direction, else by sender or name."""
        identities, stream = self.record.connection.identities, self.visible.stream
        deciding = {name: role for name, role in stream.authorship.items() if role != ACTOR_ROLE}
        if any(role == DIRECTION_ROLE and self.line(name) for name, role in deciding.items()):
            origin = determine_origin(self.record.data, roles=deciding, identities=identities)
            return origin == Origin.OWNER
        if self.roles.is_contact_card:
            return False
        senders = [self.roles.actor_id, *self.roles.addresses]
        names = [name for name in senders if self.line(name)] or [self.roles.actor]
        sender = self.record.data.get(names[0] or "")
        return isinstance(sender, str) and normalize_identity(sender) in identities

    @property
    def file_url(self) -> str:
        """The address of the file that the record is; empty without one."""
        blob_id = self._blob.get("blob_id")
        if not isinstance(blob_id, str) or not blob_id or self._is_html_of_text:
            return ""
        return reverse("record-file", args=[self.connection_id, blob_id])

    @property
    def html_url(self) -> str:
        """The address of the frame with the HTML of the record; empty without any."""
        if not self._is_html_of_text and not self.record.data.get(self.roles.html or ""):
            return ""
        name = self.visible.stream.name
        return link("record-html", self.connection_id, name, key=self.record.record_key)

    @property
    def _is_html_of_text(self) -> bool:
        """Whether the bytes are the formatted text of the record: its declaration names no file."""
        is_html = self._blob.get("media_type") == HTML_MEDIA_TYPE
        return is_html and BLOB_REFERENCE not in self.visible.stream.fields

    @property
    def is_picture(self) -> bool:
        return bool(self.file_url) and self.media_type in PICTURE_TYPES

    @property
    def media_type(self) -> str:
        kind = self._blob.get("mime_type") or self.record.data.get("media_type")
        return one_line(kind).partition(";")[0].strip().lower() if isinstance(kind, str) else ""

    @property
    def file_type(self) -> str:
        return file_type_text(self.media_type)

    @property
    def size_bytes(self) -> int | None:
        size = self._blob.get("size_bytes") or self.record.data.get("size_bytes")
        return size if isinstance(size, int) else None

    @property
    def _blob(self) -> Mapping[str, Any]:
        reference = self.record.data.get(BLOB_REFERENCE)
        return reference if isinstance(reference, Mapping) else {}

    def words(self, field: Field, max_length: int = 120) -> str:
        """Return a field on one line as people write it; empty without a value."""
        if field.name == "media_type" and self.media_type:
            return self.file_type
        return one_line(value_text(field, self.record.data.get(field.name)), max_length=max_length)

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


def unit_text(unit: str, kind: str) -> str:
    """Return a unit as people write it. What is counted is its own unit, such as ``steps``."""
    if unit != "count":
        return unit.replace("count/", "per ")
    word = humanize(kind).lower()
    return word if word.endswith("s") and " " not in word else ""


def record_url(connection_id: str, stream: str, key: str) -> str:
    """Return the page of a record. Browsers would shorten a path that ends in dots."""
    end = quote(key, safe="") if key.strip(".") else f"?{urlencode({'key': key})}"
    return f"{reverse('record-list', args=[connection_id, stream])}{end}"


def stream_url(connection_id: str, stream: str, **query: object) -> str:
    """Return the page that lists a stream of a connection; empty parameters are left out."""
    return link("record-list", connection_id, stream, **query)


def record_owner_read(scope: Scope, items: Iterable[DisclosedItem], *, route: str) -> None:
    """Add one entry for a page; its size is unknown, as a page is more than its records."""
    answer = DisclosedAnswer(
        route=f"admin {route}",
        request_id=f"req_{secrets.token_hex(10)}",
        items=list(items),
        size_bytes=0,
    )
    record_disclosure(scope, answer, now=timezone.now())


def headings_of(
    gate: Gate, connection_id: str, stream: str, record_key: str, *, route: str
) -> list[str]:
    """Return what a page about one record calls it, and add an entry; empty if it is not there."""
    try:
        visible = gate.stream(stream, connection_id=connection_id)
    except ApiException:
        return []
    with transaction.atomic():
        found = summarize(visible, visible.get(record_key))
        if found:
            record_owner_read(gate.scope, listed_items(found), route=route)
    return [each.heading for each in found]


def listed_items(summaries: Iterable[RecordSummary]) -> list[DisclosedItem]:
    """Return what a list shows of each record: the fields with a role."""
    return [
        DisclosedItem(
            each.connection_id, each.visible.stream.name, each.record.record_key, each.listed_fields
        )
        for each in summaries
    ]


def summed_items(visible: VisibleRecords, *fields: str | None) -> Iterator[DisclosedItem]:
    """Yield the fields of a stream that a page sums up, for the ledger."""
    for facts in visible.connections:
        names = frozenset(filter(None, fields))
        yield DisclosedItem(facts.connection_id, visible.stream.name, None, names)


def are_all_demo(records: Iterable[RecordSummary]) -> bool:
    """Return whether a page shows demo data alone, so that one badge at its heading says so."""
    shown = [record.is_demo for record in records]
    return bool(shown) and all(shown)
