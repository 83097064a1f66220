"""Import the messages of a Mac or an iPhone (chat.db, sms.db): iMessage, SMS and RCS."""

import sqlite3
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from importers.chat import records
from importers.core.dates import unix_to_iso
from importers.core.export_files import ExportFile, iter_items
from importers.core.importer import ExportFiles, Importer, Options
from importers.core.readers import Database, claim_databases, databases, open_database
from importers.core.results import ExportItem, ExportItems, ParsedItem, ReceiptCode, UnreadableError

_TABLES = ("chat_message_join", "message_attachment_join")
_COLUMNS = ("ROWID", "guid", "text", "attributedBody", "handle_id", "service", "date", "date_edited",
            "is_from_me", "item_type", "group_title", "associated_message_guid",
            "associated_message_type", "associated_message_emoji", "thread_originator_guid",
            "reply_to_guid")  # fmt: skip
_APPLE_EPOCH = 978_307_200
_NANOSECONDS_FROM = 10**12
"""Since macOS 10.13 times are in nanoseconds, before in seconds."""
_TAPBACKS = {2000: "❤️", 2001: "👍", 2002: "👎", 2003: "😂", 2004: "‼️", 2005: "❓"}
_EMOJI_TAPBACK, _REMOVED_FROM = 2006, 3000
_GROUP_STYLE = 43
_ATTACHMENT_MARK = "\ufffc"

Row = Mapping[str, object] | sqlite3.Row


@dataclass(slots=True)
class _Context:
    """What messages refer to, by the ids of their rows."""

    people: dict[int, str] = field(default_factory=dict)
    chats: dict[int, records.Conversation] = field(default_factory=dict)
    members: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    chat_of: dict[int, int] = field(default_factory=dict)
    files: dict[int, list[records.MessageFile]] = field(default_factory=lambda: defaultdict(list))
    reactions: dict[str, dict[tuple[str, str], None]] = field(
        default_factory=lambda: defaultdict(dict)
    )


def _read(files: ExportFiles, _options: Options) -> ExportItems:
    found = [file for file in databases(files) if not _attachment_path(file.name)]
    return iter_items(found, partial(_read_file, files=files))


def _read_file(file: ExportFile, *, files: ExportFiles) -> ExportItems:
    with open_database(file, files) as database:
        context = _context(database, files)
        for chat, conversation in context.chats.items():
            record = conversation.record(members=context.members[chat])
            yield ExportItem(file.name, "", 0, partial(ParsedItem, [record]))
        messages = database.select_known("message", _COLUMNS, "FROM message t ORDER BY t.ROWID")
        for number, row in enumerate(messages, 1):
            if _tapback(row) is None:
                size = database.size if number == 1 else 0
                parse = partial(_message, row, context)
                yield ExportItem(file.name, f"message {row['ROWID']}", size, parse)


def _context(database: Database, files: Sequence[ExportFile]) -> _Context:
    context = _Context()
    for row in database.select("SELECT ROWID AS number, id FROM handle"):
        context.people[row["number"]] = str(row["id"] or "")
    for row in database.select("SELECT chat_id, handle_id FROM chat_handle_join"):
        if person := context.people.get(row["handle_id"]):
            context.members[row["chat_id"]].append(person)
    chats = ("ROWID", "guid", "chat_identifier", "display_name", "service_name", "style")
    for row in database.select_known("chat", chats, "FROM chat t"):
        context.chats[row["ROWID"]] = _conversation(row, context.members[row["ROWID"]])
    for row in database.select("SELECT chat_id, message_id FROM chat_message_join"):
        context.chat_of.setdefault(row["message_id"], row["chat_id"])
    _add_files(context, database, files)
    if "associated_message_type" in database.columns("message"):
        condition = "WHERE t.associated_message_type BETWEEN 2000 AND 3999 ORDER BY t.date, t.ROWID"
        for row in database.select_known("message", _COLUMNS, f"FROM message t {condition}"):
            if tapback := _tapback(row):
                _add_reaction(context, row, tapback)
    return context


def _conversation(row: Row, members: Sequence[str]) -> records.Conversation:
    identifier = str(row["guid"] or row["chat_identifier"] or row["ROWID"])
    is_group = row["style"] == _GROUP_STYLE or len(members) > 1
    name = str(row["display_name"] or "") or ", ".join(members) or str(row["chat_identifier"] or "")
    return records.Conversation(
        id=records.conversation_id("imessage", identifier),
        name=name[:200] or "Conversation",
        service="imessage",
        kind="group" if is_group else "direct",
    )


