"""Encode and parse record ids and pdpp:// URIs, without Django or a database.

Three forms name a record: `{connection_id}/{stream}:{record_id}`, the legacy `{stream}:{record_id}`,
and `pdpp://record/{handle}` for keys that do not fit the first form. A handle is base64url JSON.
An id grants no access: the resource server authorizes every request.
"""

import base64
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote

import orjson

_VERSION = 1
_MAX_NAME_CHARS = 200
_MAX_ID_CHARS = 4_000
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_UNSAFE = re.compile(r"[\x00-\x1f\x7f/\\]|\.\.")
_UNDECODABLE = "The handle of the URI cannot be decoded."
_WINDOW_MEMBERS = {
    "field_path": str,
    "cursor": str,
    "q": str,
    "offset_chars": int,
    "limit_chars": int,
    "before_chars": int,
    "after_chars": int,
    "occurrence": int,
}


@dataclass(frozen=True, slots=True)
class RecordRef:
    """The parts of a record id. Without a connection, the id is legacy and may be ambiguous."""

    connection_id: str | None
    stream: str
    record_id: str


@dataclass(frozen=True, slots=True)
class ParsedUri:
    """The parts of a pdpp:// URI.

    `kind` is stream, record, field-window or blob; `name` is the stream name or the blob id;
    `window` contains the read arguments of a field-window.
    """

    kind: str
    record: RecordRef | None = None
    name: str = ""
    connection_id: str | None = None
    window: dict[str, Any] = field(default_factory=dict)


def path_segment(text: str) -> str:
    """Encode one segment of a URL path. Encodes "." and ".." so that no client removes them."""
    return quote(text, safe="") if text.strip(".") else text.replace(".", "%2E")


def format_id(ref: RecordRef) -> str:
    """Return the id of a record that every tool and command accepts.

    Leaves out a connection id that no form can carry: show that one next to the id.
    """
    if ref.connection_id is not None and not _is_safe(ref.connection_id):
        return format_id(RecordRef(None, ref.stream, ref.record_id))
    if ":" in ref.stream or not (_is_safe(ref.stream) and _is_safe(ref.record_id)):
        return record_uri(ref)
    base = f"{ref.stream}:{ref.record_id}"
    return base if ref.connection_id is None else f"{ref.connection_id}/{base}"


def includes_connection(record_id: str, connection_id: str) -> bool:
    """Return whether a formatted id contains the connection id."""
    if record_id.startswith(f"{connection_id}/"):
        return True
    try:
        return parse_id(record_id).connection_id == connection_id
    except ValueError:
        return False


def parse_id(text: str) -> RecordRef:
    """Parse an id or a pdpp://record URI. Raises ValueError with a message for people."""
    if text.startswith("pdpp://"):
        uri = parse_uri(text)
        if uri.record is None:
            raise ValueError(f"A pdpp://{uri.kind} URI does not name a record.")
        return uri.record
    if len(text) > _MAX_ID_CHARS:
        raise ValueError("The id is too long.")
    connection, slash, rest = text.partition("/")
    stream, colon, record_id = (rest if slash else text).partition(":")
    if not colon:
        raise ValueError("The id has no ':' between stream and record.")
    parts = {"stream": stream, "record": record_id}
    if slash:
        parts["connection"] = connection
    for part, value in parts.items():
        if not _is_safe(value):
            raise ValueError(
                f"The {part} part of the id is empty or contains a separator or path traversal."
            )
    return RecordRef(connection if slash else None, stream, record_id)


def record_uri(ref: RecordRef) -> str:
    """Return `pdpp://record/{handle}`, which can carry any key."""
    members = {
        "connection_id": ref.connection_id,
        "stream": ref.stream,
        "record_id": ref.record_id,
    }
    return _handle_uri("record", members)


def blob_uri(blob_id: str, *, connection_id: str | None) -> str:
    """Return `pdpp://blob/{handle}`."""
    return _handle_uri("blob", {"connection_id": connection_id, "blob_id": blob_id})


def parse_uri(uri: str) -> ParsedUri:
    """Parse a pdpp:// URI. Raises ValueError with a message for people."""
    scheme, _, rest = uri.partition("://")
    kind, _, tail = rest.partition("/")
    if scheme != "pdpp" or not tail or len(uri) > _MAX_ID_CHARS:
        raise ValueError("The value is not a pdpp:// URI of this server.")
    if kind == "stream":
        name, _, query = tail.partition("?")
        return ParsedUri(
            kind, name=_checked_name(unquote(name)), connection_id=_queried_connection(query)
        )
    if kind not in {"record", "field-window", "blob"}:
        raise ValueError("The URI has an unknown kind.")
    if kind == "record" and ("%3A" in tail.upper() or ":" in tail):
        ref = parse_id(unquote(tail))
        return ParsedUri(kind, ref, connection_id=ref.connection_id)
    return _parse_members(kind, _decode_handle(tail, kind=kind))


def _queried_connection(query: str) -> str | None:
    if not query:
        return None
    name, _, connection_id = query.partition("=")
    if name != "connection_id":
        raise ValueError("A pdpp://stream URI takes connection_id only.")
    return _checked_name(unquote(connection_id))


def _is_safe(text: str) -> bool:
    """Return whether a part of an id is not empty and has no separator or path traversal."""
    return bool(text) and text != "." and _UNSAFE.search(text) is None


def _handle_uri(kind: str, members: dict[str, Any]) -> str:
    present = {key: value for key, value in members.items() if value is not None}
    encoded = orjson.dumps({"v": _VERSION, "kind": kind, **present})
    return f"pdpp://{kind}/{base64.urlsafe_b64encode(encoded).decode().rstrip('=')}"


def _decode_handle(handle: str, *, kind: str) -> dict[str, Any]:
    try:
        members = orjson.loads(base64.urlsafe_b64decode(unquote(handle) + "=="))
    except ValueError as error:
        raise ValueError(_UNDECODABLE) from error
    if not isinstance(members, dict) or members.get("v") != _VERSION or members.get("kind") != kind:
        raise ValueError(_UNDECODABLE)
    return {key: value for key, value in members.items() if key not in {"v", "kind"}}


def _parse_members(kind: str, members: dict[str, Any]) -> ParsedUri:
    connection_id = members.pop("connection_id", None)
    if connection_id is not None:
        connection_id = _checked_name(connection_id)
    if kind == "blob":
        blob_id = _checked_key(members.get("blob_id"))
        return ParsedUri(kind, name=blob_id, connection_id=connection_id)
    record = RecordRef(
        connection_id,
        _checked_name(members.pop("stream", None)),
        _checked_key(members.pop("record_id", None)),
    )
    window = _checked_window(members) if kind == "field-window" else {}
    return ParsedUri(kind, record, connection_id=connection_id, window=window)


def _checked_window(members: dict[str, Any]) -> dict[str, Any]:
    for name, value in members.items():
        if type(value) is not _WINDOW_MEMBERS.get(name):
            raise ValueError("The field-window handle has an invalid member.")
    if not members.get("field_path"):
        raise ValueError("The field-window handle has no field_path.")
    return members


def _checked_name(text: object) -> str:
    if not isinstance(text, str) or not _is_safe(text) or len(text) > _MAX_NAME_CHARS:
        raise ValueError("A name in the URI is missing, too long or contains path traversal.")
    return text


def _checked_key(text: object) -> str:
    # A key may contain separators: requests send it as one percent-encoded path segment.
    if not isinstance(text, str) or not text or _CONTROL.search(text):
        raise ValueError("The id in the URI is missing or contains control characters.")
    return text
