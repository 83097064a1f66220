"""Parse `authorization_details` (RFC 9396) strictly; unknown members are an error.

Ignoring an unknown restriction would give a client more than it requested (RFC 9396, 5).
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

import orjson

from evidence.access.grant_states import DATA_ACCESS
from evidence.access.grants import DEFAULT_PURPOSE
from owner.grants.access_request import RequestedAccess, RequestedStream

Parsed = TypeVar("Parsed")

MAX_DETAILS = 20
MAX_STREAMS = 200
MAX_NAMES = 1_000
MAX_TEXT_LENGTH = 2_000
MEMBERS = frozenset(
    {
        "access_mode",
        "expires_at",
        "locations",
        "purpose_code",
        "purpose_description",
        "retention",
        "selection_preset",
        "source",
        "streams",
        "type",
    }
)
STREAM_MEMBERS = frozenset(
    {"fields", "instance_ids", "name", "resources", "time_constraint", "view"}
)


class InvalidAuthorizationDetailsError(Exception):
    """The message tells the client's developer which member is wrong."""


def parse_authorization_details(text: str | None) -> tuple[RequestedAccess, ...]:
    """Return the requested access, empty for no text. Raises InvalidAuthorizationDetailsError."""
    if not text:
        return ()
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise InvalidAuthorizationDetailsError("authorization_details is not JSON") from None
    details = _parse_list(value, "authorization_details", _parse_detail, max_items=MAX_DETAILS)
    if not details:
        raise InvalidAuthorizationDetailsError("authorization_details is empty")
    return details


def _parse_detail(value: Any) -> RequestedAccess:
    if not isinstance(value, dict) or value.get("type") != DATA_ACCESS:
        raise InvalidAuthorizationDetailsError(
            f"the type of authorization_details must be {DATA_ACCESS}"
        )
    _check_members(value, MEMBERS)
    source = value.get("source")
    if not isinstance(source, dict):
        raise InvalidAuthorizationDetailsError("source is missing")
    mode = value.get("access_mode", "continuous")
    if mode not in ("continuous", "single_use"):
        raise InvalidAuthorizationDetailsError("access_mode must be continuous or single_use")
    retention = value.get("retention")
    if retention is not None and not isinstance(retention, dict):
        raise InvalidAuthorizationDetailsError("retention must be an object")
    return RequestedAccess(
        source_kind=_parse_text(source.get("kind", "connector"), "source.kind"),
        source_id=_parse_text(source.get("id"), "source.id"),
        streams=_parse_list(
            value.get("streams", []), "streams", _parse_stream, max_items=MAX_STREAMS
        ),
        purpose_code=_parse_text(value.get("purpose_code", DEFAULT_PURPOSE), "purpose_code"),
        purpose_description=_parse_text(
            value.get("purpose_description", ""), "purpose_description"
        ),
        access_mode=mode,
        retention=retention,
        expires_at=_parse_time(value.get("expires_at"), "expires_at"),
    )


def _parse_stream(value: Any) -> RequestedStream:
    if not isinstance(value, dict):
        raise InvalidAuthorizationDetailsError("a stream must be an object with a name")
    _check_members(value, STREAM_MEMBERS)
    time = value.get("time_constraint") or {}
    if not isinstance(time, dict):
        raise InvalidAuthorizationDetailsError("time_constraint must be an object")
    _check_members(time, frozenset({"field", "since", "until"}))
    return RequestedStream(
        name=_parse_text(value.get("name"), "name"),
        fields=_parse_names(value, "fields"),
        view=None if value.get("view") is None else _parse_text(value["view"], "view"),
        instance_ids=_parse_names(value, "instance_ids"),
        resources=_parse_names(value, "resources"),
        since=_parse_time(time.get("since"), "since"),
        until=_parse_time(time.get("until"), "until"),
    )


def _check_members(value: Mapping[str, Any], allowed: frozenset[str]) -> None:
    unknown = sorted(set(value) - allowed)
    if unknown:
        raise InvalidAuthorizationDetailsError(f"unknown member {unknown[0][:60]!r}")


def _parse_list(
    value: Any, member: str, parse: Callable[[Any], Parsed], *, max_items: int
) -> tuple[Parsed, ...]:
    if not isinstance(value, list) or len(value) > max_items:
        raise InvalidAuthorizationDetailsError(
            f"{member} must be a list of at most {max_items} items"
        )
    return tuple(parse(item) for item in value)


def _parse_names(value: Mapping[str, Any], member: str) -> tuple[str, ...] | None:
    if value.get(member) is None:
        return None
    return _parse_list(
        value[member], member, lambda item: _parse_text(item, member), max_items=MAX_NAMES
    )


def _parse_text(value: Any, member: str) -> str:
    if not isinstance(value, str) or len(value) > MAX_TEXT_LENGTH or "\x00" in value:
        raise InvalidAuthorizationDetailsError(
            f"{member} must be a string of at most {MAX_TEXT_LENGTH} characters"
        )
    return value


def _parse_time(value: Any, member: str) -> datetime | None:
    if value is None:
        return None
    try:
        time = datetime.fromisoformat(cast("str", value))
    except (TypeError, ValueError):
        raise InvalidAuthorizationDetailsError(f"{member} must be an RFC 3339 date-time") from None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
