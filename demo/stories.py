"""Build the hand-written records of stories/*.toml, one file for each story."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

from demo import files, people, shapes
from demo.rng import stable_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from demo.shapes import Record

FOLDER = people.HERE / "stories"


@cache
def load_stories() -> tuple[tuple[str, dict[str, Any]], ...]:
    """Return the name and content of each story, by file name."""
    return tuple(
        (path.stem, people.load_toml(f"stories/{path.name}"))
        for path in sorted(FOLDER.glob("*.toml"))
    )


def records() -> Iterator[Record]:
    for story, tables in load_stories():
        for entry in tables.get("mail", []):
            yield from _mail(story, entry=entry)
        for entry in tables.get("chat", []):
            yield _chat(story, entry=entry)
        for entry in tables.get("bank", []):
            yield _bank(story, entry=entry)
        for entry in tables.get("event", []):
            yield _event(story, entry=entry)
        for entry in tables.get("workout", []):
            yield shapes.workout(f"{story}/{entry['name']}", **_without(entry, "name"))


def blobs() -> Iterator[Record]:
    """Yield the contents of the attachments in the stories."""
    for story, tables in load_stories():
        for entry in tables.get("mail", []):
            for attached in entry.get("attachments", []):
                file = files.generate_file(attached)
                yield {
                    "connection_id": shapes.MAIL[entry.get("box", "personal")],
                    "stream": "attachments",
                    "record_key": _attachment_key(story, entry=entry, attached=attached),
                    "blob_id": file.blob_id,
                    "media_type": file.media_type,
                    "content": file.content,
                }


def _without(entry: Record, *names: str) -> Record:
    return {name: value for name, value in entry.items() if name not in names}


def _mail(story: str, *, entry: Record) -> Iterator[Record]:
    attached = entry.get("attachments", [])
    name = f"{story}/{entry['name']}"
    message = shapes.mail(
        name,
        box=entry.get("box", "personal"),
        at=entry["at"],
        sender=entry["from"],
        to=entry.get("to", ["ida"]),
        subject=entry["subject"],
        body=entry["body"],
        thread=f"{story}/{entry['thread']}" if "thread" in entry else None,
        labels=entry.get("labels", []),
        attachments=bool(attached),
    )
    yield message
    for attachment in attached:
        file = files.generate_file(attachment)
        data = {
            "id": _attachment_key(story, entry=entry, attached=attachment),
            "message_id": message["key"],
            "filename": attachment["filename"],
            "media_type": file.media_type,
            "size_bytes": len(file.content),
            "received_at": message["data"]["received_at"],
            "text": attachment.get("text"),
            "blob_ref": file.blob_ref(),
        }
        yield {**message, "stream": "attachments", "key": data["id"], "data": data}


def _attachment_key(story: str, *, entry: Record, attached: Record) -> str:
    return stable_id("a_", f"attachment/{story}/{entry['name']}/{attached['filename']}")


def _chat(story: str, *, entry: Record) -> Record:
    return shapes.chat(
        f"{story}/{entry['name']}",
        space=entry["space"],
        channel=entry["channel"],
        at=entry["at"],
        author=entry["from"],
        text=entry["text"],
        thread=f"{story}/{entry['thread']}" if "thread" in entry else None,
        replies=entry.get("replies", 0),
        reactions=entry.get("reactions"),
    )


def _bank(story: str, *, entry: Record) -> Record:
    day: date = entry["date"]
    original = entry.get("original")
    return shapes.transaction(
        f"{story}/{entry['name']}",
        day=day,
        amount=entry["cents"],
        kind=entry["type"],
        original=(original[0], original[1]) if original else None,
        **_without(entry, "name", "date", "cents", "type", "original"),
    )


def _event(story: str, *, entry: Record) -> Record:
    starts: datetime = entry["starts"]
    ends = starts + timedelta(minutes=entry.get("minutes", 60))
    rest = _without(entry, "name", "starts", "minutes")
    return shapes.event(f"{story}/{entry['name']}", starts=starts, ends=ends, **rest)
