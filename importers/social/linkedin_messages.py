"""Import the messages of a LinkedIn archive (messages.csv)."""

import re
from functools import partial

from importers.chat import records
from importers.core.csv_rows import Row, find_header, iter_rows
from importers.core.export_files import ExportFile, iter_items
from importers.core.importer import ExportFiles, Importer
from importers.core.moments import require_moment, to_utc
from importers.core.results import (
    ContentKeys,
    ExportItem,
    ExportItems,
    ParsedItem,
    ReceiptCode,
    UnreadableError,
)
from importers.core.text import html_to_text, one_line

SERVICE = "linkedin"
_HEADER = ("CONVERSATION ID", "FROM", "TO", "DATE", "CONTENT")
_HTML = re.compile(r"</?(?:p|br|div|a|span)\b[^<>]*>", re.I)


def _claim(files: ExportFiles) -> list[ExportFile]:
    return [file for file in files if file.suffix == ".csv" and find_header(file, *_HEADER) == 0]


def _read_file(file: ExportFile) -> ExportItems:
    """Yield messages. All messages of a conversation are together, the newest first."""
    keys, previous = ContentKeys(""), ""
    for line, row in iter_rows(file):
        written = row.get("date", "")
        keys.start_group(written)
        key = keys.key(written, row.get("from"), row.get("content"))
        is_first = row.get("conversation id", "") != previous
        previous = row.get("conversation id", "")
        parse = partial(_message, row, key, is_first=is_first)
        yield ExportItem(file.name, f"line {line:,}", sum(map(len, row.values())), parse)


def _message(row: Row, key: str, *, is_first: bool) -> ParsedItem:
    if row.get(""):
        raise UnreadableError(ReceiptCode.MALFORMED, detail=row[""][:80])
    conversation_id = one_line(row.get("conversation id", ""), max_chars=200)
    if not conversation_id:
        raise UnreadableError(ReceiptCode.NO_IDENTITY)
    item = ParsedItem()
    people = _people(row)
    conversation = records.Conversation(
        id=records.conversation_id(SERVICE, conversation_id),
        name=one_line(row.get("conversation title", "")) or ", ".join(people)[:200] or "LinkedIn",
        service=SERVICE,
        kind="direct" if len(people) <= 2 else "group",
    )
    if is_first:
        item.records.append(conversation.record(members=people))
    content, written = row.get("content", ""), row.get("date", "").strip()
    subject = one_line(row.get("subject", ""))
    text = html_to_text(content) if _HTML.search(content) else content.strip()
    is_draft = row.get("is message draft", "").strip().lower() in ("yes", "true")
    records.add_message(
        item,
        conversation,
        key=f"{conversation.id}.{key}",
        text="\n".join(filter(None, (subject, text))),
        sent_at=require_moment(to_utc(written), item, written=written),
        author=row.get("from"),
        author_id=row.get("sender profile url"),
        kind="draft" if is_draft else "message",
    )
    return item


def _people(row: Row) -> list[str]:
    names = (one_line(name) for name in (row.get("from", ""), *row.get("to", "").split(",")))
    return sorted(set(filter(None, names)))


LINKEDIN_MESSAGES = Importer(
    claim=_claim,
    read=lambda files, _options: iter_items(files, _read_file),
)
