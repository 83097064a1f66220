"""``authorization_details`` of type ``https://pdpp.dev/data-access`` (RFC 9396) -> frozen values.

What is not of that form is refused as a whole, unknown members too (RFC 9396, 5): a client that asks
for less than it says must not be given more.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

import orjson

from evidence.access.grant_states import DATA_ACCESS
from evidence.access.grants import DEFAULT_PURPOSE
from owner.grants.access_request import RequestedAccess, RequestedStream

Parsed = TypeVar("Parsed")

MOST_DETAILS = 20
MOST_STREAMS = 200
MOST_NAMES = 1_000
LONGEST_TEXT = 2_000
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


class NotUnderstoodError(Exception):
    """The message says which member is wrong, in words for the client's developer."""


def parsed(text: str | None) -> tuple[RequestedAccess, ...]:
    """Nothing for no text. Raises ``NotUnderstoodError``."""
    if not text:
        return ()
    try:
        said = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise NotUnderstoodError("authorization_details is not JSON") from None
    details = _many(said, "authorization_details", _detail, most=MOST_DETAILS)
    if not details:
        raise NotUnderstoodError("authorization_details names nothing")
    return details


def _detail(said: Any) -> RequestedAccess:
    if not isinstance(said, dict) or said.get("type") != DATA_ACCESS:
        raise NotUnderstoodError(f"the only type of authorization_details here is {DATA_ACCESS}")
    _known(said, MEMBERS)
    source = said.get("source")
    if not isinstance(source, dict):
        raise NotUnderstoodError("source is missing")
    mode = said.get("access_mode", "continuous")
    if mode not in ("continuous", "single_use"):
        raise NotUnderstoodError("access_mode is continuous or single_use")
    retention = said.get("retention")
    if retention is not None and not isinstance(retention, dict):
        raise NotUnderstoodError("retention is an object")
    return RequestedAccess(
        source_kind=_text(source.get("kind", "connector"), "source.kind"),
        source_id=_text(source.get("id"), "source.id"),
        streams=_many(said.get("streams", []), "streams", _stream, most=MOST_STREAMS),
        purpose_code=_text(said.get("purpose_code", DEFAULT_PURPOSE), "purpose_code"),
        purpose_description=_text(said.get("purpose_description", ""), "purpose_description"),
        access_mode=mode,
        retention=retention,
        expires_at=_moment(said.get("expires_at"), "expires_at"),
    )


def _stream(said: Any) -> RequestedStream:
    if not isinstance(said, dict):
        raise NotUnderstoodError("a stream is an object with a name")
    _known(said, STREAM_MEMBERS)
    time = said.get("time_constraint") or {}
    if not isinstance(time, dict):
        raise NotUnderstoodError("time_constraint is an object")
    _known(time, frozenset({"field", "since", "until"}))
    return RequestedStream(
        name=_text(said.get("name"), "name"),
        fields=_names(said, "fields"),
        view=None if said.get("view") is None else _text(said["view"], "view"),
        instance_ids=_names(said, "instance_ids"),
        resources=_names(said, "resources"),
        since=_moment(time.get("since"), "since"),
        until=_moment(time.get("until"), "until"),
    )


def _known(said: Mapping[str, Any], members: frozenset[str]) -> None:
    unknown = sorted(set(said) - members)
    if unknown:
        raise NotUnderstoodError(f"unknown member {unknown[0][:60]!r}")


def _many(
    said: Any, member: str, parse: Callable[[Any], Parsed], *, most: int
) -> tuple[Parsed, ...]:
    if not isinstance(said, list) or len(said) > most:
        raise NotUnderstoodError(f"{member} is a list of at most {most}")
    return tuple(parse(each) for each in said)


def _names(said: Mapping[str, Any], member: str) -> tuple[str, ...] | None:
    if said.get(member) is None:
        return None
    return _many(said[member], member, lambda each: _text(each, member), most=MOST_NAMES)


def _text(said: Any, member: str) -> str:
    if not isinstance(said, str) or len(said) > LONGEST_TEXT or "\x00" in said:
        raise NotUnderstoodError(f"{member} is a text of at most {LONGEST_TEXT} characters")
    return said


def _moment(said: Any, member: str) -> datetime | None:
    if said is None:
        return None
    try:
        moment = datetime.fromisoformat(cast("str", said))
    except (TypeError, ValueError):
        raise NotUnderstoodError(f"{member} is a date and time of RFC 3339") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
