"""Generate the chat channels and bank accounts that other records refer to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from demo import clock, people, shapes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demo.shapes import Record


def records() -> Iterator[Record]:
    tables = people.load_toml("texts/channels.toml")
    for space in ("work", "friends"):
        for entry in tables[space]:
            yield _channel(space, entry=entry)
    for account in tables["account"]:
        opened = account["opened_on"]
        data = {**account, "opened_on": opened.isoformat(), "currency": "EUR"}
        when = clock.utc(clock.local(opened, hour=12))
        yield shapes.record(
            shapes.BANK,
            stream="accounts",
            key=account["account_id"],
            data=data,
            emitted_at=when,
        )


def _channel(space: str, *, entry: Record) -> Record:
    key = shapes.channel_id(space, channel=entry["name"])
    created = clock.utc(clock.local(entry["created_on"], hour=9))
    data = {
        "channel_id": key,
        "name": entry["name"],
        "topic": entry.get("topic"),
        "purpose": entry.get("purpose"),
        "created_at": created,
        "is_private": entry.get("is_private", False),
        "member_count": entry["member_count"],
    }
    return shapes.record(
        shapes.CHAT[space], stream="channels", key=key, data=data, emitted_at=created
    )
