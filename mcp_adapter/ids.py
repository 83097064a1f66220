"""Names of records, windows, blobs and streams as the tools show and accept them.

Three forms name a record: `{connection_id}/{stream}:{record_id}` (complete in itself), the legacy
`{stream}:{record_id}`, and `pdpp://record/{handle}` for keys that the first cannot carry. A handle
is base64url JSON. A name is not a capability: the resource server decides what it opens.
"""

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

import orjson

from mcp_adapter.errors import AdapterError

_VERSION = 1
_LONGEST_NAME = 200
_LONGEST_ID = 4_000
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_UNFIT = re.compile(r"[\x00-\x1f\x7f/\\]|\.\.")
_WINDOW_MEMBERS = {
    "field_path": str,
    "q": str,
    "offset_chars": int,
    "limit_chars": int,
    "before_chars": int,
    "after_chars": int,
    "occurrence": int,
}


@dataclass(frozen=True, slots=True)
class RecordRef:
    """One record; without a connection it is the legacy, possibly ambiguous name."""

    connection_id: str | None
    stream: str
    record_id: str


@dataclass(frozen=True, slots=True)
class Uri:
    """A `pdpp://` URI, taken apart. `window` holds the read arguments of a field-window."""

    kind: str
    record: RecordRef | None
    name: str
    connection_id: str | None
    window: dict[str, Any]


class InvalidId(AdapterError):  # noqa: N818 - named for what was found, as all refusals
    """The id or URI is not one that any tool shows."""

    def __init__(self, message: str, *, param: str = "id") -> None:
        super().__init__(
            "invalid_id",
            message,
            param=param,
            next_step="Pass an id exactly as search or query_records shows it: "
            "connection_id/stream:record_id.",
        )


def fits_grammar(text: str) -> bool:
    """Whether a segment survives `connection/stream:record`: no separator, no traversal."""
    return bool(text) and text != "." and _UNFIT.search(text) is None


def handle(ref: RecordRef) -> str:
    """The name to show for a record: `fetch` and `read_record_field` accept it as it is.

    A connection id that no form can carry is left out, and has to be shown beside the name.
    """
    if ref.connection_id is not None and not fits_grammar(ref.connection_id):
        return handle(RecordRef(None, ref.stream, ref.record_id))
    if ":" in ref.stream or not (fits_grammar(ref.stream) and fits_grammar(ref.record_id)):
        return record_uri(ref)
    base = f"{ref.stream}:{ref.record_id}"
    return base if ref.connection_id is None else f"{ref.connection_id}/{base}"


def names_connection(shown: str, connection_id: str) -> bool:
    """Whether a shown id is complete without the connection beside it."""
    if shown.startswith(f"{connection_id}/"):
        return True
    try:
        return parse(shown).connection_id == connection_id
    except InvalidId:
        return False


def parse(text: str) -> RecordRef:
    """The record that an id or a `pdpp://record` URI names; raises `InvalidId`."""
    if text.startswith("pdpp://"):
        uri = parse_uri(text)
        if uri.record is None:
            message = f"A pdpp://{uri.kind} URI does not name a record."
            raise InvalidId(message)
        return uri.record
    if len(text) > _LONGEST_ID:
        raise InvalidId("The id is too long to be one of ours.")
    connection, slash, rest = text.partition("/")
    return _grammar(connection if slash else None, rest if slash else text)


def _grammar(connection: str | None, rest: str) -> RecordRef:
    stream, colon, record = rest.partition(":")
    if not colon:
        raise InvalidId("The id has no ':' between stream and record.")
    if connection is not None:
        _checked(connection, part="connection")
    return RecordRef(connection, _checked(stream, part="stream"), _checked(record, part="record"))


def _checked(text: str, *, part: str) -> str:
    if not fits_grammar(text):
        message = f"The {part} part of the id is empty or holds a separator or path traversal."
        raise InvalidId(message)
    return text


def record_uri(ref: RecordRef) -> str:
    """`pdpp://record/{handle}`, which carries any key."""
    return f"pdpp://record/{_pack('record', _record_members(ref))}"


