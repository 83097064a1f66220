"""Every query parameter once, by name: its schema and what it does."""

from collections.abc import Iterable
from typing import Any

from evidence import limits
from evidence.access.aggregates import GRANULARITIES, METRICS

Json = dict[str, Any]

TEXT: Json = {"type": "string", "maxLength": 8192}
NAMES: Json = {"type": "string", "description": "Names, separated by commas."}


def _integer(least: int, most: int | None = None, **more: Any) -> Json:
    bounds: Json = {"type": "integer", "minimum": least}
    return bounds | ({} if most is None else {"maximum": most}) | more


def _one_of(*names: str) -> Json:
    return {"type": "string", "enum": list(names)}


PARAMETERS: dict[str, tuple[Json, str]] = {
    "connection_id": (TEXT, "Only this connection of those that are granted."),
    "connector_instance_id": (TEXT, "Deprecated name of connection_id; answers with a warning."),
    "view": (TEXT, "On the schema: compact or index. On records: a view of the declaration."),
    "detail": (_one_of("compact", "full"), "full gives the whole schema of one stream."),
    "stream": (TEXT, "Only this stream."),
    "streams": (NAMES, "Only these streams; also as streams[]."),
    "limit": (
        _integer(1),
        f"How many, {limits.PAGE_DEFAULT} if omitted; lists lower more than {limits.PAGE_MAX} to "
        f"that with a warning, groups take 1 to {limits.GROUPS_MAX}.",
    ),
    "cursor": (TEXT, "next_cursor of the page before, unchanged, with the same query."),
    "changes_since": (TEXT, "beginning, or next_changes_since of an earlier answer."),
    "wait": (
        _integer(1),
        "With changes_since: if there is nothing to tell, wait so many seconds for it, at most "
        f"{limits.WAIT_SECONDS}. One request of a token waits at a time; the later one counts.",
    ),
    "order": (_one_of("asc", "desc"), "Oldest or newest first; desc if omitted."),
    "sort": (TEXT, "The cursor field with an optional sign; on search -time for newest first."),
    "fields": (NAMES, "Only these fields, and those of the primary key."),
    "count": (_one_of("none", "estimated", "exact"), "Also count what the filters leave."),
    "window": (_one_of("none", "exact"), "Also tell total and extent in time."),
    "expand": (NAMES, "Relations to follow, as expand_capabilities in the schema allow."),
    "max_bytes": (
        _integer(limits.PAGE_BYTES_LEAST, limits.MAX_BYTES_MOST),
        "End the page early rather than send more; large fields become windows to read.",
    ),
    "max_line_bytes": (
        _integer(limits.PAGE_BYTES_LEAST, limits.MAX_BYTES_MOST),
        "For callers that also name each item on a line of its own, with max_bytes: what those "
        "lines may take. The page ends where the tighter of the two ends.",
    ),
    "q": (TEXT, "On search: words, \"phrases\", prefix*, OR, -not, field:word. On a field window: "
        "the text to find."),
    "mode": (
        _one_of("lexical", "semantic", "hybrid"),
        "By words, by meaning, or both; search_modes in the schema says which there are.",
    ),
    "field": (TEXT, "A top-level field; on a field window also a JSON Pointer into one."),
    "quote": (TEXT, "A text to check against the field: verified, moved, changed or absent."),
    "expect_sha256": (
        {"type": "string", "pattern": "^[0-9a-fA-F]{64}$"},
        "The field_sha256 of earlier evidence, to tell whether the field has changed.",
    ),
    "offset_chars": (_integer(0), "Where the window starts, in Unicode code points."),
    "limit_chars": (
        _integer(1),
        f"How long it is; {limits.WINDOW_DEFAULT_CHARS} if omitted, at most "
        f"{limits.WINDOW_MAX_CHARS}.",
    ),
    "occurrence": (_integer(1), "Which match of q, counted from 1."),
    "before_chars": (_integer(0, limits.WINDOW_CONTEXT_MAX_CHARS), "Context before the match."),
    "after_chars": (_integer(0, limits.WINDOW_CONTEXT_MAX_CHARS), "Context after the match."),
    "metric": (_one_of(*METRICS), "What to compute."),
    "group_by": (TEXT, "A field whose values make the groups."),
    "group_by_time": (TEXT, "A time field whose periods make the groups."),
    "granularity": (_one_of(*GRANULARITIES), "The period; with group_by_time."),
    "time_zone": (TEXT, "IANA name of the zone in which periods begin; UTC if omitted."),
    "status": (TEXT, "Only connections in this state: draft, active, paused or revoked."),
    "connector_id": (TEXT, "Only this connector, by its key or its absolute id."),
    "run_id": (TEXT, "The collector's own name for this run; not kept."),
    "replace": (_one_of("true", "false"), "Let new lines replace append-only records."),
    "grant_id": (TEXT, "The grant that the state is kept for."),
    "subject_id": (TEXT, "The owner, where a client names them; any other than the token's is refused."),
    "record_key": (TEXT, "The record that the blob belongs to."),
    "json_path": (TEXT, "Where in the record the reference stands."),
    "mime_type": (TEXT, "The media type of the blob."),
    "suppress": (_one_of("true", "false"), "Keep the record erased when it is imported again."),
}  # fmt: skip

DEEP: dict[str, str] = {
    "filter": "filter[field]=value, or filter[field][gte]=value with gte, gt, lte or lt. On search for one stream, "
    "which streams[] names.",
    "expand_limit": "expand_limit[relation]=n, for relations to many.",
}


def described(names: Iterable[str], *, required: Iterable[str] = ()) -> list[Json]:
    """The parameters of a route. A name that nobody described here is an error at start-up."""
    needed = frozenset(required)
    return [_deep(name) if name in DEEP else _plain(name, name in needed) for name in sorted(names)]


def in_path(name: str, description: str) -> Json:
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
        "description": DEEP[name],
        "schema": {"type": "object", "additionalProperties": True},
    }
