"""Import the JSON export of Telegram Desktop, of one chat or of all chats."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import tzinfo
from decimal import Decimal
from functools import partial
from typing import IO, Any

from importers.chat import records
from importers.core.dates import parse_local_moment, unix_to_iso
from importers.core.export_files import ExportFile, iter_items
from importers.core.importer import ExportFiles, Importer, Options
from importers.core.readers import ITEM, KeySet, iter_json_events, json_objects
from importers.core.results import (
    ExportItem,
    ExportItems,
    ParsedItem,
    ReceiptCode,
    UnreadableError,
    issue_only,
)
from importers.core.text import one_line

SERVICE = "telegram"
_MEDIA_FOLDERS = ("photos", "files", "video_files", "voice_messages", "round_video_messages",
                  "stickers", "video_messages")  # fmt: skip
_CHAT_FIELDS = ("name", "type", "id")
_SERVICE_MEMBERS = re.compile(
    r"(?:id|type|action|text|text_entities|photo|file|thumbnail|width|height|reactions|.*_id|date.*|edited.*"
    r"|from.*|actor.*|reply_to.*|photo_.*|file_.*)\Z"
)
"""Members of a message that its fields have."""
_MESSAGE_MEMBERS = re.compile(
    r"(?:forwarded_from|saved_from|media_type|mime_type|sticker_emoji|inline_bot_buttons|poll|todo_list"
    r"|place_name|address|game_title|(?:location|contact|invoice)_information)\Z"
)
"""More members that the text of a message has."""
_TELEGRAM_MEMBER = re.compile(rb'"(?:messages|chats|about)"\s*:')


@dataclass(slots=True)
class Chat:
    """The fields of a chat that precede its messages."""

    fields: dict[str, Any] = field(default_factory=dict)

    def conversation(self) -> records.Conversation:
        title = self.fields.get("name") or self.fields.get("type") or ""
        name = one_line(str(title)) or "Chat"
        chat_id = self.fields.get("id")
        return records.Conversation(
            id=f"t_{chat_id}" if chat_id else records.conversation_id(SERVICE, name),
            name=name,
            service=SERVICE,
            kind=str(self.fields.get("type") or "chat").replace("_", " "),
        )


def _is_result(file: ExportFile) -> bool:
    return file.suffix == ".json" and file.path.stem.startswith("result")


def _claim(files: ExportFiles) -> list[ExportFile]:
    results = [file for file in files if _is_result(file) and _TELEGRAM_MEMBER.search(file.head)]
    roots = {result.path.parent for result in results}
    media = [
        file
        for file in files
        if any(
            file.path.is_relative_to(root)
            and set(file.path.relative_to(root).parts[:-1]) & set(_MEDIA_FOLDERS)
            for root in roots
        )
    ]
    return results + media


def _read(files: ExportFiles, options: Options) -> ExportItems:
    """Read the newest export first, whose folder has its day: the first version of a message counts."""
    results = [file for file in files if _is_result(file)]
    results.sort(key=lambda file: file.name, reverse=True)
    media = {file.name: file for file in files}
    read = partial(_read_result, media=media, zone=options.zone, seen=KeySet())
    return iter_items(results, read)


def _read_result(
    file: ExportFile, *, media: dict[str, ExportFile], zone: tzinfo, seen: KeySet
) -> ExportItems:
    with file.open() as stream:
        position = 0
        for chat, message in _messages(stream):
            conversation = chat.conversation()
            if message is None:
                parse = partial(ParsedItem, [conversation.record()])
                yield ExportItem(file.name, conversation.name, 0, parse)
                continue
            size = max(0, stream.tell() - position)
            position = max(position, stream.tell())
            message_id = message.get("id") if isinstance(message, dict) else ""
            location = f"{conversation.name}, message {message_id}"
            is_another = _is_another_version(message, conversation.id, seen)
            read = partial(_message, message, conversation, file, media, zone)
            older = issue_only(ReceiptCode.OLDER_VERSION)
            yield ExportItem(file.name, location, size, older if is_another else read)


def _is_another_version(message: Any, conversation_id: str, seen: KeySet) -> bool:
    """Return whether an earlier message has this id and another text, time, author or file."""
    if not isinstance(message, dict) or "id" not in message:
        return False
    key = f"{conversation_id}.{message['id']}"
    names = ("text", "date", "edited", "from_id", "from", "file", "photo", "action", "reactions")
    content = repr([message.get(name) for name in names])
    is_new = seen.add(key)
    return seen.add(f"{key}\0{content}") and not is_new


def _messages(stream: IO[bytes]) -> Iterator[tuple[Chat, Any]]:
    """Yield each chat with None, then with each of its messages; one message is in memory."""
    chat, is_new = Chat(), True
    for prefix, event, value in iter_json_events(
        stream, is_item=lambda prefix: prefix.endswith("messages.item")
    ):
        if event == ITEM:
            if is_new:
                yield chat, None
                is_new = False
            yield chat, value
        elif event == "start_map" and prefix.endswith("list.item"):
            chat, is_new = Chat(), True
        elif event in ("string", "number") and (name := prefix.rpartition(".")[2]) in _CHAT_FIELDS:
            chat.fields.setdefault(name, value)


def _message(
    message: Any,
    conversation: records.Conversation,
    result: ExportFile,
    media: dict[str, ExportFile],
    zone: tzinfo,
) -> ParsedItem:
    item = ParsedItem()
    if not isinstance(message, dict) or "id" not in message:
        raise UnreadableError(ReceiptCode.NO_IDENTITY)
    sent_at = item.require_date(_time(message, "date", zone), message.get("date"))
    is_service = message.get("type") == "service"
    action = _action(message) if is_service else ""
    files = list(_message_files(message, result, media, item))
    texts = (
        *_origin(message),
        _text(message.get("text")) or _text(message.get("text_entities")),
        *_shared_texts(message),
        *(() if is_service else _other_texts(message)),
        action,
    )
    text = "\n".join(filter(None, texts))
    if (not text and not files) or (not is_service and _has_unread_part(message)):
        item.add_issue(ReceiptCode.PARTLY_IMPORTED, detail=_unread(message))
    records.add_message(
        item,
        conversation,
        key=f"{conversation.id}.{message['id']}",
        text=text,
        sent_at=sent_at,
        author=message.get("from") or message.get("actor"),
        author_id=message.get("from_id") or message.get("actor_id"),
        edited_at=_time(message, "edited", zone),
        kind="system" if is_service else _kind(message),
        reply_to=_reply_to(message, conversation),
        reactions=[
            f"{reaction.get('emoji') or reaction.get('type')} {reaction.get('count', 1)}"
            for reaction in json_objects(message, "reactions")
        ],
        files=files,
    )
    return item


def _reply_to(message: dict[str, Any], conversation: records.Conversation) -> str | None:
    """Return the key of the message that this one answers, which may be in another chat."""
    number, chat = message.get("reply_to_message_id"), message.get("reply_to_peer_id")
    digits = re.sub(r"\D+", "", str(chat or ""))
    return f"{f't_{digits}' if digits else conversation.id}.{number}" if number else None


def _action(message: dict[str, Any]) -> str:
    """Return what a service message tells, with details such as the new title of a group."""
    values = (value for name, value in message.items() if not _SERVICE_MEMBERS.match(name))
    lists = (value if isinstance(value, list) else [value] for value in values)
    details = filter(None, (_text(each) for value in lists for each in value))
    return ": ".join(filter(None, (str(message.get("action") or ""), ", ".join(details))))


def _others(message: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the members of a message that neither its fields nor its text have."""
    for name, value in message.items():
        if not _SERVICE_MEMBERS.match(name) and not _MESSAGE_MEMBERS.match(name):
            yield name, value


