"""Import Google Chat and Google Tasks from Takeout."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import tzinfo
from functools import partial
from pathlib import PurePosixPath
from typing import Any

import orjson

from importers.chat import records
from importers.core.dates import parse_written_moment, to_utc
from importers.core.export_files import ExportFile, iter_items
from importers.core.importer import ExportFiles, Importer, Options, read_each
from importers.core.readers import (
    Json,
    head_has,
    iter_nodes,
    json_line,
    json_object,
    json_objects,
    json_text,
    parse_node,
)
from importers.core.results import (
    ContentKeys,
    ExportItem,
    ExportItems,
    ParsedItem,
    ParsedRecord,
    ReceiptCode,
    UnreadableError,
    issue_item,
)

SERVICE = "google_chat"
_INFO, _MESSAGES = "group_info.json", "messages.json"
_WRAPPED = "private_do_not_access_or_else_safe_url_wrapped_value"
INFO_MAX_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Chat:
    """Where a message is: its conversation and folder, and the files of the export by name."""

    conversation: records.Conversation
    folder: PurePosixPath
    files: Mapping[str, ExportFile]
    zone: tzinfo
    message_id: str


def _claim(files: ExportFiles) -> list[ExportFile]:
    """Return the messages, and everything in their folders."""
    folders = {file.path.parent for file in files
               if file.path.name == _MESSAGES and head_has(file, b"messages", b"creator")}  # fmt: skip
    return [file for file in files if file.path.parent in folders]


def _read(files: ExportFiles, options: Options) -> ExportItems:
    by_name = {file.name: file for file in files}
    chats = [file for file in files if file.path.name == _MESSAGES]
    return iter_items(chats, partial(_read_chat, by_name=by_name, zone=options.zone))


def _read_chat(file: ExportFile, *, by_name: dict[str, ExportFile], zone: tzinfo) -> ExportItems:
    info = _info(by_name.get(f"{file.path.parent}/{_INFO}"))
    folder = file.path.parent.name
    members = [name for node in json_objects(info, "members") if (name := _person(node))]
    conversation = records.Conversation(
        id=records.conversation_id(SERVICE, folder),
        name=json_line(info, "name") or ", ".join(members)[:200] or folder,
        service=SERVICE,
        kind="direct" if folder.startswith("DM ") else "space",
    )
    described = conversation.record(members=members)
    yield ExportItem(file.name, conversation.name, 0, lambda: ParsedItem([described]))
    keys = ContentKeys("")
    for number, (node, size, _) in enumerate(iter_nodes(file, ("messages.item",)), 1):
        chat = _Chat(conversation, file.path.parent, by_name, zone, _message_id(node, keys))
        parse = partial(parse_node, node, partial(_message, chat=chat))
        yield ExportItem(file.name, f"message {number:,}", size, parse)


def _message_id(node: Any, keys: ContentKeys) -> str:
    """Return the id of a message. Exports before 2021 have none, so its content gives one."""
    if not isinstance(node, dict):
        return ""
    if message_id := json_line(node, "message_id"):
        return message_id
    keys.start_group(node.get("created_date"))
    return keys.key(node.get("created_date"), node.get("creator"), node.get("text"))


def _info(file: ExportFile | None) -> Json:
    """Return what is known of a chat; its messages are imported without it if it is damaged."""
    try:
        node = orjson.loads(file.read(max_bytes=INFO_MAX_BYTES)) if file else {}
    except (orjson.JSONDecodeError, UnreadableError):
        node = {}
    return node if isinstance(node, dict) else {}


def _person(node: Json) -> str | None:
    return json_line(node, "name", "email")


def _message(node: Json, *, chat: _Chat) -> ParsedItem:
    item = ParsedItem()
    creator = json_object(node, "creator")
    if node.get("message_state") == "DELETED":
        raise UnreadableError(ReceiptCode.DELETED)
    topic = json_line(node, "topic_id")
    quoted = json_line(
        json_object(json_object(node, "quoted_message_metadata"), "message_id"), "id"
    )
    text, files = _text(node), [_file(each, chat) for each in json_objects(node, "attached_files")]
    if not text and not files:
        item.add_issue(ReceiptCode.PARTLY_IMPORTED, detail="no text")
    records.add_message(
        item,
        chat.conversation,
        key=f"{chat.conversation.id}.{chat.message_id}",
        text=text,
        sent_at=_moment(node, "created_date", chat, item),
        edited_at=_moment(node, "updated_date", chat, item),
        author=_person(creator),
        author_id=json_line(creator, "email"),
        thread_id=f"{chat.conversation.id}.{topic}" if topic else None,
        reply_to=f"{chat.conversation.id}.{quoted}" if quoted else None,
        reactions=[_reaction(each) for each in json_objects(node, "reactions")],
        files=files,
    )
    return item


def _reaction(node: Json) -> str:
    people = node.get("reactor_emails")
    emoji = json_line(json_object(node, "emoji"), "unicode") or "emoji"
    return f"{emoji} {len(people) if isinstance(people, list) else 1}"


def _moment(node: Json, name: str, chat: _Chat, item: ParsedItem) -> str | None:
    written = node.get(name)
    if written is None and name != "created_date":
        return None
    if moment := to_utc(written):
        return moment
    return parse_written_moment(str(written), chat.zone, item)


def _text(node: Json) -> str:
    """Return the text, with the titles and addresses of links that it does not show."""
    texts: list[str | None] = [json_text(node, "text")]
    for annotation in json_objects(node, "annotations"):
        link = json_object(annotation, "url_metadata")
        url = json_line(link, "url") or json_line(json_object(link, "url"), _WRAPPED)
        if url and url not in (texts[0] or ""):
            texts.append(" ".join(filter(None, (json_line(link, "title"), url))))
        video = json_line(json_object(annotation, "youtube_metadata"), "id")
        space = json_object(json_object(annotation, "video_call_metadata"), "meeting_space")
        texts += [
            json_line(json_object(annotation, "drive_metadata"), "title"),
            f"https://youtu.be/{video}" if video else None,
            json_line(space, "meeting_url", "meeting_code"),
        ]
    return "\n".join(filter(None, texts))


def _file(node: Json, chat: _Chat) -> records.MessageFile:
    name = json_line(node, "export_name") or ""
    content = chat.files.get(f"{chat.folder}/{name}")
    shown = json_line(node, "original_name") or name
    return records.MessageFile(name=shown, size=content.size if content else None, content=content)


GOOGLE_CHAT = Importer(claim=_claim, read=_read)


_STATUSES = {"needsAction": "open", "completed": "done"}


def _claim_tasks(files: ExportFiles) -> list[ExportFile]:
    return [
        file
        for file in files
        if file.suffix == ".json" and head_has(file) and b'"tasks#taskLists"' in file.head
    ]


def _read_file(file: ExportFile) -> ExportItems:
    """Yield an item for each task. A list is held in memory, up to the limit of one item."""
    number = 0
    for node, size, _ in iter_nodes(file, ("items.item",)):
        if not isinstance(node, dict) or not isinstance(node.get("items", []), list):
            number += 1
            yield issue_item(file.name, f"task {number:,}", ReceiptCode.MALFORMED, size=size)
            continue
        tasks = node.get("items", [])
        title = json_line(node, "title")
        for task in tasks:
            number += 1
            parse = partial(parse_node, task, partial(_task, list_name=title))
            yield ExportItem(file.name, f"task {number:,}", size // len(tasks), parse)


def _task(node: Json, *, list_name: str | None) -> ParsedItem:
    item = ParsedItem()
    task_id = json_line(node, "id")
    if task_id is None:
        raise UnreadableError(ReceiptCode.NO_IDENTITY)
    notes = item.cut_text(json_text(node, "notes"))
    status = json_line(node, "status") or ""
    links = (json_line(link, "link") for link in json_objects(node, "links"))
    updated_at = item.require_date(to_utc(node.get("updated")), node.get("updated"))
    data = {
        "id": f"t_{task_id}",
        "list": list_name,
        "title": json_line(node, "title"),
        "notes": notes or None,
        "status": _STATUSES.get(status, status) or None,
        "due_on": _due_on(node, item),
        "created_at": to_utc(node.get("created")),
        "updated_at": updated_at,
        "completed_at": to_utc(node.get("completed")),
        "parent_id": f"t_{parent}" if (parent := json_line(node, "parent")) else None,
        "is_starred": node.get("starred") is True,
        "is_deleted": node.get("deleted") is True,
        "links": [link for link in links if link],
    }
    item.records.append(ParsedRecord("tasks", data))
    return item


def _due_on(node: Json, item: ParsedItem) -> str | None:
    """Return the day. Google writes midnight in UTC whatever the zone of the owner."""
    written: Any = node.get("due")
    if written is None:
        return None
    moment = item.require_date(to_utc(written), written)
    return moment and moment[:10]


GOOGLE_TASKS = Importer(
    claim=_claim_tasks,
    read=read_each(_read_file),
)
