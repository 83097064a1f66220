"""Choose the layout of a stream from its declared roles, types and relations."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from evidence.access.grant_text import humanize
from evidence.declarations.declaration import (
    ACTOR_ID_ROLE,
    ACTOR_ROLE,
    ADDRESS_ROLE,
    PARTICIPANT_ROLE,
    THREAD_ROLE,
    Field,
    Relation,
    StreamDeclaration,
    money_format,
)

TEXT_ROLE = "secondary"
CATEGORY_ROLE = "category"
POSITION_ROLES = ("latitude", "longitude")
AMOUNT_TYPE = "currency"
MEASURE_TYPE = "measure"
HTML_MEDIA_TYPE = "text/html"
ALL_DAY_FIELDS = ("is_all_day", "is_day_only")
"""Fields that are true where the day counts, and not the time of day."""
WITHOUT_CENTS = frozenset({"CLP", "ISK", "JPY", "KRW", "PYG", "UGX", "VND", "XAF", "XOF", "XPF"})
"""Currencies whose smallest unit is the currency itself (ISO 4217)."""


class Layout(StrEnum):
    MAILBOX = "mailbox"
    CONVERSATION = "conversation"
    THREAD = "thread"
    CALENDAR = "calendar"
    BOOKINGS = "bookings"
    MEASURES = "measures"
    PLACES = "places"
    LIST = "list"


@dataclass(frozen=True)
class StreamRoles:
    """The fields of a stream by what they mean. Only roles, types and relations decide."""

    stream: StreamDeclaration

    @cached_property
    def actor(self) -> str | None:
        return self._with_role(ACTOR_ROLE)

    @cached_property
    def actor_id(self) -> str | None:
        return self._with_role(ACTOR_ID_ROLE)

    @cached_property
    def addresses(self) -> tuple[str, ...]:
        """Addresses and numbers of the actor, or of whom the title names."""
        return self._all_with_role(ADDRESS_ROLE)

    @cached_property
    def participants(self) -> tuple[str, ...]:
        return self._all_with_role(PARTICIPANT_ROLE)

    @property
    def is_contact_card(self) -> bool:
        """Whether records describe a person: they have addresses and no actor."""
        return bool(self.addresses) and not self.actor and not self.actor_id

    @property
    def names_people(self) -> bool:
        """Whether records name people. An actor of values alone is a device or an app."""
        return bool(
            self.addresses or self.participants or self.actor_id or (self.actor and self.text)
        )

    @cached_property
    def thread(self) -> str | None:
        return self._with_role(THREAD_ROLE)

    @cached_property
    def text(self) -> str | None:
        """The long text: the secondary field, or a title that is declared as text."""
        title = self.stream.fields.get(self.stream.title_field or "")
        if title is not None and title.pdpp_type == "text":
            return title.name
        return self._with_role(TEXT_ROLE)

    @cached_property
    def title(self) -> str | None:
        """The title field, unless it is the text itself."""
        title = self.stream.title_field
        return None if title == self.text else title

    @cached_property
    def is_title_chosen(self) -> bool:
        """Whether the title is a word of a list, such as a kind of workout or of measured value."""
        field = self.stream.fields.get(self.title or "")
        return field is not None and (bool(self.measure) or "enum" in field.schema)

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
    def currency(self) -> str | None:
        """The field with the currency of the amount."""
        field = self.stream.fields.get(self.amount or "")
        declared = None if field is None else money_format(field)
        return self._named("currency" if declared is None else declared.currency_field)

    @cached_property
    def category(self) -> str | None:
        return self._with_role(CATEGORY_ROLE) or self._named("category")

    @cached_property
    def measure(self) -> str | None:
        """The measured number; without a declared one, a number `value` beside a `unit`."""
        declared = self._first(lambda field: field.pdpp_type == MEASURE_TYPE)
        name = declared or (self._named("value") if self._named("unit") else None)
        return name if name and self.stream.fields[name].kind == "number" else None

    @cached_property
    def unit(self) -> str | None:
        """The field with the unit of the measured number."""
        return self._named(str(self._measure_format.get("unit_field", "unit")))

    @cached_property
    def summed_units(self) -> frozenset[str]:
        """The units whose values of a day add up, such as steps."""
        units = self._measure_format.get("summed_units")
        return frozenset(map(str, units)) if isinstance(units, list) else frozenset()

    @cached_property
    def _measure_format(self) -> Mapping[str, Any]:
        field = self.stream.fields.get(self.measure or "")
        declared = None if field is None else field.schema.get("x_pdpp_measure")
        return declared if isinstance(declared, Mapping) else {}

    @cached_property
    def position(self) -> tuple[str, str] | None:
        """The number fields with latitude and longitude, by role or by name."""
        found = [self._with_role(role) or self._named(role) for role in POSITION_ROLES]
        fields = [self.stream.fields[name] for name in found if name]
        is_complete = len(fields) == 2 and all(field.kind == "number" for field in fields)
        return (fields[0].name, fields[1].name) if is_complete else None

    @cached_property
    def kind(self) -> str | None:
        """The field with the kind of a record of a place: a visit, or a way of moving."""
        return self._named("kind") if self.position else None

    @cached_property
    def end(self) -> str | None:
        """A second time that records can be selected by, or of a place: when an event ends."""
        start, has_place = self.stream.event_time_field, self.position is not None
        return self._first(
            lambda field: (
                field.kind == "time"
                and (bool(field.range_operators) or has_place)
                and field.name != start
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
    def describing(self) -> tuple[str, ...]:
        """The fields that say most about a record, most important first."""
        names = (self.actor, *self.participants, self.stream.event_time_field, self.end, self.amount,
                 self.currency, self.measure, self.unit, self.category, self.text)  # fmt: skip
        return tuple(dict.fromkeys(filter(None, names)))

    @cached_property
    def layout(self) -> Layout:
        has_time = self.stream.consent_time_field is not None
        if self.amount and has_time:
            return Layout.BOOKINGS
        if self.position and has_time:
            return Layout.PLACES
        if self.measure and has_time:
            return Layout.MEASURES
        if self.end and self.title and has_time:
            return Layout.CALENDAR
        if self.actor and self.text and not self.title:
            return Layout.CONVERSATION
        if self.actor and self.text and self.title:
            return Layout.MAILBOX
        return Layout.LIST

    def _with_role(self, role: str) -> str | None:
        return self._first(lambda field: field.role == role)

    def _all_with_role(self, role: str) -> tuple[str, ...]:
        return tuple(name for name, field in self.stream.fields.items() if field.role == role)

    def _named(self, name: str) -> str | None:
        return name if name in self.stream.fields else None

    def _first(self, test: Any) -> str | None:
        fields: Iterable[Field] = self.stream.fields.values()
        return next((field.name for field in fields if test(field)), None)


def relation_label(relation: Relation) -> str:
    return humanize(relation.stream)