def blob_uri(blob_id: str, *, connection_id: str | None) -> str:
    """`pdpp://blob/{handle}`."""
    return f"pdpp://blob/{_pack('blob', {'connection_id': connection_id, 'blob_id': blob_id})}"


def field_window_uri(ref: RecordRef, *, window: dict[str, Any]) -> str:
    """`pdpp://field-window/{handle}`; `window` has `field_path` and at most the read arguments."""
    return f"pdpp://field-window/{_pack('field-window', {**_record_members(ref), **window})}"


def stream_uri(name: str) -> str:
    """`pdpp://stream/{name}`."""
    return f"pdpp://stream/{quote(name, safe='')}"


def _record_members(ref: RecordRef) -> dict[str, Any]:
    return {
        "connection_id": ref.connection_id,
        "stream": ref.stream,
        "record_id": ref.record_id,
    }


def _pack(kind: str, members: dict[str, Any]) -> str:
    present = {key: value for key, value in members.items() if value is not None}
    packed = orjson.dumps({"v": _VERSION, "kind": kind, **present})
    return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def parse_uri(uri: str, *, param: str = "id") -> Uri:
    """Take a URI apart; raises `InvalidId` naming `param`."""
    scheme, _, rest = uri.partition("://")
    kind, _, tail = rest.partition("/")
    if scheme != "pdpp" or not tail or len(uri) > _LONGEST_ID:
        raise InvalidId("The URI is not a pdpp:// URI of ours.", param=param)
    if kind == "stream":
        return Uri(kind, None, _name(unquote(tail), param=param), None, {})
    if kind not in {"record", "field-window", "blob"}:
        raise InvalidId("The URI is of no kind that this server has.", param=param)
    if kind == "record" and ("%3A" in tail.upper() or ":" in tail):
        return Uri(kind, parse(unquote(tail)), "", None, {})
    return _unpacked(kind, _unpack(tail, kind=kind, param=param), param=param)


def _unpacked(kind: str, members: dict[str, Any], *, param: str) -> Uri:
    connection = members.pop("connection_id", None)
    if connection is not None:
        connection = _name(connection, param=param)
    if kind == "blob":
        return Uri(kind, None, _key(members.get("blob_id"), param=param), connection, {})
    record = RecordRef(
        connection,
        _name(members.pop("stream", None), param=param),
        _key(members.pop("record_id", None), param=param),
    )
    return Uri(kind, record, "", connection, _window(kind, members, param=param))


def _window(kind: str, members: dict[str, Any], *, param: str) -> dict[str, Any]:
    if kind == "record":
        return {}
    for name, value in members.items():
        wanted = _WINDOW_MEMBERS.get(name)
        if wanted is None or type(value) is not wanted:
            raise InvalidId("The handle holds a member that no window has.", param=param)
    if not members.get("field_path"):
        raise InvalidId("The field-window handle names no field.", param=param)
    return members


def _unpack(packed: str, *, kind: str, param: str) -> dict[str, Any]:
    try:
        raw = base64.urlsafe_b64decode(unquote(packed) + "=" * (-len(packed) % 4))
        members = orjson.loads(raw)
    except (binascii.Error, ValueError):
        members = None
    if not isinstance(members, dict) or members.get("v") != _VERSION or members.get("kind") != kind:
        raise InvalidId("The handle of the URI cannot be read.", param=param)
    return {key: value for key, value in members.items() if key not in {"v", "kind"}}


def _name(text: object, *, param: str) -> str:
    if not isinstance(text, str) or not fits_grammar(text) or len(text) > _LONGEST_NAME:
        raise InvalidId("The handle lacks a part or holds path traversal.", param=param)
    return text


def _key(text: object, *, param: str) -> str:
    # A key may hold anything but controls: it travels as one percent-encoded path segment.
    if not isinstance(text, str) or not text or _CONTROL.search(text):
        raise InvalidId("The handle lacks the id.", param=param)
    return text
