"""Represent a source declaration as frozen dataclasses, and parse a valid document into them.

Treat them as constants: threads share them. Call `validation.find_errors` first: parsing does not validate.
It reads two shapes: the normative SourceDeclaration (contract 5.1), and the connector manifest of the
reference, which has other member names.

The type of a property can be in `type`, a union, `anyOf` with "null", `const`, `enum`, or a `$ref` into
`$defs` of the same schema. Any other property has no known type, and is "mixed".
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote, urlsplit

from evidence import limits

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
FieldKind = Literal["number", "time", "date", "boolean", "string", "array", "object", "mixed"]

RANGE_OPERATORS = ("gte", "gt", "lte", "lt")
AGGREGATIONS = ("count_distinct", "group_by", "group_by_time", "sum", "min", "max")
BLOB_REFERENCE = "blob_ref"
"""The field of any stream that names the blob of a record: `{"blob_id": ...}`."""
TITLE_ROLE = "primary-title"
EVENT_TIME_ROLE = "event-time"
ACTOR_ROLE = "actor"
"""The author of a record by name. Anyone can use any name."""
ACTOR_ID_ROLE = "actor-id"
"""The author of a record by address or id in the source."""
PARTICIPANT_ROLE = "participant"
"""Other people of a record: names, addresses, numbers or ``Name <address>``. For the owner alone."""
ADDRESS_ROLE = "address"
"""Addresses, numbers or ids of whom a record names: its actor, or, without one, its title.

It joins records of one person on the owner's pages and proves nothing about the author.
"""
THREAD_ROLE = "thread"
"""Records of a stream with the same value belong to one thread."""
PLACE_ROLE = "place"
"""Where a record belongs: the conversation of a message, the location of an event. Hits show it."""
AMOUNT_TYPE, TEXT_TYPE = "currency", "text"
DIRECTION_ROLE = "direction"
"""A field that tells whether the owner sent a record, such as its folder."""

_KINDS_BY_TYPE: Mapping[frozenset[str], FieldKind] = {
    frozenset({"integer"}): "number",
    frozenset({"number"}): "number",
    frozenset({"integer", "number"}): "number",
    frozenset({"boolean"}): "boolean",
    frozenset({"string"}): "string",
    frozenset({"array"}): "array",
    frozenset({"object"}): "object",
}
_KINDS_BY_FORMAT: Mapping[str | None, FieldKind] = {"date-time": "time", "date": "date"}


def field_kind(types: tuple[str, ...], *, format: str | None) -> FieldKind:  # noqa: A002 - the keyword of JSON Schema
    """Return the kind of values of a field, from its types without "null".

    No type, and several types that are not both numbers, are "mixed".
    """
    kind = _KINDS_BY_TYPE.get(frozenset(types), "mixed")
    return _KINDS_BY_FORMAT.get(format, kind) if kind == "string" else kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A top-level field of a stream, with its types without "null".

    `kind` is computed once, because every value of every record needs it.
    """

    name: str
    types: tuple[str, ...]
    nullable: bool
    format: str | None
    pdpp_type: str | None
    role: str | None
    schema: Mapping[str, Json]
    lexical: bool
    semantic: bool
    range_operators: tuple[str, ...]
    aggregations: frozenset[str]
    kind: FieldKind = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", field_kind(self.types, format=self.format))

    def time_key(self, instant: datetime) -> str:
        """Return text whose byte order is that of time: a day, or "t2026-11-21T08:30:00.000000"."""
        if self.kind == "date":
            return "d" + instant.astimezone(UTC).date().isoformat()
        return "t" + instant.astimezone(UTC).isoformat(timespec="microseconds")[:-6]


USABLE_AGGREGATIONS = ("count_distinct", "group_by", "group_by_time", "sum", "avg", "min", "max")
NUMBER_AGGREGATIONS = ("sum", "avg", "min", "max")
"""The aggregations of every number, declared or not."""


KEY_AGGREGATIONS = ("count_distinct", "group_by")
"""The aggregations of every short text and boolean, declared or not."""


