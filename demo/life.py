"""The demo data as connectors deliver it: declarations, connections, records and blobs."""

from __future__ import annotations

import json
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

from demo import (
    appointments,
    bank,
    channels,
    chat,
    clock,
    everyday_mail,
    health,
    hostile,
    people,
    stories,
)
from demo.shapes import BANK, CALENDAR, CHAT, HEALTH, MAIL, Record, identities

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORD_COUNT = 19489
_SOURCES = ("mailbox", "chat", "bank", "calendar", "health")
_STREAMS = (
    "channels",
    "accounts",
    "messages",
    "attachments",
    "transactions",
    "events",
    "measurements",
    "workouts",
)
_PARTS = (channels, stories, chat, everyday_mail, bank, appointments, health, hostile)
_CONNECTIONS: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    (MAIL["personal"], "mailbox", "Mail, personal", ("en", "de", "fr", "es", "ja", "zh")),
    (MAIL["work"], "mailbox", "Mail, Cartolab", ("en", "fr", "de", "ja", "zh", "es")),
    (CHAT["work"], "chat", "Chat, Cartolab", ("en", "fr", "de", "ja", "zh", "es")),
    (CHAT["friends"], "chat", "Chat, friends and family", ("en", "de", "es", "fr", "zh", "ja")),
    (BANK, "bank", "Elbe Bank", ("de", "en", "fr", "es", "ja")),
    (CALENDAR, "calendar", "Calendar", ("en", "de", "fr", "es", "ja", "zh")),
    (HEALTH, "health", "Pulse watch", ("en", "de", "fr")),
)


def declarations() -> list[dict[str, Any]]:
    """Return the source declarations in a fixed order."""
    folder = people.HERE / "declarations"
    return [
        json.loads((folder / f"{source}.json").read_text(encoding="utf-8")) for source in _SOURCES
    ]


def connections() -> list[dict[str, Any]]:
    """Return the connections: ids, names, languages for stemming, and the owner's identities."""
    return [
        {
            "connection_id": connection_id,
            "connector_key": connector_key,
            "display_name": display_name,
            "languages": list(languages),
            "identities": identities(connection_id),
        }
        for connection_id, connector_key, display_name, languages in _CONNECTIONS
    ]


def records() -> Iterator[Record]:
    """Yield all records by connection, then parents first, then by emitted_at."""
    yield from _sorted_records()


def last_year() -> Iterator[Record]:
    """Yield the records of the last twelve months, with the channels and accounts they belong to."""
    since = (clock.LAST_DAY - timedelta(days=364)).isoformat()
    for record in records():
        if record["emitted_at"] >= since or record["stream"] in ("channels", "accounts"):
            yield record


def blobs() -> Iterator[dict[str, Any]]:
    """Yield connection_id, stream, record_key, blob_id, media_type and content of each file."""
    yield from stories.blobs()


@cache
def _sorted_records() -> tuple[Record, ...]:
    order = {connection[0]: position for position, connection in enumerate(_CONNECTIONS)}
    all_records = [record for part in _PARTS for record in part.records()]
    all_records.sort(
        key=lambda record: (
            order[record["connection_id"]],
            _STREAMS.index(record["stream"]),
            record["emitted_at"],
            record["key"],
        )
    )
    return tuple(all_records)
