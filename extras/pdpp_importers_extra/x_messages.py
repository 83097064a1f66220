"""Import direct messages of an X (Twitter) archive."""

import html
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from importers.chat import records
from importers.core.dates import to_utc
from importers.core.export_files import ExportFile, iter_items
from importers.core.importer import ExportFiles, Importer, Options
from importers.core.readers import (
    ITEM,
    Json,
    iter_json_events,
    json_line,
    json_object,
    json_objects,
    json_text,
    open_json,
    parse_node,
)
from importers.core.results import ExportItem, ExportItems, ParsedItem, ReceiptCode, UnreadableError
from importers.core.text import one_line
from pdpp_importers_extra.x_archive import Account, group_media, part_name, read_account

SERVICE = "x"
_PARTS = ("direct_messages", "direct_messages_group")
_MEDIA_FOLDERS = ("direct_messages_media", "direct_messages_group_media")
_CONVERSATION = "item.dmConversation"
_EVENTS = f"{_CONVERSATION}.messages.item"


@dataclass(frozen=True, slots=True)
class _Archive:
    """The owner, the media by the id of their message, and the names of groups by id."""

    account: Account
    media: Mapping[str, list[ExportFile]]
    names: Mapping[str, str]


def _claim(files: ExportFiles) -> list[ExportFile]:
    """Return the messages, their media, and the account. Posts know it from the manifest."""
    names = {file.name for file in files if part_name(file) in _PARTS}
    if not names:
        return []
    return [
        file
        for file in files
        if file.name in names
        or file.path.parent.name in _MEDIA_FOLDERS
        or part_name(file) == "account"
    ]


def _read(files: ExportFiles, _options: Options) -> ExportItems:
    parts = [file for file in files if part_name(file) in _PARTS]
    names = {name: title for file in parts for name, title in _group_names(file)}
    archive = _Archive(read_account(files), group_media(files, _MEDIA_FOLDERS), names)
    return iter_items(parts, partial(_read_part, archive=archive))


def _events(file: ExportFile) -> Iterator[tuple[str, Any, int]]:
    """Yield (id of the conversation, event, bytes so far), and an event of None for its start."""
    conversation_id, is_known = "", False
    with open_json(file) as stream:
        for prefix, event, value in iter_json_events(stream, is_item=_EVENTS.__eq__):
            if prefix == f"{_CONVERSATION}.conversationId" and isinstance(value, str):
                conversation_id = value
                yield conversation_id, None, stream.tell()
            elif event == ITEM:
                yield conversation_id, value, stream.tell()
            is_known = is_known or prefix == "item" or (prefix == "" and event == "start_array")
    if not is_known:
        raise UnreadableError(ReceiptCode.MALFORMED)


def _group_names(file: ExportFile) -> Iterator[tuple[str, str]]:
    """Yield the names of groups, the newest last."""
    found: list[tuple[str, str]] = []
    try:
        for conversation_id, event, _ in _events(file):
            update = json_object(event, "conversationNameUpdate") if isinstance(event, dict) else {}
            if name := json_line(update, "name"):
                found.append((conversation_id, name))
    except UnreadableError:
        pass  # reading the messages reports it
    yield from reversed(found)


def _read_part(file: ExportFile, *, archive: _Archive) -> ExportItems:
    kind = "group" if part_name(file) == "direct_messages_group" else "direct"
    position = 0
    for number, (conversation_id, event, at) in enumerate(_events(file), 1):
        size, position = max(0, at - position), at
        conversation = _conversation(conversation_id, kind, archive)
        if event is None:
            described = conversation.record(members=_members(conversation_id, kind, archive))
            parse = partial(ParsedItem, [described])
        else:
            parse = partial(
                parse_node, event, partial(_event, conversation=conversation, archive=archive)
            )
        yield ExportItem(file.name, f"event {number:,}", size, parse)


def _conversation(conversation_id: str, kind: str, archive: _Archive) -> records.Conversation:
    others = [each for each in _members(conversation_id, kind, archive) if each != _owner(archive)]
    name = archive.names.get(conversation_id) or ", ".join(others) or conversation_id
    return records.Conversation(
        id=f"x_{one_line(conversation_id, max_chars=100)}", name=name, service=SERVICE, kind=kind
    )


def _owner(archive: _Archive) -> str | None:
    return archive.account.name or archive.account.username or archive.account.id


def _members(conversation_id: str, kind: str, archive: _Archive) -> list[str]:
    """Return the people of a direct conversation, which its id names."""
    ids = conversation_id.split("-") if kind == "direct" else []
    return [_person(each, archive) for each in ids[:2] if each]


def _person(person_id: str, archive: _Archive) -> str:
    """Return the name of the owner, or the id of another person: the archive has no names."""
    return (
        (_owner(archive) or person_id) if person_id == archive.account.id else f"user {person_id}"
    )


def _event(node: Json, *, conversation: records.Conversation, archive: _Archive) -> ParsedItem:
    message = json_object(node, "messageCreate")
    if not message:
        # People who join or leave, and names, which the conversation has already.
        raise UnreadableError(ReceiptCode.NOT_SUPPORTED, detail=", ".join(list(node)[:3])[:80])
    message_id = json_line(message, "id")
    if message_id is None:
        raise UnreadableError(ReceiptCode.NO_IDENTITY)
    item, sender = ParsedItem(), json_line(message, "senderId")
    written = message.get("createdAt")
    text = json_text(message, "text")
    for link in json_objects(message, "urls")[:200]:
        short, long = json_line(link, "url"), json_line(link, "expanded")
        text = text.replace(short, long) if short and long else text
    records.add_message(
        item,
        conversation,
        key=f"x_{message_id}",
        text=html.unescape(text),
        sent_at=item.require_date(to_utc(written), written),
        author=_person(sender, archive) if sender else None,
        author_id=sender,
        reactions=[
            " ".join(
                filter(
                    None,
                    (
                        json_line(each, "reactionKey"),
                        _person(json_line(each, "senderId") or "", archive),
                    ),
                )
            )
            for each in json_objects(message, "reactions")
        ],
        files=list(_files(message, archive.media.get(message_id, []))),
    )
    return item


def _files(message: Json, found: list[ExportFile]) -> Iterator[records.MessageFile]:
    urls = message.get("mediaUrls")
    if not found and isinstance(urls, list):
        for url in urls:
            yield records.MessageFile(name=str(url).rpartition("/")[2])
    for file in found:
        yield records.MessageFile(name=file.path.name, size=file.size, content=file)


X_MESSAGES = Importer(claim=_claim, read=_read)
