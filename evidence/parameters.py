"""The parameters of the routes of `/v1`, each declared once: type, bounds, and a sentence that says what it does.

A model per route has them. From it come the parsing of a query string and what its refusal says, the
parameters in the OpenAPI document, the arguments of the MCP tools, and what a cursor is bound to. The
API and the MCP adapter both import it, so it uses no Django.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema

from evidence import limits

Json: TypeAlias = dict[str, Any]
KeyedValue: TypeAlias = tuple[tuple[str, ...], str]
"""The keys in brackets and the value: `filter[size][gte]=1` is `(("size", "gte"), "1")`."""
QueryValues: TypeAlias = Mapping[str, Sequence[KeyedValue]]
"""A query string by parameter: `{"fields": [((), "id,name")], "filter": [(("size",), "1")]}`."""

Metric = Literal["count", "count_distinct", "sum", "avg", "min", "max"]
Granularity = Literal["minute", "hour", "day", "week", "month", "quarter", "year"]
SearchMode = Literal["lexical", "semantic", "hybrid"]
TEXT_CHARS = 8_192
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


class ParameterError(ValueError):
    """A parameter is "unknown", "missing" or "invalid"; `expected` says what it takes."""

    def __init__(
        self, name: str, expected: str = "", *, kind: Literal["unknown", "missing", "invalid"]
    ) -> None:
        says = f"is required and takes {expected}" if kind == "missing" else f"takes {expected}"
        super().__init__(f"{name} {says if expected else f'is {kind}'}.")
        self.name = name
        self.expected = expected
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Shown:
    """What a parameter is besides its type and description.

    `tools` describes it to models, in few words because hosts pay for each; `form` and `tools_most` are
    its type and largest value there, where these differ. A cursor is bound to what is `bound`. `expected`
    says what it takes where its bounds do not.
    """

    tools: str | None
    form: Any
    tools_most: int | None
    bound: bool


def parameter(
    description: str,
    *,
    tools: str | None = None,
    form: Any = None,
    tools_most: int | None = None,
    bound: bool = True,
    expected: str | None = None,
    default: Any = None,
    **bounds: Any,
) -> Any:
    """Declare a parameter of a route; see Shown. `bounds` are those of pydantic's Field."""
    extra: Any = {"expected": expected} if expected else None
    field = Field(default, description=description, json_schema_extra=extra, **bounds)
    field.metadata.append(Shown(tools, form, tools_most, bound))
    return field


def shown(model: type[BaseModel], name: str) -> Shown:
    """Return what a parameter of a route is besides its type and description."""
    return next(each for each in model.model_fields[name].metadata if isinstance(each, Shown))


class Parameters(BaseModel):
    """The parameters of a route. One that was not given is None."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @classmethod
    @cache
    def schemas(cls) -> Mapping[str, Json]:
        """Return the JSON Schema of each parameter by name, with its description."""
        properties = cls.model_json_schema()["properties"] if cls.model_fields else {}
        return {name: _flat(schema) for name, schema in properties.items()}

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> Self:
        """Return the parameters with these values in JSON's types. Raises ParameterError for the first invalid."""
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise _parameter_error(cls, error) from None

    @classmethod
    def parse_query(cls, values: QueryValues) -> Self:
        """Return the parameters of a query string. Raises ParameterError for the first invalid."""
        schemas = cls.schemas()
        for name in values:
            if name not in schemas:
                raise ParameterError(name, kind="unknown")
        return cls.parse({name: _decode(name, schemas[name], values[name]) for name in values})

    def binding(self) -> dict[str, Any]:
        """Return the parameters that a cursor of this query is bound to."""
        values = {name: getattr(self, name) for name in self.bound_names()}
        if values.get("filter"):
            values["filter"] = sorted(values["filter"])
        return values

    @classmethod
    @cache
    def bound_names(cls) -> Sequence[str]:
        """Return the names of the parameters that a cursor is bound to."""
        return [name for name in cls.model_fields if shown(cls, name).bound]


def _flat(schema: Json) -> Json:
    """Return a schema without its alternative null, its title and its default."""
    merged = {**next(iter(schema.get("anyOf", ())), {}), **schema}
    if "const" in merged:
        merged["enum"] = [merged["const"]]
    return {name: merged[name] for name in merged if name not in _LEFT_OUT}


_LEFT_OUT = frozenset({"anyOf", "const", "default", "title"})


