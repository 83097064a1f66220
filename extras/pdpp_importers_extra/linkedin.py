"""Import the connections, positions and messages of a LinkedIn archive (CSV)."""

import re
from functools import partial

from importers.chat import records as chat_records
from importers.core.dates import normalize, to_utc
from importers.core.export_files import ExportFile
from importers.core.importer import ExportFiles, Importer, read_each
from importers.core.readers import Row, find_header, iter_rows, read_rows
from importers.core.results import (
    ContentKeys,
    ExportItem,
    ExportItems,
    ParsedItem,
    ParsedRecord,
    ReceiptCode,
    UnreadableError,
    record_key,
)
from importers.core.text import html_to_text, one_line
from pdpp_importers_extra import social_records as records

SERVICE = "linkedin"
_CONNECTIONS = ("First Name", "Last Name", "Company", "Position", "Connected On")
_POSITIONS = ("Company Name", "Title", "Description", "Started On", "Finished On")
_ISO_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_MESSAGES = ("CONVERSATION ID", "FROM", "TO", "DATE", "CONTENT")
_HTML = re.compile(r"</?(?:p|br|div|a|span)\b[^<>]*>", re.I)
_MONTH = re.compile(r"([^\W\d_]{3,10})\.? (\d{4})")


def _claim(files: ExportFiles, *, header: tuple[str, ...]) -> list[ExportFile]:
    # Lines with a note may precede the header.
    return [
        file for file in files if file.suffix == ".csv" and find_header(file, *header) is not None
    ]


def _read_connections(file: ExportFile) -> ExportItems:
    yield from read_rows(file, _connection, header=find_header(file, *_CONNECTIONS) or 0)


def _cell(row: Row, name: str) -> str | None:
    return one_line(row.get(name, "")) or None


def _connection(row: Row) -> ParsedItem:
    given, family = _cell(row, "first name"), _cell(row, "last name")
    url, email = _cell(row, "url"), _cell(row, "email address")
    name = " ".join(filter(None, (given, family)))
    if not (name or url):
        raise UnreadableError(ReceiptCode.NO_IDENTITY)
    connected = _cell(row, "connected on")
    identity = url or "\0".join((name, connected or ""))
    data = {
        "id": record_key("c_", f"linkedin/{identity}", length=24),
        "name": name or url,
        "given_name": given,
        "family_name": family,
        "nickname": None,
        "organization": _cell(row, "company"),
        "job_title": _cell(row, "position"),
        "emails": [email] if email else [],
        "phones": [],
        "addresses": [],
        "urls": [url] if url else [],
        "birthday": None,
        "categories": ["LinkedIn"],
        "note": f"Connected on LinkedIn on {_day(connected)}" if connected else None,
        "updated_at": None,
    }
    return ParsedItem([ParsedRecord("contacts", data)])


def _day(written: str) -> str:
    """Return the day in ISO 8601 if its month is a word, and otherwise as it is written."""
    day = normalize(written)
    return day if _ISO_DAY.fullmatch(day) else written


def _position(row: Row) -> ParsedItem:
    organization, title = _cell(row, "company name"), _cell(row, "title")
    started, ended = _cell(row, "started on"), _cell(row, "finished on")
    if not (organization or title):
        raise UnreadableError(ReceiptCode.NO_IDENTITY)
    item = ParsedItem()
    text = item.cut_text(row.get("description", "").strip())
    data = {
        "id": records.key(SERVICE, "position", organization, title, started),
        "service": SERVICE,
        "organization": organization,
        "title": title,
        "place": _cell(row, "location"),
        "started": _month(started),
        "ended": _month(ended),
        "text": text or None,
    }
    item.records.append(ParsedRecord("positions", data))
    return item


def _month(written: str | None) -> str | None:
    """Return ``2020-01`` for ``Jan 2020``, and otherwise what is written."""
    match = _MONTH.fullmatch(written or "")
    day = normalize(f"1 {match[1]} {match[2]}") if match else ""
    return day[:7] if _ISO_DAY.fullmatch(day) else written


def _claim_messages(files: ExportFiles) -> list[ExportFile]:
    return [file for file in files if file.suffix == ".csv" and find_header(file, *_MESSAGES) == 0]


def _read_messages(file: ExportFile) -> ExportItems:
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
    conversation = chat_records.Conversation(
        id=chat_records.conversation_id(SERVICE, conversation_id),
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
    chat_records.add_message(
        item,
        conversation,
        key=f"{conversation.id}.{key}",
        text="\n".join(filter(None, (subject, text))),
        sent_at=item.require_date(to_utc(written), written),
        author=row.get("from"),
        author_id=row.get("sender profile url"),
        kind="draft" if is_draft else "message",
    )
    return item


def _people(row: Row) -> list[str]:
    names = (one_line(name) for name in (row.get("from", ""), *row.get("to", "").split(",")))
    return sorted(set(filter(None, names)))


LINKEDIN_CONNECTIONS = Importer(
    claim=partial(_claim, header=_CONNECTIONS),
    read=read_each(_read_connections),
)
LINKEDIN = Importer(
    claim=partial(_claim, header=_POSITIONS),
    read=read_each(lambda file: read_rows(file, _position)),
)
LINKEDIN_MESSAGES = Importer(
    claim=_claim_messages,
    read=read_each(_read_messages),
)