def is_long_text(field: Field) -> bool:
    """Return whether a text is declared as one to read, or to be searched by its meaning."""
    return field.kind == "string" and (field.pdpp_type == TEXT_TYPE or field.semantic)


def is_aggregatable(field: Field, use: str) -> bool:
    """Return whether a field declares an aggregation, or has it anyway by its type."""
    if use in field.aggregations:
        return True
    if field.kind in ("string", "boolean"):
        return use in KEY_AGGREGATIONS and not is_long_text(field)
    return field.kind == "number" and use in NUMBER_AGGREGATIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A relation of this stream to `stream`, between records of one connection.

    - has_many: `foreign_key` is a field of the *target*; it contains the key of this record.
    - has_one: `foreign_key` is a field of *this* stream; it contains the key of the target record.

    The reference validator checks this; the protocol text describes only has_many.
    """

    name: str
    stream: str
    foreign_key: str
    cardinality: Literal["has_many", "has_one"]
    default_limit: int
    max_limit: int
    expandable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A named selection of fields."""

    id: str
    label: str
    fields: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class StreamDeclaration:
    """A stream of a source. `fields` are in the order of the schema."""

    name: str
    description: str | None
    label: str | None
    detail: str | None
    semantics: Literal["append_only", "mutable_state"]
    primary_key: tuple[str, ...]
    cursor_field: str | None
    consent_time_field: str | None
    fields: Mapping[str, Field]
    views: Mapping[str, View]
    relations: Mapping[str, Relation]
    selection_fields: bool
    selection_resources: bool
    schema: Mapping[str, Json]
    required: tuple[str, ...]
    count: bool

    @cached_property
    def money_fields(self) -> frozenset[str]:
        """The number fields that declare money, validly or not."""
        return frozenset(
            name for name, field in self.fields.items()
            if field.kind == "number" and "x_pdpp_money" in field.schema
        )  # fmt: skip

    @cached_property
    def title_field(self) -> str | None:
        """The first field with the title role."""
        return self._first(TITLE_ROLE)

    @cached_property
    def heading_field(self) -> str | None:
        """The title, unless this is the text itself, as in a chat message."""
        title = self.title_field
        if title is None or self.actor_field is None:
            return title
        is_text = self.fields[title].pdpp_type == TEXT_TYPE or self.lexical_fields == (title,)
        return None if is_text else title

    @cached_property
    def event_time_field(self) -> str | None:
        """The first field with the event time role, or else the field of the time range."""
        return self._first(EVENT_TIME_ROLE) or self.consent_time_field

    @cached_property
    def has_dates_only(self) -> bool:
        """Whether the field of the time range is a date, which is the same in every time zone."""
        field = self.fields.get(self.consent_time_field or "")
        return field is not None and field.kind == "date"

    @cached_property
    def actor_field(self) -> str | None:
        """The author by name, or else by address or id."""
        return self._first(ACTOR_ROLE) or self._first(ACTOR_ID_ROLE)

    @cached_property
    def place_field(self) -> str | None:
        """The first field with the place role."""
        return self._first(PLACE_ROLE)

    @property
    def twin_fields(self) -> tuple[str, ...]:
        """The fields by which records with different keys are the same.

        Of ``a|b``, b is the field of records without a.
        """
        names = self.schema.get("x_pdpp_twin_fields")
        texts = (name for name in names if isinstance(name, str)) if isinstance(names, list) else ()
        return tuple(name for name in texts if self.fields.keys() >= set(name.split("|")))

    @cached_property
    def amount_field(self) -> str | None:
        """The first field with an amount of money."""
        return next((n for n, field in self.fields.items() if field.pdpp_type == AMOUNT_TYPE), None)

    @cached_property
    def authorship(self) -> Mapping[str, str]:
        """The roles of the fields that determine the author of a record, by field name."""
        roles = (ACTOR_ROLE, ACTOR_ID_ROLE, DIRECTION_ROLE)
        return {name: field.role for name, field in self.fields.items() if field.role in roles}

    @cached_property
    def lexical_fields(self) -> tuple[str, ...]:
        """The names of the fields that text search covers."""
        return tuple(name for name, field in self.fields.items() if field.lexical)

    def _first(self, role: str) -> str | None:
        return next((name for name, field in self.fields.items() if field.role == role), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceDeclaration:
    """One version of a source, with its URI and its short name."""

    source_kind: Literal["connector", "provider_native"]
    source_id: str
    connector_key: str
    version: str
    display_name: str
    publisher: str | None
    streams: Mapping[str, StreamDeclaration]


MAX_REFERENCES = 16
MAX_NODES = 256
"""Nodes read for the type of one property, because nested alternatives multiply."""


class PropertyType(NamedTuple):
    """Types of JSON Schema, with "null", in order of first occurrence."""

    types: tuple[str, ...]
    format: str | None


UNKNOWN = PropertyType((), None)


def property_type(node: object, *, root: object) -> PropertyType:
    """Return the types and the format of a property; `root` is the schema of its stream."""
    return _property_type(node, root, iter(range(MAX_NODES)))


def annotation(node: object, name: str, *, root: object) -> str | None:
    """Return an annotation such as `x_pdpp_role` of the property or of its `$ref` target."""
    for _ in range(MAX_REFERENCES):
        if not isinstance(node, Mapping):
            return None
        value = node.get(name)
        if isinstance(value, str):
            return value
        node = resolve_pointer(node.get("$ref"), root=root)
    return None


def resolve_pointer(reference: object, *, root: object) -> object:
    """Return the target of a local JSON pointer such as `#/$defs/amount`, or None.

    Anchors are not followed.
    """
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return None
    node = root
    for part in unquote(reference).split("/")[1:]:
        node = _child(node, part.replace("~1", "/").replace("~0", "~"))
    return node


def _child(node: object, name: str) -> object:
    if isinstance(node, Mapping):
        return node.get(name)
    if isinstance(node, list) and name.isdecimal() and int(name) < len(node):
        return node[int(name)]
    return None


def _property_type(node: object, root: object, budget: Iterator[int]) -> PropertyType:
    if not isinstance(node, Mapping) or next(budget, None) is None:
        return UNKNOWN
    declared = _declared_type(node)
    if declared.types:
        return declared
    for alternatives in (node.get("anyOf"), node.get("oneOf")):
        if isinstance(alternatives, list) and alternatives:
            return _union(_property_type(part, root, budget) for part in alternatives)
    if "$ref" in node:
        return _property_type(resolve_pointer(node["$ref"], root=root), root, budget)
    return UNKNOWN


def _declared_type(node: Mapping[str, object]) -> PropertyType:
    text_format = node.get("format")
    names = (name for name in _type_names(node) if isinstance(name, str))
    return PropertyType(
        tuple(dict.fromkeys(names)), text_format if isinstance(text_format, str) else None
    )


def _type_names(node: Mapping[str, object]) -> Iterable[object]:
    match node:
        case {"type": str() as name}:
            return (name,)
        case {"type": list() as names}:
            return names
        case {"enum": list() as values}:
            return map(_type_of, values)
        case {"const": value}:
            return (_type_of(value),)
        case _:
            return ()


def _union(alternatives: Iterator[PropertyType]) -> PropertyType:
    property_types = []
    for alternative in alternatives:
        if not alternative.types:
            return UNKNOWN
        property_types.append(alternative)
    types = tuple(dict.fromkeys(name for part in property_types for name in part.types))
    formats = {part.format for part in property_types if part.types != ("null",)}
    return PropertyType(types, formats.pop() if len(formats) == 1 else None)


def _type_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def array_item(stream: StreamDeclaration, field: Field) -> Field | None:
    """Return the items of an array as a field of their own, or None if their type is unknown."""
    types, text_format = property_type(field.schema.get("items"), root=stream.schema)
    known = tuple(each for each in types if each != "null")
    return replace(field, types=known, format=text_format) if known else None


def is_comparable(stream: StreamDeclaration, field: Field) -> bool:
    """Return whether filters can compare a field: any but objects, and arrays of anything else."""
    if field.kind == "array":
        item = array_item(stream, field)
        return item is not None and item.kind in ("string", "number", "boolean")
    return field.kind != "object"


# Values are Any, because the document has been validated.
Node = Mapping[str, Any]

_ABSOLUTE_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/{0,2}[!-.0-~][!-~]*")


def is_wrapper(document: Mapping[str, object]) -> bool:
    """Return whether the document has the normative shape; a manifest has no `source`."""
    return "source" in document


def parse_declaration(document: Node) -> SourceDeclaration:
    """Return the declaration of a valid document of either shape."""
    wrapper = is_wrapper(document)
    return SourceDeclaration(
        source_kind=document["source"]["kind"] if wrapper else "connector",
        source_id=source_id(document),
        connector_key=connector_key(document),
        version=document["declaration_version" if wrapper else "version"],
        display_name=_display_name(document),
        publisher=document.get("publisher", {}).get("id"),
        streams={node["name"]: _stream(node) for node in document["streams"]},
    )


def source_id(document: Node) -> str:
    """Return the absolute URI of the source.

    In a manifest this is its id or its own URI; without either, a URN is made from the key.
    """
    if is_wrapper(document):
        return str(document["source"]["id"])
    candidates = (document.get("connector_id"), document.get("manifest_uri"))
    uri = next((text for text in candidates if is_absolute_uri(text)), None)
    return uri or f"urn:pdpp:connector:{connector_key(document)}"


def connector_key(document: Node) -> str:
    """Return the short name of the source; by default the last segment of its id."""
    key = document.get("connector_key")
    if key is not None:
        return str(key)
    identity = document["source"]["id"] if is_wrapper(document) else document["connector_id"]
    return last_segment(str(identity))


def last_segment(uri: str) -> str:
    """Return the last segment of the path of a URI, or its host without a path.

    This is `mailbox` for `https://registry.example/connectors/mailbox` and `urn:example:mailbox`.
    """
    try:
        parts = urlsplit(uri)
    except ValueError:
        return ""
    path = parts.path.rstrip("/")
    return path.replace(":", "/").rpartition("/")[2] if path else parts.netloc


def is_absolute_uri(text: object) -> bool:
    """Return whether `text` has a scheme and more, in printable ASCII.

    RFC 3986 is stricter, but an identity is only compared, as a string.
    """
    return isinstance(text, str) and bool(_ABSOLUTE_URI.fullmatch(text))


def _display_name(document: Node) -> str:
    if is_wrapper(document):
        return str(document["display"]["name"])
    return str(document.get("display_name") or document.get("name") or connector_key(document))


def _stream(node: Node) -> StreamDeclaration:
    display, query = node.get("display", {}), node.get("query", {})
    selection = node.get("selection", {})
    return StreamDeclaration(
        name=node["name"],
        description=node.get("description"),
        label=display.get("label"),
        detail=display.get("detail"),
        semantics="mutable_state" if node["semantics"] == "mutable_state" else "append_only",
        primary_key=tuple(node["primary_key"]),
        cursor_field=node.get("cursor_field"),
        consent_time_field=node.get("consent_time_field"),
        fields={
            name: _field(name, schema=node["schema"], query=query)
            for name in node["schema"]["properties"]
        },
        views={view["id"]: _view(view) for view in node.get("views", ())},
        relations=_relations(node.get("relationships", ()), expands=query.get("expand", ())),
        selection_fields=selection.get("fields", False),
        selection_resources=selection.get("resources", False),
        schema=node["schema"],
        required=tuple(node["schema"].get("required", ())),
        count=query.get("aggregations", {}).get("count", False),
    )


def _field(name: str, *, schema: Node, query: Node) -> Field:
    node = schema["properties"][name]
    types, text_format = property_type(node, root=schema)
    search, aggregations = query.get("search", {}), query.get("aggregations", {})
    operators = query.get("range_filters", {}).get(name, ())
    return Field(
        name=name,
        types=tuple(name for name in types if name != "null"),
        nullable=not types or "null" in types,
        format=text_format,
        pdpp_type=annotation(node, "x_pdpp_type", root=schema),
        role=annotation(node, "x_pdpp_role", root=schema),
        schema=node if isinstance(node, Mapping) else {},
        lexical=name in search.get("lexical_fields", ()),
        semantic=name in search.get("semantic_fields", ()),
        range_operators=tuple(operator for operator in RANGE_OPERATORS if operator in operators),
        aggregations=frozenset(
            metric for metric in AGGREGATIONS if name in aggregations.get(metric, ())
        ),
    )


def _view(node: Node) -> View:
    return View(id=node["id"], label=node.get("label", node["id"]), fields=tuple(node["fields"]))


def _relations(nodes: list[Node], *, expands: list[Node]) -> dict[str, Relation]:
    expandable = {node["name"]: node for node in expands}
    return {node["name"]: _relation(node, expand=expandable.get(node["name"])) for node in nodes}


def _relation(node: Node, *, expand: Node | None) -> Relation:
    bounds = expand or {}
    max_limit = min(bounds.get("max_limit", limits.EXPAND_MAX), limits.EXPAND_MAX)
    return Relation(
        name=node["name"],
        stream=node["stream"],
        foreign_key=node["foreign_key"],
        cardinality=node["cardinality"],
        default_limit=min(bounds.get("default_limit", limits.EXPAND_DEFAULT), max_limit),
        max_limit=max_limit,
        expandable=expand is not None,
    )


OUTGOING = frozenset((
    "sent", "outgoing", "outbox", "draft", "drafts", "sent items", "sent mail", "sent messages",
    "gesendet", "gesendete elemente", "gesendete objekte", "entwürfe", "envoyés", "messages envoyés",
    "éléments envoyés", "brouillons", "enviado", "enviados", "elementos enviados", "itens enviados",
    "borradores", "inviata", "posta inviata", "bozze", "verzonden", "verzonden items", "concepten",
    "skickat", "skickade objekt", "sendt", "sendte elementer", "sendt post", "lähetetyt", "wysłane",
    "elementy wysłane", "odeslané", "odeslaná pošta", "odoslané", "elküldött", "elküldött elemek",
    "trimise", "poslano", "gönderilmiş postalar", "gönderilmiş öğeler", "απεσταλμένα", "отправленные",
    "надіслані", "изпратени", "送信済み", "送信済みメール", "送信済みアイテム", "下書き", "已发送",
    "已发邮件", "已发送邮件", "已傳送", "寄件備份", "보낸편지함", "보낸 편지함", "đã gửi", "terkirim",
))  # fmt: skip
"""Values of a direction field for records that the owner wrote, in the languages of mail programs."""
_PATH = re.compile(r"[/.]")


class Origin(StrEnum):
    """The author of a record. Clients treat ``UNKNOWN`` as ``THIRD_PARTY``."""

    OWNER = "owner"
    THIRD_PARTY = "third_party"
    UNKNOWN = "unknown"


def determine_origin(
    fields: Mapping[str, object], *, roles: Mapping[str, str], identities: Collection[str]
) -> Origin:
    """Return who wrote a record.

    ``fields`` are the granted fields, ``roles`` maps the names of authorship fields to their roles,
    and ``identities`` are the normalized identities of the owner. Anyone can use any name, so a name can
    show that someone else wrote a record, but never that the owner did. Where a source has a direction
    field, that field decides, because a message can carry a forged sender address; in what the owner sent, a
    name that is not among the identities is only another spelling of the owner's.
    """
    verdicts = [
        (role, _is_by_owner(role, fields.get(name), identities)) for name, role in roles.items()
    ]
    has_direction = DIRECTION_ROLE in roles.values()
    if has_direction and any(verdict for _, verdict in verdicts):
        verdicts = [(role, verdict) for role, verdict in verdicts if role != ACTOR_ROLE]
    if any(verdict is False for _, verdict in verdicts):
        return Origin.THIRD_PARTY
    deciding_role = DIRECTION_ROLE if has_direction else ACTOR_ID_ROLE
    deciding = [verdict for role, verdict in verdicts if role == deciding_role]
    return Origin.OWNER if deciding and all(deciding) else Origin.UNKNOWN


def normalize_identity(identity: str) -> str:
    """Return an identity in the form in which identities are compared."""
    return " ".join(identity.split()).casefold()


def is_outgoing(direction: str) -> bool:
    """Return whether a direction, or the last part of the path of a folder, is the owner's writing."""
    return normalize_identity(_PATH.split(direction)[-1]) in OUTGOING


def _is_by_owner(role: str, value: object, identities: Collection[str]) -> bool | None:
    """Return whether the owner wrote the record, or None if this field does not tell."""
    if not isinstance(value, str) or not value.strip():
        return None
    if role == DIRECTION_ROLE:
        return is_outgoing(value)
    if not identities:
        return None
    is_owner = normalize_identity(value) in identities
    return None if is_owner and role == ACTOR_ROLE else is_owner


def field_text(value: object) -> str:
    """Return the text of a searchable field: a string, or the strings of a list as lines."""
    if isinstance(value, list):
        return "\n".join(item for item in value if isinstance(item, str))
    return value if isinstance(value, str) else ""


_CURRENCY = re.compile(r"[A-Z]{3}")
_DEFAULT_EXPONENT = 2
_EXPONENTS = dict.fromkeys(
    ("BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "VND", "VUV", "XAF",
     "XOF", "XPF"), 0,
) | dict.fromkeys(("BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"), 3)  # fmt: skip
_MAX_EXPONENT = 6
_MAX_AMOUNT = 10**18


@dataclass(frozen=True, slots=True)
class MoneyFormat:
    """How a number field declares money: `x_pdpp_money: {"currency_field": ..., "unit": "minor"}`.

    A minor unit is the smallest of the currency, such as a cent; the exponent says how many digits
    that are, and without one ISO 4217 does. With `"unit": "major"` the number is the amount itself.
    """

    currency_field: str
    is_minor: bool
    exponent: int | None

    def text(self, value: object, currency: object) -> str | None:
        """Return `-74.40 EUR`, or None if the values are no money."""
        if not isinstance(value, int | float) or isinstance(value, bool):
            return None
        if not isinstance(currency, str) or not _CURRENCY.fullmatch(currency):
            return None
        digits = (
            _EXPONENTS.get(currency, _DEFAULT_EXPONENT) if self.exponent is None else self.exponent
        )
        try:
            amount = Decimal(str(value))
        except InvalidOperation:
            return None
        if not abs(amount) < _MAX_AMOUNT:
            return None
        if self.is_minor:
            amount = amount.scaleb(-digits)
        exact = amount if -int(amount.as_tuple().exponent) > digits else round(amount, digits)
        return f"{exact:f} {currency}"


def money_format(field: Field) -> MoneyFormat | None:
    """Return how a field declares money, or None if it does not, or not validly."""
    declared = field.schema.get("x_pdpp_money")
    if field.kind != "number" or not isinstance(declared, Mapping):
        return None
    name, exponent = declared.get("currency_field"), declared.get("exponent")
    if not isinstance(name, str) or declared.get("unit") not in ("minor", "major"):
        return None
    if (
        not isinstance(exponent, int)
        or isinstance(exponent, bool)
        or not 0 <= exponent <= _MAX_EXPONENT
    ):
        exponent = None
    return MoneyFormat(name, declared["unit"] == "minor", exponent)


def currency_field(stream: StreamDeclaration, name: str) -> str | None:
    """Return the field with the currency of a money field, or None if this is no money."""
    field = stream.fields.get(name)
    declared = money_format(field) if field is not None else None
    return declared.currency_field if declared else None


def money_texts(
    stream: StreamDeclaration, data: Mapping[str, object], granted: Mapping[str, object]
) -> dict[str, str]:
    """Return the money of the fields in ``data``. Currencies come from all ``granted`` fields."""
    texts = {}
    for name, value in data.items() if stream.money_fields else ():
        declared = money_format(stream.fields[name]) if name in stream.money_fields else None
        text = declared.text(value, granted.get(declared.currency_field)) if declared else None
        if text is not None:
            texts[name] = text
    return texts
