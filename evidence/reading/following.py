"""Bookmarks of the changes feed: where a client stands, as the text that it is given and brings
back.

A bookmark is bound to who follows, to the stream and to the one connection that was asked for, if
any. Events carry the very same texts, so a subscriber reads on from what it was sent.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from evidence.access import bookmarks, cursors
from evidence.access.changed_rows import Place
from evidence.access.rows import VisibleRecords
from evidence.access.scope import Scope
from evidence.reading import changes
from evidence.reading.changes import Standing

BEGINNING = "beginning"
KIND = "changes"


@dataclass(frozen=True, slots=True)
class Followed:
    """A stream as somebody follows it: over all its connections, or only one."""

    scope: Scope
    visible: VisibleRecords
    connection_id: str | None

    def opened(self, text: str) -> Standing:
        """Where the bookmark leaves off. Raises ``InvalidCursor`` and ``CursorExpired``."""
        if text == BEGINNING:
            return changes.beginning(self.visible)
        place = cursors.unseal(
            text, KIND, scope=self.scope, query=self._query, param="changes_since"
        )
        return self.recalled(place)

    def sealed(self, standing: Standing, *, now: datetime) -> str:
        """The bookmark; one query where more than eight connections are followed."""
        place = self.kept(standing, now=now)
        return cursors.seal(KIND, scope=self.scope, query=self._query, place=place)

    def longest(self, standing: Standing, *, told: Iterable[changes.Told]) -> int:
        """How long the longest bookmark is of those after each that is told."""
        text = "v" * bookmarks.length(len(self.visible.connections))
        ends = [[each.connection.connection_id, each.record_key] for each in told]
        longest = max(ends, key=lambda end: len("".join(end)), default=None)
        place = _place(standing, text) | {"a": longest}
        return cursors.length(KIND, query=self._query, place=place)

    def kept(self, standing: Standing, *, now: datetime) -> dict[str, Any]:
        """The standing as JSON, to be sealed, or stored where the server itself follows."""
        text = bookmarks.bookmark(standing.reaches, owner_id=self.scope.owner_id, now=now)
        return _place(standing, text)

    def recalled(self, place: Mapping[str, Any]) -> Standing:
        """What ``kept`` has made JSON of. Raises ``CursorExpired``."""
        reaches = bookmarks.recalled(
            place["v"],
            owner_id=self.scope.owner_id,
            connection_ids=[facts.connection_id for facts in self.visible.connections],
        )
        return Standing(
            reaches=reaches,
            times=place["m"],
            since_at=_moment(place["s"]),
            until_at=_moment(place["u"]),
            after=Place(*place["a"]) if place["a"] else None,
        )

    @property
    def _query(self) -> dict[str, Any]:
        return {
            "stream": [self.visible.source.connector_key, self.visible.stream.name],
            "connection_id": self.connection_id,
        }


def _place(standing: Standing, text: str) -> dict[str, Any]:
    after = standing.after
    return {
        "v": text,
        "m": standing.times,
        "s": _seconds(standing.since_at),
        "u": _seconds(standing.until_at),
        "a": [after.connection_id, after.record_key] if after else None,
    }


def _moment(seconds: int) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if seconds else None


def _seconds(moment: datetime | None) -> int:
    return int(moment.timestamp()) if moment else 0