def _decode(name: str, schema: Json, values: Sequence[KeyedValue]) -> Any:
    """Return the value of a parameter of a query string as the type that its schema names."""
    kind = schema["type"]
    if kind == "object":
        return values
    if kind == "array":
        if any(keys not in ((), ("",)) for keys, _ in values):
            raise ParameterError(name, "names, not brackets", kind="invalid")
        parts = [part.strip() for _, text in values for part in text.split(",")]
        return list(dict.fromkeys(filter(None, parts)))
    if len(values) > 1 or values[0][0]:
        raise ParameterError(name, "one plain value", kind="invalid")
    text = values[0][1]
    if kind == "integer" and _INTEGER.fullmatch(text):
        return int(text)
    return text == "true" if kind == "boolean" and text in ("true", "false") else text


def _parameter_error(model: type[Parameters], error: ValidationError) -> ParameterError:
    """Return what to tell of the first unknown, else the first missing, else the first invalid parameter."""
    order = {"extra_forbidden": 0, "missing": 1}
    first = min(
        (each for each in error.errors() if len(each["loc"]) == 1 or each["type"] not in order),
        key=lambda each: order.get(each["type"], 2),
    )
    name = str(first["loc"][0])
    if first["type"] == "extra_forbidden":
        return ParameterError(name, kind="unknown")
    schema = model.schemas()[name]
    is_missing = first["type"] == "missing"
    return ParameterError(name, _expected(schema), kind="missing" if is_missing else "invalid")


def _expected(schema: Json) -> str:
    """Return in words what a schema takes."""
    if "expected" in schema:
        return str(schema["expected"])
    least, most = schema.get("minimum"), schema.get("maximum")
    match schema["type"]:
        case "string" if "enum" in schema:
            return " or ".join(schema["enum"])
        case "integer":
            return f"a whole number from {least} " + ("up" if most is None else f"to {most}")
        case "array":
            return f"a list of {schema.get('minItems', 0)} to {schema.get('maxItems')} names"
        case "boolean":
            return "true or false"
    return f"a text of {schema.get('minLength', 0)} to {schema.get('maxLength')} characters"


_OPERATORS = frozenset({"gte", "gt", "lte", "lt", "ne", "in", "contains", "words"})
_FILTERS = (
    'an object such as {"field": value}, {"field": [values]} or {"field": {"gte": value}}, with gte, gt, lte, '
    "lt, ne, in, contains or words; only ne and in take lists"
)


def _condition(value: Any) -> Any:
    """Return a condition of a filter in JSON. Raises ValueError for any other value."""
    bounds = value if isinstance(value, dict) else {"in": value}
    if (
        not bounds
        or not _OPERATORS.issuperset(bounds)
        or not all(
            _is_scalar(bound) or (name in ("ne", "in") and _is_list(bound))
            for name, bound in bounds.items()
        )
    ):
        raise ValueError(_FILTERS)
    return value


def _is_scalar(value: Any) -> bool:
    return isinstance(value, str | bool | int | float)


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_scalar, value))


# The values of a query string.

Text = Annotated[str, Field(max_length=TEXT_CHARS)]
Names = Annotated[list[str], Field(max_length=limits.QUERY_ARRAY_MAX * 8)]
KeyedValues = Annotated[
    list[KeyedValue],
    Field(max_length=limits.QUERY_ARRAY_MAX),
    WithJsonSchema(
        {"type": "object", "additionalProperties": True, "expected": "at most 64 values"}
    ),
]

# The same in JSON, where a list and an object have types of their own.

ShortText = Annotated[str, Field(min_length=1, max_length=4_000)]
NameList = Annotated[
    list[Annotated[str, Field(min_length=1, pattern="^[^,]+$")]],
    Field(min_length=1, max_length=limits.QUERY_ARRAY_MAX),
    Field(json_schema_extra={"expected": "a list of 1 to 64 names without commas"}),
]
_FieldName = Annotated[str, Field(pattern=r"^[^\[\]]+$")]
FilterObject = Annotated[
    dict[_FieldName, Annotated[Any, AfterValidator(_condition)]],
    WithJsonSchema({"type": "object", "expected": _FILTERS}),
]
LimitObject = Annotated[
    dict[_FieldName, Annotated[int, Field(ge=1)]],
    Field(min_length=1),
    WithJsonSchema({"type": "object", "expected": 'whole numbers by relation, as {"relation": 5}'}),
]

# Parameters of several routes.

_CURSOR = parameter(
    "next_cursor of the previous page, unchanged, with the same query.", tools="", bound=False
)


class OneConnection(Parameters):
    """The name of a connection, and its name in older clients."""

    connection_id: Text | None = parameter("Only this granted connection.", tools="From schema")
    connector_instance_id: Text | None = parameter(
        "Deprecated name of connection_id; the response has a warning.", bound=False
    )


class Connections(OneConnection):
    """What every route of records takes."""

    connector_id: Text | None = parameter("Only this connector, by its key or its absolute id.")


