"""How records are named on the command line: just as agents are shown them.

`{connection_id}/{stream}:{record_id}`, the same without its connection, and the `pdpp://record/…`,
`pdpp://field-window/…` and `pdpp://blob/…` handles (base64url JSON) for keys that do not fit.
"""

import base64
import binascii
import json
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote

from cli.errors import Failure, usage

_UNFIT = re.compile(r"[\x00-\x1f\x7f/\\]|\.\.")
_KINDS = ("record", "field-window", "blob")


@dataclass(frozen=True, slots=True)
class Reference:
    """A record, or a blob by `blob_id`; `window` has the read arguments of a field-window."""

    connection_id: str | None
    stream: str = ""
    record_id: str = ""
    blob_id: str = ""
    window: dict[str, Any] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """The record's path in the REST API."""
        return f"/v1/streams/{segment(self.stream)}/records/{segment(self.record_id)}"


def segment(text: str) -> str:
    """One path segment. Dots alone are encoded too, so that no client folds them away."""
    return quote(text, safe="") if text.strip(".") else text.replace(".", "%2E")


def parse(text: str) -> Reference:
    """What an id or a handle names; a `Failure` of usage for anything else."""
    if text.startswith("pdpp://"):
        return _handle(text)
    connection, slash, rest = text.partition("/")
    stream, colon, record = (rest if slash else text).partition(":")
    parts = [stream, record, *([connection] if slash else [])]
    if not colon or not all(map(fits, parts)):
        raise _unknown(text)
    return Reference(connection if slash else None, stream, record)


def fits(part: str) -> bool:
    """Whether a part survives `connection/stream:record`."""
    return bool(part) and part != "." and _UNFIT.search(part) is None


def shown(connection_id: str | None, stream: str, record_id: str) -> str:
    """The name that `pdpp fetch` and `pdpp field` take."""
    parts = [stream, record_id, *([connection_id] if connection_id else [])]
    if ":" in stream or not all(map(fits, parts)):
        return _packed(connection_id, stream, record_id)
    return f"{connection_id}/{stream}:{record_id}" if connection_id else f"{stream}:{record_id}"


def _packed(connection_id: str | None, stream: str, record_id: str) -> str:
    members = {"v": 1, "kind": "record", "connection_id": connection_id}
    members |= {"stream": stream, "record_id": record_id}
    present = {name: value for name, value in members.items() if value is not None}
    raw = json.dumps(present, ensure_ascii=False, separators=(",", ":")).encode()
    return f"pdpp://record/{base64.urlsafe_b64encode(raw).decode().rstrip('=')}"


def _handle(text: str) -> Reference:
    kind, _, tail = text.removeprefix("pdpp://").partition("/")
    tail = unquote(tail)
    if kind not in _KINDS or not tail:
        raise _unknown(text)
    if kind == "record" and ":" in tail:
        return parse(tail)
    members = _unpacked(tail)
    if members.pop("kind", None) != kind or members.pop("v", None) != 1:
        raise _unknown(text)
    connection = members.pop("connection_id", None)
    named = {name: members.pop(name, "") for name in ("stream", "record_id", "blob_id")}
    wanted = ("blob_id",) if kind == "blob" else ("stream", "record_id")
    if not all(isinstance(named[name], str) and named[name] for name in wanted):
        raise _unknown(text)
    return Reference(connection, **named, window=members)


def _unpacked(packed: str) -> dict[str, Any]:
    try:
        members = json.loads(base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4)))
    except (binascii.Error, ValueError):
        return {}
    return members if isinstance(members, dict) else {}


def _unknown(text: str) -> Failure:
    return usage(
        f"{text[:80]!r} names no record.",
        param="ID",
        next_step="Pass an id as pdpp search shows it: CONNECTION/STREAM:RECORD.",
    )