def _other_texts(message: dict[str, Any]) -> Iterator[str]:
    """Yield each further text under its name, such as the performer of a song."""
    for name, value in _others(message):
        if isinstance(value, str) and value:
            yield f"{name.replace('_', ' ')}: {value}"


def _has_unread_part(message: dict[str, Any]) -> bool:
    """Return whether there is a part, such as a give-away, that nothing is read of."""
    return any(isinstance(value, dict | list) and value for _, value in _others(message))


def _unread(message: dict[str, Any]) -> str:
    """Return the names of members that nothing is read of, such as a give-away."""
    names = (name for name in message if not _SERVICE_MEMBERS.match(name))
    kind = message.get("type")
    return ", ".join(filter(None, (None if kind == "message" else str(kind), *names)))[:80]


def _time(message: dict[str, Any], name: str, zone: tzinfo) -> str | None:
    """Return a time; older exports have it in the local time of the computer, and 1970 for none."""
    written = message.get(f"{name}_unixtime")
    if written is not None:
        return unix_to_iso(written)
    local = str(message.get(name) or "")
    return None if local.startswith("1970") else parse_local_moment(local.replace("T", " "), zone)


def _text(value: Any) -> str:
    """Return text that is a string, or a list of strings and formatted parts."""
    if isinstance(value, list):
        return "".join(_text(part) for part in value)
    if isinstance(value, dict):
        text, target = _text(value.get("text")), value.get("href")
        has_target = isinstance(target, str) and target not in text
        return f"{text} ({target})" if has_target else text
    return str(value) if isinstance(value, str | int | Decimal) else ""


