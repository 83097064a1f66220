"""Import the conversation exports of ChatGPT and Claude (conversations.json)."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from importers.chat import records
from importers.core.dates import to_utc, unix_to_iso
from importers.core.export_files import ExportFile
from importers.core.importer import Importer, claim_each, read_each
from importers.core.readers import iter_json_items, json_object, json_objects
from importers.core.results import ExportItem, ExportItems, ParsedItem, ReceiptCode, UnreadableError
from importers.core.text import one_line

Json = Mapping[str, Any]
_AUTHORS = {"user": "User", "human": "User"}
_CITATION_START = "\ue200"
_CITATION = re.compile("\ue200[^\ue201]*\ue201")
_HIDDEN = "is_visually_hidden_from_conversation"


def _read_file(file: ExportFile, *, service: str) -> ExportItems:
    with file.open() as stream:
        for number, (node, size) in enumerate(iter_json_items(stream, prefix="item"), 1):
            location = f"conversation {number:,}"
            yield ExportItem(file.name, location, size, partial(_conversation, node, service))


def _conversation(node: Any, service: str) -> ParsedItem:
    """Return a conversation with all its messages, in all branches."""
    if not isinstance(node, dict):
        raise UnreadableError(ReceiptCode.MALFORMED)
    conversation_id = node.get("conversation_id") or node.get("id") or node.get("uuid")
    if not isinstance(conversation_id, str):
        raise UnreadableError(ReceiptCode.NO_IDENTITY)
    title = one_line(str(node.get("title") or node.get("name") or ""))
    conversation = records.Conversation(
        id=f"{service}_{one_line(conversation_id, max_chars=100)}",
        name=title or "Conversation",
        service=service,
        kind="assistant",
    )
    topic = node.get("summary")
    topic = topic if isinstance(topic, str) else None
    item = ParsedItem([conversation.record(topic=topic)])
    if "chat_messages" in node:
        for message in json_objects(node, "chat_messages"):
            _add_claude_message(item, conversation, message)
    else:
        for answer, parent in _chatgpt_messages(node):
            _add_chatgpt_message(item, conversation, answer, parent)
    return item


def _chatgpt_messages(node: Json) -> Iterator[tuple[Json, object]]:
    """Yield each message that a person saw, with the id of the message that it answers."""
    for entry in json_object(node, "mapping").values():
        message = json_object(entry, "message") if isinstance(entry, dict) else {}
        is_hidden = json_object(message, "metadata").get(_HIDDEN) is True
        if message and not is_hidden and json_object(message, "author").get("role") != "system":
            yield message, entry.get("parent")


def _add_chatgpt_message(
    item: ParsedItem, conversation: records.Conversation, message: Json, parent: object
) -> None:
    role, content = str(json_object(message, "author").get("role")), json_object(message, "content")
    files = [
        records.MessageFile(
            name=str(file.get("name") or ""),
            media_type=_text(file, "mime_type"),
            size=_size(file, "size"),
        )
        for file in json_objects(json_object(message, "metadata"), "attachments")
    ]
    files += _pictures(message, content)
    text = "\n".join(filter(None, _chatgpt_texts(content))).strip()
    text = _with_sources(text, message)
    if not text and not files:
        return
    message_id = _text(message, "id")
    if message_id is None:
        item.add_issue(ReceiptCode.NO_IDENTITY, detail=one_line(text, max_chars=40))
        return
    created = message.get("create_time")
    sent_at = item.require_date(unix_to_iso(created), created)
    records.add_message(
        item,
        conversation,
        key=f"{conversation.id}.{message_id}",
        text=text,
        sent_at=sent_at,
        author=_AUTHORS.get(role, "ChatGPT"),
        author_id=role,
        edited_at=unix_to_iso(message.get("update_time")),
        kind="message" if role in ("user", "assistant") else role,
        reply_to=f"{conversation.id}.{parent}" if isinstance(parent, str) else None,
        files=files,
    )


def _chatgpt_texts(content: Json) -> Iterator[str]:
    parts = content.get("parts")
    for part in parts if isinstance(parts, list) else [content]:
        if isinstance(part, str):
            yield part
        elif isinstance(part, dict):
            members = ("title", "text", "content", "result", "url", "user_profile",
                       "user_instructions")  # fmt: skip
            yield from (str(part[name]) for name in members if isinstance(part.get(name), str))
            yield str(json_object(json_object(part, "metadata"), "dalle").get("prompt") or "")
    for thought in json_objects(content, "thoughts"):
        yield str(thought.get("content") or thought.get("summary") or "")


def _pictures(message: Json, content: Json) -> list[records.MessageFile]:
    """Return pictures and recordings by their ids, but those that are attachments with a name."""
    listed = json_objects(json_object(message, "metadata"), "attachments")
    named = {str(file.get("id")) for file in listed}
    found = []
    for part in json_objects(content, "parts"):
        pointer = part.get("asset_pointer") or part.get("audio_asset_pointer") or part
        pointer = pointer.get("asset_pointer") if isinstance(pointer, dict) else pointer
        if isinstance(pointer, str) and (name := pointer.rpartition("/")[2]) not in named:
            found.append(records.MessageFile(name=name, size=_size(part, "size_bytes")))
    return found


def _with_sources(text: str, message: Json) -> str:
    """Return the text with links where it has marks for the pages that it cites."""
    for source in json_objects(json_object(message, "metadata"), "content_references"):
        mark, shown = source.get("matched_text"), source.get("alt")
        if isinstance(mark, str) and mark.startswith(_CITATION_START):
            text = text.replace(mark, shown if isinstance(shown, str) else "")
    return _CITATION.sub("", text)


def _add_claude_message(
    item: ParsedItem, conversation: records.Conversation, message: Json
) -> None:
    role = str(message.get("sender"))
    listed_blocks = json_objects(message, "content")
    blocks = [_cited(block) for block in listed_blocks if _is_said(block) and block.get("text")]
    extracted = [
        f"{file.get('file_name') or 'Pasted text'}:\n{file['extracted_content']}"
        for file in json_objects(message, "attachments")
        if file.get("extracted_content")
    ]
    listed = json_objects(message, "attachments")
    listed += json_objects(message, "files")
    files = [
        records.MessageFile(name=str(file.get("file_name") or ""), size=_size(file, "file_size"))
        for file in listed
    ]
    text = "\n\n".join(blocks or [str(message.get("text") or "")])
    message_id, parent = _text(message, "uuid"), _text(message, "parent_message_uuid")
    if message_id is None:
        item.add_issue(ReceiptCode.NO_IDENTITY, detail=one_line(text, max_chars=40))
        return
    created = message.get("created_at")
    sent_at = item.require_date(to_utc(created), created)
    records.add_message(
        item,
        conversation,
        key=f"{conversation.id}.{message_id}",
        text="\n\n".join(filter(None, (text, *extracted))),
        sent_at=sent_at,
        author=_AUTHORS.get(role, "Claude"),
        author_id=role,
        reply_to=f"{conversation.id}.{parent}" if parent else None,
        files=files,
    )
    _add_work(item, conversation, message, parent=f"{conversation.id}.{message_id}")


def _add_work(
    item: ParsedItem, conversation: records.Conversation, message: Json, *, parent: str
) -> None:
    """Add a message for each thought of Claude, and for what a tool was given and gave."""
    role = str(message.get("sender"))
    for number, block in enumerate(json_objects(message, "content"), 1):
        if not _is_said(block) and (text := _work_text(block)):
            records.add_message(
                item,
                conversation,
                key=f"{parent}-{number}",
                text=text,
                sent_at=to_utc(block.get("start_timestamp")) or to_utc(message.get("created_at")),
                author=_AUTHORS.get(role, "Claude"),
                author_id=role,
                kind="thinking" if block.get("type") == "thinking" else "tool",
                reply_to=parent,
            )


def _is_said(block: Json) -> bool:
    return block.get("type") in ("text", "voice_note")


def _cited(block: Json) -> str:
    """Return a text with the addresses of the pages that it cites."""
    text = str(block["text"])
    urls = (str(each["url"]) for each in json_objects(block, "citations") if each.get("url"))
    links = [f"({url})" for url in dict.fromkeys(urls) if url not in text]
    return " ".join((text, *links))


def _work_text(block: Json) -> str:
    """Return what Claude thought, gave to a tool, such as a document, or was given by one."""
    given = block.get("input") if isinstance(block.get("input"), dict) else {}
    shown = (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
             for value in (given or {}).values())  # fmt: skip
    results = [str(each.get("text") or each.get("title") or "")
               for each in json_objects(block, "content")]  # fmt: skip
    texts = [*shown, str(block.get("thinking") or ""), *results]
    text = "\n".join(filter(None, texts)).strip()
    name = block.get("name")
    return f"{name}:\n{text}" if text and isinstance(name, str) else text


def _size(file: Json, name: str) -> int | None:
    size = file.get(name)
    return size if isinstance(size, int) and 0 <= size < 2**53 else None


def _text(node: Json, name: str) -> str | None:
    value = node.get(name)
    return one_line(value, max_chars=200) if isinstance(value, str) else None


def _importer(service: str, member: bytes) -> Importer:
    """Return an importer of files whose conversations have a member with this name."""
    return Importer(
        claim=claim_each(
            lambda file: (
                file.suffix == ".json"
                and file.path.stem.startswith("conversations")
                and member in file.head
            )
        ),
        read=read_each(partial(_read_file, service=service)),
    )


CHATGPT = _importer("chatgpt", b'"mapping"')
CLAUDE = _importer("claude", b'"chat_messages"')