def _add_files(context: _Context, database: Database, files: Sequence[ExportFile]) -> None:
    """Add the attachments; their files are in the export if it has the folder Attachments."""
    contents = {name: file for file in files if (name := _attachment_path(file.name))}
    joined = (
        "FROM message_attachment_join j JOIN attachment t ON t.ROWID = j.attachment_id"
        " ORDER BY j.message_id, t.ROWID"
    )
    names = ("ROWID", "filename", "mime_type", "transfer_name", "total_bytes")
    known = database.columns("attachment")
    columns = ", ".join(f"t.{name}" if name in known else f"NULL AS {name}" for name in names)
    for row in database.select(f"SELECT j.message_id, {columns} {joined}"):
        path, size = str(row["filename"] or ""), row["total_bytes"]
        context.files[row["message_id"]].append(
            records.MessageFile(
                name=str(row["transfer_name"] or path.rpartition("/")[2]),
                media_type=row["mime_type"] if isinstance(row["mime_type"], str) else None,
                size=size if isinstance(size, int) and size >= 0 else None,
                content=contents.get(_attachment_path(path) or ""),
            )
        )


def _attachment_path(name: str) -> str | None:
    _, found, rest = name.partition("Attachments/")
    return rest if found else None


def _tapback(row: Row) -> int | None:
    kind = row["associated_message_type"]
    return kind if isinstance(kind, int) and 2000 <= kind < 4000 else None


def _add_reaction(context: _Context, row: Row, kind: int) -> None:
    target = str(row["associated_message_guid"] or "").rpartition("/")[2].removeprefix("bp:")
    added = kind if kind < _REMOVED_FROM else kind - 1000
    emoji = str(row["associated_message_emoji"] or "") if added == _EMOJI_TAPBACK else ""
    reaction = (_author(row, context), emoji or _TAPBACKS.get(added, "reaction"))
    if kind < _REMOVED_FROM:
        context.reactions[target][reaction] = None
    else:
        context.reactions[target].pop(reaction, None)


def _author(row: Row, context: _Context) -> str:
    if row["is_from_me"]:
        return "Me"
    handle = row["handle_id"]
    return context.people.get(handle, "") if isinstance(handle, int) else ""


def _message(row: Row, context: _Context) -> ParsedItem:
    guid, number = row["guid"], row["ROWID"]
    if not isinstance(guid, str) or not guid:
        raise UnreadableError(ReceiptCode.NO_IDENTITY)
    item = ParsedItem()
    chat = context.chat_of.get(number if isinstance(number, int) else 0)
    conversation = context.chats.get(chat) if chat is not None else None
    if conversation is None:  # deleted chats leave messages behind
        raise UnreadableError(ReceiptCode.DELETED, detail="its chat was deleted")
    text, files = _text(row), context.files.get(number if isinstance(number, int) else 0, [])
    is_event = bool(row["item_type"])
    if is_event and not text:
        text = f"Named the conversation {row['group_title']}" if row["group_title"] else ""
    if not text and not files:
        code = ReceiptCode.NOT_SUPPORTED if is_event or not row["attributedBody"] else None
        raise UnreadableError(code or ReceiptCode.MALFORMED, detail="no text")
    sent_at = item.require_date(_time(row["date"]), row["date"])
    author, parent = _author(row, context), row["thread_originator_guid"]
    records.add_message(
        item,
        conversation,
        key=_key(guid),
        text=text,
        sent_at=sent_at,
        author=author,
        author_id=author,
        edited_at=_time(row["date_edited"]),
        kind="system" if is_event else "message",
        thread_id=_key(str(parent)) if parent else None,
        reply_to=_key(str(parent)) if parent else None,
        reactions=[f"{emoji} {who}".strip() for who, emoji in context.reactions.get(guid, ())],
        files=files,
    )
    return item


def _key(guid: str) -> str:
    return f"im_{guid[:100]}"


def _text(row: Row) -> str:
    text = row["text"]
    if not isinstance(text, str) or not text:
        body = row["attributedBody"]
        text = attributed_text(body) if isinstance(body, bytes) else ""
    return text.replace(_ATTACHMENT_MARK, "").strip()


def attributed_text(body: bytes) -> str:
    """Return the text of an archived attributed string (typedstream), or an empty one.

    The text follows the name of its class, a plus sign and its length, which takes one byte, or two
    or four behind 0x81 or 0x82.
    """
    start = body.find(b"NSString")
    plus = body.find(b"+", start, start + 24) if start >= 0 else -1
    if plus < 0 or plus + 1 >= len(body):
        return ""
    mark, at = body[plus + 1], plus + 2
    width = {0x81: 2, 0x82: 4}.get(mark, 0)
    length = int.from_bytes(body[at : at + width], "little") if width else mark
    return body[at + width : at + width + length].decode("utf-8", "replace")


def _time(value: object) -> str | None:
    if not isinstance(value, int | float) or not value:
        return None
    seconds = value / 10**9 if abs(value) >= _NANOSECONDS_FROM else value
    return unix_to_iso(round(seconds + _APPLE_EPOCH, 3))


def _claim(files: ExportFiles) -> list[ExportFile]:
    found = claim_databases(files, names=("chat.db", "sms.db"), tables=_TABLES)
    attached = (file for file in files if found and _attachment_path(file.name))
    return [*found, *(file for file in attached if file not in found)]


IMESSAGE = Importer(claim=_claim, read=_read)