def _origin(message: dict[str, Any]) -> Iterator[str]:
    """Yield whose words these are, if not those of the author."""
    saved_from = message.get("saved_from")
    if name := message.get("forwarded_from") or saved_from:
        yield f"Forwarded from {_text(name)}:"
        if saved_from and saved_from != name:
            yield f"Saved from {_text(saved_from)}:"


_SHARED = {"poll": "poll", "todo_list": "list", "location_information": "place",
           "contact_information": "contact", "invoice_information": "invoice",
           "game_title": "game"}  # fmt: skip


def _kind(message: dict[str, Any]) -> str:
    shared = next((kind for member, kind in _SHARED.items() if member in message), "message")
    return str(message.get("media_type") or shared)


def _shared_texts(message: dict[str, Any]) -> Iterator[str]:
    """Yield the texts of a poll, list, place, contact, invoice, game, sticker or button."""
    for member in ("poll", "todo_list"):
        if isinstance(shared := message.get(member), dict):
            yield _text(shared.get("question") or shared.get("title"))
            for answer in json_objects(shared, "answers") or json_objects(shared, "items"):
                voters = answer.get("voters")
                yield f"- {_text(answer.get('text'))}" + ("" if voters is None else f" ({voters})")
    yield from (_text(message.get(name)) for name in ("place_name", "address", "game_title"))
    for member in ("location_information", "contact_information", "invoice_information"):
        if isinstance(shared := message.get(member), dict):
            values = (_text(value) for value in shared.values() if not isinstance(value, list))
            yield (", " if member == "location_information" else " ").join(filter(None, values))
    yield _text(message.get("sticker_emoji"))
    for row in message.get("inline_bot_buttons") or ():
        for button in row if isinstance(row, list) else ():
            if isinstance(button, dict):
                link = button.get("data") if button.get("type") == "url" else None
                yield _text({"text": button.get("text"), "href": link})


def _message_files(
    message: dict[str, Any], result: ExportFile, media: dict[str, ExportFile], item: ParsedItem
) -> Iterator[records.MessageFile]:
    for member in ("photo", "file"):
        path = message.get(member)
        if not isinstance(path, str):
            continue
        content = media.get((result.path.parent / path).as_posix())
        if content is None:
            item.add_issue(ReceiptCode.FILE_MISSING, detail=path)
        name = message.get("file_name") or (path.rpartition("/")[2] if content else member)
        yield records.MessageFile(
            name=str(name), media_type=message.get("mime_type"), content=content
        )


TELEGRAM = Importer(claim=_claim, read=_read)
