"""Import messages of Facebook and Instagram (JSON)."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from importers.chat import records
from importers.core.dates import unix_to_utc
from importers.core.export_files import ExportFile, iter_items
from importers.core.importer import ExportFiles, Importer, Options
from importers.core.readers import (
    ITEM,
    Json,
    head_has,
    iter_json_events,
    iter_nodes,
    json_integer,
    json_line,
    json_object,
    json_objects,
    json_text,
    open_json,
    parse_node,
)
from importers.core.results import (
    ContentKeys,
    ExportItem,
    ExportItems,
    ParsedItem,
    ReceiptCode,
    UnreadableError,
)
from pdpp_importers_extra.meta_archive import (
    claim_service,
    find_mentioned,
    repair_node,
    repaired_object,
)

_NAME = re.compile(r"message_\d+\.json")
_FILES = ("photos", "videos", "audio_files", "files", "gifs")
_HEADER = ("participants", "title", "thread_path", "is_still_participant", "threadName")
_ENCRYPTED = {"senderName": "sender_name", "timestamp": "timestamp_ms", "text": "content",
              "media": "files", "isUnsent": "is_unsent"}  # fmt: skip
"""Members of messages with end-to-end encryption, which Messenger exports from each device."""
_COPY = re.compile(r"_\d+$")


@dataclass(frozen=True, slots=True)
class _Thread:
    """A file of messages, its conversation and the files of the export."""

    conversation: records.Conversation
    file: ExportFile
    files: Mapping[str, ExportFile]


def _claim(files: ExportFiles, *, service: str) -> list[ExportFile]:
    """Return the messages, and the media in their folders."""
    messages = [
        file
        for file in claim_service(files, service)
        if _NAME.fullmatch(file.path.name) and head_has(file, b"participants", b"messages")
    ]
    if service == "facebook":
        messages += [file for file in files if _is_encrypted(file)]
    names, folders = {file.name for file in messages}, {file.path.parent for file in messages}
    return [
        file
        for file in files
        if file.name in names
        or (file.suffix != ".json" and not folders.isdisjoint(file.path.parents))
    ]


def _is_encrypted(file: ExportFile) -> bool:
    """Return whether a file is a conversation that was encrypted end to end."""
    return file.suffix == ".json" and head_has(file, b"participants", b"threadName")


def _read(files: ExportFiles, options: Options, *, service: str) -> ExportItems:
    by_name = {file.name: file for file in files}
    messages = [file for file in files if _NAME.fullmatch(file.path.name) or _is_encrypted(file)]
    return iter_items(messages, partial(_read_file, files=by_name, service=service))


def _read_file(file: ExportFile, *, files: Mapping[str, ExportFile], service: str) -> ExportItems:
    described = ParsedItem()
    header = repair_node(dict(_header(file)), described)
    listed = header.get("participants")
    people = [
        name
        for each in (listed if isinstance(listed, list) else [])
        if (name := json_line(each if isinstance(each, dict) else {"name": each}, "name"))
    ]
    is_encrypted = "threadName" in header
    folder = file.path.stem if is_encrypted else file.path.parent.name
    title = json_line(header, "title") or _COPY.sub("", json_line(header, "threadName") or "")
    conversation = records.Conversation(
        id=f"{service}_{folder}",
        name=title or ", ".join(people)[:200] or folder,
        service=service,
        kind="direct" if len(people) <= 2 else "group",
    )
    described.records.append(conversation.record(members=people))
    yield ExportItem(file.name, conversation.name, 0, lambda: described)
    thread, keys = _Thread(conversation, file, files), ContentKeys("")
    for number, (node, size, _) in enumerate(iter_nodes(file, ("messages.item",)), 1):
        if is_encrypted and isinstance(node, dict):
            node = {_ENCRYPTED.get(name, name): value for name, value in node.items()}
        written = node.get("timestamp_ms") if isinstance(node, dict) else None
        keys.start_group(written)
        # Names change when an account is deleted, so the time alone makes the key.
        key = f"{conversation.id}.{keys.key(written)}"
        parse = partial(parse_node, node, partial(_message, thread=thread, key=key))
        yield ExportItem(file.name, f"message {number:,}", size, parse)


def _header(file: ExportFile) -> Iterator[tuple[str, Any]]:
    """Yield what is known of a conversation; it stands before or behind the messages."""
    with open_json(file) as stream:
        try:
            for prefix, event, value in iter_json_events(
                stream, is_item=lambda prefix: prefix in _HEADER or prefix == "messages.item"
            ):
                if event == ITEM and prefix in _HEADER:
                    yield prefix, value
        except UnreadableError:
            return  # reading the messages reports it


def _message(written: Json, *, thread: _Thread, key: str) -> ParsedItem:
    item = ParsedItem()
    node = repaired_object(written, item)
    if node.get("is_unsent") is True:
        raise UnreadableError(ReceiptCode.DELETED)
    moment = unix_to_utc(node.get("timestamp_ms"), per_second=1000)
    files = list(_files(node, thread))
    text = "\n".join(filter(None, _texts(node)))
    if not text and not files and not set(written) - {"sender_name", "timestamp_ms"}:
        raise UnreadableError(ReceiptCode.MALFORMED)
    if not text and not files:
        unread = ", ".join(sorted(set(node) - {"sender_name", "timestamp_ms"}))
        item.add_issue(ReceiptCode.PARTLY_IMPORTED, detail=unread[:80])
    records.add_message(
        item,
        thread.conversation,
        key=key,
        text=text,
        sent_at=item.require_date(moment, node.get("timestamp_ms")),
        author=json_line(node, "sender_name"),
        kind="call" if "call_duration" in node else "message",
        reactions=[
            " ".join(filter(None, (json_line(each, "reaction"), json_line(each, "actor"))))
            for each in json_objects(node, "reactions")
        ],
        files=files,
    )
    return item


def _texts(node: Json) -> Iterator[str | None]:
    yield json_text(node, "content")
    poll = json_object(node, "poll")
    yield json_text(poll, "question")
    yield from (json_line(each, "option") for each in json_objects(poll, "options"))
    yield json_line(json_object(node, "plan"), "title")
    yield ", ".join(
        name for each in json_objects(node, "users") if (name := json_line(each, "name"))
    )
    share = json_object(node, "share")
    yield from (json_text(share, name) for name in ("share_text", "link"))
    if (seconds := json_integer(node, "call_duration")) is not None:
        yield f"Call of {seconds} s"


def _files(node: Json, thread: _Thread) -> Iterator[records.MessageFile]:
    sticker = json_object(node, "sticker")
    listed = [each for name in _FILES for each in json_objects(node, name)]
    for each in (*listed, *([sticker] if sticker else [])):
        uri = (json_line(each, "uri") or "").removeprefix("./")
        found = find_mentioned(uri, thread.file, thread.files)
        yield records.MessageFile(
            name=uri.rpartition("/")[2], size=found.size if found else None, content=found
        )


FACEBOOK_MESSAGES = Importer(
    claim=partial(_claim, service="facebook"),
    read=partial(_read, service="facebook"),
)
INSTAGRAM_MESSAGES = Importer(
    claim=partial(_claim, service="instagram"),
    read=partial(_read, service="instagram"),
)
