"""Query parameters by name, with schema and description."""

from collections.abc import Iterable
from typing import Any

from evidence import limits
from evidence.access.aggregates import METRICS
from evidence.access.buckets import GRANULARITIES

Json = dict[str, Any]

TEXT: Json = {"type": "string", "maxLength": 8192}
NAMES: Json = {"type": "string", "description": "Names, separated by commas."}


def _integer(minimum: int, maximum: int | None = None) -> Json:
    bounds: Json = {"type": "integer", "minimum": minimum}
    return bounds | ({} if maximum is None else {"maximum": maximum})


def _one_of(*names: str) -> Json:
    return {"type": "string", "enum": list(names)}


PARAMETERS: dict[str, tuple[Json, str]] = {
    "connection_id": (TEXT, "Only this granted connection."),
    "connector_instance_id": (TEXT, "Deprecated name of connection_id; the response has a warning."),
    "view": (TEXT, "On the schema: compact or index. On records: a view of the declaration."),
    "detail": (_one_of("compact", "full"), "full returns the complete schema of one stream."),
    "stream": (TEXT, "Only this stream."),
    "streams": (NAMES, "Only these streams; also as streams[]."),
    "limit": (
        _integer(1),
        f"Number of items, default {limits.PAGE_DEFAULT}. Lists lower it to {limits.PAGE_MAX} with a "
        f"warning; groups take 1 to {limits.GROUPS_MAX}.",
    ),
    "cursor": (TEXT, "next_cursor of the previous page, unchanged, with the same query."),
    "changes_since": (TEXT, "beginning, or next_changes_since of an earlier response."),
    "after": (TEXT, "Only records from this date or time on, by the stream's own time."),
    "before": (TEXT, "Only records before this date or time, by the stream's own time."),
    "order": (_one_of("asc", "desc"), "Oldest or newest first; default desc."),
    "sort": (
        TEXT,
        "The cursor field, a number or a time, with an optional sign; on search, -time for newest first; on aggregates, "
        "key, count, value or a metric.",
    ),
    "fields": (NAMES, "Only these fields and the primary key."),
    "count": (_one_of("none", "estimated", "exact"), "Also count the matching records."),
    "window": (_one_of("none", "exact"), "Also return the total and the time range."),
    "expand": (NAMES, "Relations to expand; the schema lists them in expand_capabilities."),
    "max_bytes": (
        _integer(limits.PAGE_BYTES_LEAST, limits.MAX_BYTES_MOST),
        "Size limit of the response. The page ends early, which meta tells with ended_by and with left, "
        "the items of the asked limit that follow. Large fields become window descriptors.",
    ),
    "form": (
        _one_of("full", "compact"),
        "compact is for language models: members that all items share (shared) and the labels of "
        "connections are given once a page, a hit has one excerpt, links are left out, and reads "
        "are tool calls. The schemas here describe full, the default.",
    ),
    "max_line_bytes": (
        _integer(limits.PAGE_BYTES_LEAST, limits.MAX_BYTES_MOST),
        "With max_bytes, for clients that also show each item on a line: size limit of those "
        "lines. The page ends at the tighter limit.",
    ),
    "q": (TEXT, "On search: words, \"phrases\", \"=exact words\", prefix*, OR, -not, field:word. On a "
        "field window: the text to find."),
    "match": (
        _one_of("exact"),
        "Compare every word as written: case, accents, endings and signs count.",
    ),
    "mode": (
        _one_of("lexical", "semantic", "hybrid"),
        "By words, by meaning, or both; the schema lists search_modes.",
    ),
    "field": (TEXT, "A top-level field; on a field window also a JSON Pointer."),
    "quote": (TEXT, "A text to verify: verified, moved, changed or absent."),
    "expect_sha256": (
        {"type": "string", "pattern": "^[0-9a-fA-F]{64}$"},
        "The field_sha256 of an earlier excerpt, to detect a changed field.",
    ),
    "offset_chars": (_integer(0), "Start of the window, in Unicode code points."),
    "limit_chars": (
        _integer(1),
        f"Length of the window; default {limits.WINDOW_DEFAULT_CHARS}, at most "
        f"{limits.WINDOW_MAX_CHARS}.",
    ),
    "occurrence": (_integer(1), "Which match of q, counted from 1."),
    "before_chars": (_integer(0, limits.WINDOW_CONTEXT_MAX_CHARS), "Context before the match."),
    "after_chars": (_integer(0, limits.WINDOW_CONTEXT_MAX_CHARS), "Context after the match."),
    "metric": (_one_of(*METRICS), "What to compute."),
    "metrics": (
        NAMES,
        "Several metrics at once instead of metric, each with a field of its own after a colon: "
        "count,sum,avg:other_field. Values are in values, by these names.",
    ),
    "group_by": (NAMES, "The field to group by, or two. A group of two keys has keys, not key."),
    "group_by_time": (TEXT, "The time field to group by."),
    "granularity": (_one_of(*GRANULARITIES), "The period; with group_by_time."),
    "time_zone": (TEXT, "IANA time zone of the periods; default UTC."),
    "status": (TEXT, "Only connections in this state: draft, active, paused or revoked."),
    "connector_id": (TEXT, "Only this connector, by its key or its absolute id."),
    "run_id": (TEXT, "The collector's name for this run; not stored."),
    "replace": (_one_of("true", "false"), "Let new lines replace append-only records."),
    "grant_id": (TEXT, "The grant that the state belongs to."),
    "subject_id": (TEXT, "The owner id; must be the token's owner."),
    "record_key": (TEXT, "The record that the blob belongs to."),
    "json_path": (TEXT, "Where the record refers to the blob."),
    "mime_type": (TEXT, "The media type of the blob."),
    "suppress": (_one_of("true", "false"), "Do not import the record again."),
}  # fmt: skip

DEEP_OBJECT_PARAMETERS: dict[str, str] = {
    "filter": "filter[field]=value, also for an item of an array, or filter[field][operator]=value with "
    "gte, gt, lte, lt, ne, in (repeated: any of the values), contains (a part of a text) or words (of a searched field). On search, only with "
    "one stream in streams[].",
    "expand_limit": "expand_limit[relation]=n, for relations to many.",
}


def query_parameter_objects(names: Iterable[str], *, required: Iterable[str] = ()) -> list[Json]:
    """Return the parameters of a route. Raises KeyError for a parameter without description."""
    required_names = frozenset(required)
    return [
        _deep(name) if name in DEEP_OBJECT_PARAMETERS else _plain(name, name in required_names)
        for name in sorted(names)
    ]


def path_parameter_object(name: str, description: str) -> Json:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": description,
        "schema": {"type": "string", "minLength": 1},
    }


def _plain(name: str, required: bool) -> Json:  # noqa: FBT001
    schema, description = PARAMETERS[name]
    return {
        "name": name,
        "in": "query",
        "required": required,
        "description": description,
        "schema": schema,
    }


def _deep(name: str) -> Json:
    return {
        "name": name,
        "in": "query",
        "style": "deepObject",
        "explode": True,
        "description": DEEP_OBJECT_PARAMETERS[name],
        "schema": {"type": "object", "additionalProperties": True},
    }
