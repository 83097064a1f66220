"""Telegram: the machine-readable JSON of its desktop program, one chat or all of them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import IO, Any

from importers.chat import records
from importers.core.dates import moment
from importers.core.export_files import Entry, each
from importers.core.importer import Entries, Kind, Options
from importers.core.results import Code, Item, Piece, Pieces, UnreadableError
from importers.core.streaming import ITEM, walk
from importers.core.text import one_line, storable

SERVICE = "telegram"
_MEDIA_FOLDERS = ("photos", "files", "video_files", "voice_messages", "round_video_messages",
                  "stickers", "video_messages")  # fmt: skip
_FACTS = ("name", "type", "id")
_OURS = re.compile(rb'"(?:messages|chats|about)"\s*:')


@dataclass(slots=True)
class Chat:
    """What is said of a chat before its messages."""

    facts: dict[str, Any] = field(default_factory=dict)

    def conversation(self) -> records.Conversation:
        stated_name = self.facts.get("name") or self.facts.get("type")
        name = one_line(storable(str(stated_name or ""))) or "Chat"
        stated = self.facts.get("id")
        return records.Conversation(
            id=f"t_{stated}" if stated else records.conversation_id(SERVICE, name),
            name=name,
            service=SERVICE,
            kind=str(self.facts.get("type") or "chat").replace("_", " "),
        )


def _claim(entries: Entries) -> list[Entry]:
    results = [
        entry
        for entry in entries
        if entry.suffix == ".json"
        and entry.path.stem.startswith("result")
        and _OURS.search(entry.head)
    ]
    roots = {result.path.parent for result in results}
    media = [
        entry
        for entry in entries
        if any(
            entry.path.is_relative_to(root)
            and set(entry.path.relative_to(root).parts[:-1]) & set(_MEDIA_FOLDERS)
            for root in roots
        )
    ]
    return results + media


def _read(entries: Entries, options: Options) -> Pieces:
    results = [
        entry
        for entry in entries
        if entry.path.stem.startswith("result") and entry.suffix == ".json"
    ]
    media = {entry.name: entry for entry in entries}
    return each(results, partial(_result, media=media))


def _result(entry: Entry, *, media: dict[str, Entry]) -> Pieces:
    with entry.open() as stream:
        at = 0
        for chat, said in _messages(stream):
            if said is None:
                row = chat.conversation().row()
                yield Piece(entry.name, chat.conversation().name, 0, partial(Item, [row]))
                continue
            size, at = max(0, stream.tell() - at), max(at, stream.tell())
            named = said.get("id") if isinstance(said, dict) else ""
            place = f"{chat.conversation().name}, message {named}"
            make = partial(_message, said, chat.conversation(), entry, media)
            yield Piece(entry.name, place, size, make)


def _messages(stream: IO[bytes]) -> Iterator[tuple[Chat, dict[str, Any] | None]]:
    """Each chat once, then its messages, without ever holding more than one of them."""
    chat, announced = Chat(), False
    for prefix, event, value in walk(stream, is_item=lambda at: at.endswith("messages.item")):
        if event == ITEM:
            if not announced:
                yield chat, None
                announced = True
            yield chat, value
        elif event == "start_map" and prefix.endswith("list.item"):
            chat, announced = Chat(), False
        elif event in ("string", "number") and (name := prefix.rpartition(".")[2]) in _FACTS:
            chat.facts.setdefault(name, value)


def _message(
    said: dict[str, Any], conversation: records.Conversation, entry: Entry, media: dict[str, Entry]
) -> Item:
    item = Item()
    if not isinstance(said, dict) or "id" not in said:
        raise UnreadableError(Code.NO_IDENTITY)
    sent_at = moment(said.get("date_unixtime"))
    if sent_at is None:
        item.remark(Code.BAD_DATE, detail=str(said.get("date"))[:40])
    is_service = said.get("type") == "service"
    reply = said.get("reply_to_message_id")
    records.message(
        item,
        conversation,
        key=f"{conversation.id}.{said['id']}",
        text=_text(said.get("text")) or (str(said.get("action") or "") if is_service else ""),
        sent_at=sent_at,
        author=said.get("from") or said.get("actor"),
        author_id=said.get("from_id") or said.get("actor_id"),
        edited_at=moment(said.get("edited_unixtime")),
        kind="system" if is_service else str(said.get("media_type") or "message"),
        reply_to=f"{conversation.id}.{reply}" if reply else None,
        reactions=[
            f"{each.get('emoji') or each.get('type')} {each.get('count', 1)}"
            for each in records.objects(said.get("reactions"))
        ],
        sent=_sent(said, entry, media, item),
    )
    return item


def _text(value: Any) -> str:
    """Text is a string, or a list of strings and of pieces with a format."""
    if isinstance(value, list):
        return "".join(_text(part) for part in value)
    if isinstance(value, dict):
        return _text(value.get("text"))
    return str(value) if isinstance(value, str | int | Decimal) else ""


def _sent(
    said: dict[str, Any], entry: Entry, media: dict[str, Entry], item: Item
) -> Iterator[records.Sent]:
    for member in ("photo", "file"):
        path = said.get(member)
        if not isinstance(path, str):
            continue
        found = media.get((entry.path.parent / path).as_posix())
        if found is None:
            item.remark(Code.FILE_MISSING, detail=path)
        name = said.get("file_name") or (path.rpartition("/")[2] if found else member)
        yield records.Sent(name=str(name), media_type=said.get("mime_type"), entry=found)


TELEGRAM = Kind(
    name="telegram",
    title="Telegram chats",
    source="chat",
    label="Telegram",
    claim=_claim,
    read=_read,
)
