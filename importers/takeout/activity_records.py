"""Build the records of what the owner watched, heard, searched and subscribed to."""

from collections.abc import Hashable
from hashlib import sha256
from typing import Any

from importers.core.results import ParsedItem, ParsedRecord, ReceiptCode
from importers.core.text import one_line, replace_unstorable, truncate

_FIELDS = ("title", "by", "collection", "url", "at", "is_day_only", "duration_s", "profile", "device",
           "place", "in_reply_to", "text")  # fmt: skip
_LINES = ("title", "by", "collection", "url", "profile", "device", "place")


class Repeats:
    """Numbers items that are equal to the one before them, and have no id."""

    def __init__(self) -> None:
        self._identity: Hashable = None
        self._number = 0

    def number(self, identity: Hashable) -> int:
        """Return 1 for an item that differs from the one before it."""
        self._number = self._number + 1 if identity == self._identity else 1
        self._identity = identity
        return self._number


def key(service: str, *parts: object) -> str:
    identity = "\0".join(map(str, (service, *parts)))
    return f"a_{sha256(identity.encode('utf-8', 'replace')).hexdigest()[:28]}"


def add_activity(item: ParsedItem, *, key: str, service: str, kind: str, **fields: Any) -> None:
    """Add an activity; fields that are not given are null."""
    data = dict.fromkeys(_FIELDS) | {"is_day_only": False} | fields
    for name in _LINES:
        data[name] = one_line(replace_unstorable(str(data[name]))) or None if data[name] else None
    text, is_cut = truncate(replace_unstorable(str(data["text"] or "")).strip())
    if is_cut:
        item.add_issue(ReceiptCode.TEXT_CUT)
    data["text"] = text or None
    item.records.append(
        ParsedRecord("activities", {"id": key, "service": service, "kind": kind, **data})
    )


def subscription(service: str, *, channel: str, name: str, url: str | None) -> ParsedRecord:
    return ParsedRecord(
        "subscriptions",
        {
            "id": key(service, "subscription", channel),
            "service": service,
            "name": one_line(replace_unstorable(name)) or None,
            "url": url,
        },
    )