class Selection(Parameters):
    """Which records of a stream."""

    filter: KeyedValues | None = parameter(
        "filter[field]=value, also for an item of an array, or filter[field][operator]=value with "
        "gte, gt, lte, lt, ne, in (repeated: any of the values), contains (a part of a text) or words (of a "
        "searched field). On search, only with one stream in streams[].",
        tools="{field: v; [v]; {gte|gt|lte|lt|ne|contains|words: v}}",
        form=FilterObject,
    )
    after: Text | None = parameter(
        "Only records from this date or time on, by the stream's own time.", tools=""
    )
    before: Text | None = parameter(
        "Only records before this date or time, by the stream's own time.", tools=""
    )


class Projection(Parameters):
    """Which fields and related records of a record."""

    fields: Names | None = parameter(
        "Only these fields and the primary key.", tools="Only these fields", bound=False
    )
    view: Text | None = parameter(
        "A view of the declaration.", tools="Instead of fields", bound=False
    )
    expand: Names | None = parameter(
        "Relations to expand; the schema lists them in expand_capabilities.",
        tools="Relations to include",
        bound=False,
    )
    expand_limit: KeyedValues | None = parameter(
        "expand_limit[relation]=n, for relations to many.",
        tools="{relation: count}",
        form=LimitObject,
        bound=False,
    )


class ByteLimits(Parameters):
    """How large a response may be."""

    max_bytes: int | None = parameter(
        "Size limit of the response. The page ends early, which meta tells with ended_by and with "
        "left, the items of the asked limit that follow. Large fields become window descriptors.",
        bound=False,
        ge=limits.PAGE_BYTES_LEAST,
        le=limits.MAX_BYTES_MOST,
    )
    max_line_bytes: int | None = parameter(
        "With max_bytes, for clients that also show each item on a line: size limit of those "
        "lines. The page ends at the tighter limit.",
        bound=False,
        ge=limits.PAGE_BYTES_LEAST,
        le=limits.MAX_BYTES_MOST,
    )


class PageForm(ByteLimits):
    """How a response shows its items."""

    form: Literal["full", "compact"] | None = parameter(
        "compact is for language models: members that all items share (shared) and the labels of "
        "connections are given once a page, a hit has one excerpt, links are left out, and reads are tool "
        "calls. The schemas here describe full, the default.",
        bound=False,
    )


EXTENSIONS = (*PageForm.model_fields, *sorted(limits.SELECTING_PARAMETERS))
"""Parameters that the contract does not have; the metadata of the protected resource offers them."""

# A model per route.


class ReadSchema(Connections):
    view: Text | None = parameter("compact or index.")
    detail: Literal["compact", "full"] | None = parameter(
        "full returns the complete schema of one stream.", tools=""
    )
    stream: Text | None = parameter("Only this stream.", tools="Stream name")


class ListRecords(Connections, Selection, Projection, PageForm):
    sort: Text | None = parameter(
        "The cursor field, a number or a time, with an optional sign.",
        tools="Field, - for descending",
    )
    order: Literal["asc", "desc"] | None = parameter(
        "Oldest or newest first; default desc.", tools=""
    )
    count: Literal["none", "estimated", "exact"] | None = parameter(
        "Also count the matching records.", tools="", bound=False
    )
    window: Literal["none", "exact"] | None = parameter(
        "Also return the total and the time range.", bound=False
    )
    limit: int | None = parameter(
        f"Number of records, default {limits.PAGE_DEFAULT}; lowered to {limits.PAGE_MAX} with a warning.",
        tools="Records, 1 to 100",
        tools_most=limits.PAGE_MAX,
        ge=1,
        bound=False,
    )
    cursor: Text | None = _CURSOR
    changes_since: Text | None = parameter(
        "beginning, or next_changes_since of an earlier response.",
        tools='"beginning" or a next_changes_since',
        bound=False,
    )
    subject_id: Text | None = parameter("The owner id; must be the token's owner.", bound=False)


class GetRecord(Connections, Projection, PageForm):
    pass


class ReadFieldWindow(Connections):
    field: Text = parameter(
        "A top-level field, or a JSON Pointer that starts with one.", default=...
    )
    offset_chars: int | None = parameter(
        "Start of the window, in Unicode code points.",
        tools="Where to start, from 0",
        ge=0,
        le=10**12 - 1,
    )
    limit_chars: int | None = parameter(
        f"Length of the window; default {limits.WINDOW_DEFAULT_CHARS}, at most "
        f"{limits.WINDOW_MAX_CHARS}.",
        tools=f"1 to {limits.WINDOW_MAX_CHARS}, default 4096",
        tools_most=limits.WINDOW_MAX_CHARS,
        ge=1,
    )
    q: Text | None = parameter(
        "The text to find.",
        tools="Text to find in the field",
        expected="the text to find",
        pattern=r"\S",
    )
    occurrence: int | None = parameter(
        "Which match of q, counted from 1.", tools="Which match of q, from 1", ge=1, le=1_000_000
    )
    before_chars: int | None = parameter(
        "Context before the match.",
        tools=f"0 to {limits.WINDOW_CONTEXT_MAX_CHARS}, with q",
        ge=0,
        le=limits.WINDOW_CONTEXT_MAX_CHARS,
    )
    after_chars: int | None = parameter(
        "Context after the match.",
        tools=f"0 to {limits.WINDOW_CONTEXT_MAX_CHARS}, with q",
        ge=0,
        le=limits.WINDOW_CONTEXT_MAX_CHARS,
    )
    quote: Text | None = parameter(
        "A text to verify: verified, moved, changed or absent.",
        expected="the text to verify",
        min_length=1,
    )
    expect_sha256: str | None = parameter(
        "The field_sha256 of an earlier excerpt, to detect a changed field.",
        expected="64 hex digits",
        pattern="^[0-9a-fA-F]{64}$",
    )


class Aggregate(Connections, Selection, ByteLimits):
    metric: Metric | None = parameter("What to compute.", tools="")
    metrics: Names | None = parameter(
        "Several metrics at once instead of metric, each with a field of its own after a colon: "
        "count,sum,avg:other_field. Values are in values, by these names.",
        tools="Several, as sum or avg:field",
    )
    field: Text | None = parameter("The field to compute from.", tools="For all but count")
    group_by: Names | None = parameter(
        "The field to group by, or two. A group of two keys has keys, not key.",
        tools="Field, or two: a,b",
        form=ShortText,
    )
    group_by_time: Text | None = parameter("The time field to group by.", tools="Time field")
    granularity: Granularity | None = parameter("The period; with group_by_time.", tools="")
    time_zone: Text | None = parameter(
        "IANA time zone of the periods; default UTC.", tools="IANA name, default UTC"
    )
    sort: Text | None = parameter(
        "key, count, value or a metric, with an optional sign.",
        tools="key or metric, - for descending",
    )
    cursor: Text | None = _CURSOR
    limit: int | None = parameter(
        f"Number of groups, default {limits.GROUPS_DEFAULT}; with group_by or group_by_time only.",
        tools="Groups, 1 to 100",
        bound=False,
        ge=1,
        le=limits.GROUPS_MAX,
    )


class SearchInMode(Connections, Selection, PageForm):
    """A search at the route of its mode."""

    q: Text = parameter(
        'Words, "phrases", "=exact words", prefix*, OR, -not, field:word.',
        default=...,
        tools="Words to find",
    )
    streams: Names | None = parameter(
        "Only these streams; also as streams[].", tools="Only these streams"
    )
    match: Literal["exact"] | None = parameter(
        "Compare every word as written: case, accents, endings and signs count.", tools=""
    )
    sort: Literal["-time"] | None = parameter("Newest first, not by rank.", tools="Newest first")
    limit: int | None = parameter(
        f"Number of hits, default {limits.PAGE_DEFAULT}; lowered to {limits.PAGE_MAX} with a warning.",
        tools="Hits, 1 to 100",
        tools_most=limits.PAGE_MAX,
        ge=1,
        bound=False,
    )
    cursor: Text | None = _CURSOR


class Search(SearchInMode):
    mode: SearchMode | None = parameter(
        "By words, by meaning, or both; the schema lists search_modes.",
        tools="See search_modes in schema",
    )


class DeleteRecords(Connections):
    suppress: bool = parameter("Do not import the record again; default true.", default=True)


class Ingest(Connections):
    run_id: Text | None = parameter("The collector's name for this run; not stored.")
    replace: bool = parameter("Let new lines replace append-only records.", default=False)


class PutBlob(Connections):
    stream: Text = parameter("The stream of the record.", default=..., min_length=1)
    record_key: Text = parameter("The record that the blob belongs to.", default=..., min_length=1)
    json_path: Literal["@record", "/blob_ref"] | None = parameter(
        "Where the record refers to the blob."
    )
    mime_type: Text | None = parameter("The media type of the blob.")


class CollectorState(OneConnection):
    grant_id: Text | None = parameter("The grant that the state belongs to.")


class OwnerConnections(Parameters):
    connector_id: Text | None = parameter("Only this connector, by its key or its absolute id.")
    status: Literal["draft", "active", "paused", "revoked"] | None = parameter(
        "Only connections in this state."
    )
