"""Build the record of a message and the records of its attachments, with those in winmail.dat."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

from evidence.declarations.declaration import is_outgoing
from importers.core import file_texts
from importers.core.file_texts import add_attachment, detect_media_type
from importers.core.results import ParsedItem, ParsedRecord, ReceiptCode, record_key
from importers.core.text import (
    decode,
    html_to_text,
    one_line,
    text_prefix,
    truncate,
)
from importers.mail.mime import (
    Body,
    HeaderFields,
    MimePart,
    decode_encoded_words,
    html_fields,
    parse_date,
    parse_mime,
    select_body,
)

MEDIA_TYPE = "application/ms-tnef"
_MESSAGE_TYPE = "message/rfc822"
UNREAD_LABELS = frozenset((
    "unread", "ungelesen", "non lu", "non lus", "non lue", "non lues", "messages non lus",
    "no leído", "no leídos", "no leido", "no leidos", "sin leer", "non letti", "non letto",
    "da leggere", "ongelezen", "não lida", "não lidas", "não lido", "não lidos", "por ler",
    "nieprzeczytane", "nieprzeczytany", "непрочитанные", "непрочитанное", "непрочитані", "未読",
    "未读", "未讀", "읽지않음", "읽지 않음", "안읽음", "olästa", "oläst", "uleste", "ulest", "ulæste",
    "ulæst", "lukematta", "lukemattomat", "okunmadı", "okunmamış", "okunmayan", "nepřečtené",  # noqa: RUF001
    "nepřečteno", "neprečítané", "olvasatlan", "necitite", "necitit", "μη αναγνωσμένα",
    "αδιάβαστα", "غير مقروءة", "غير مقروء", "לא נקראו", "לא נקרא", "chưa đọc", "belum dibaca",
    "ยังไม่ได้อ่าน", "अपठित", "no llegits", "neprebrano", "nepročitano", "непрочетени",
    "непрочитано", "neskaitytas", "nelasīts", "lugemata", "ólesið",
))  # fmt: skip
"""What Gmail calls mail that was not read, in the languages of its users."""
_LINK = re.compile(r"(?:https?://|www\.|cid:|mailto:)[^\s<>()\[\]]*")
_NOT_LETTERS = re.compile(r"[\W_]+")
DIGESTED_CHARS = 1_000
_IGNORED_IN_KEY = b" \t\r\n>"
_HASH_BLOCK_BYTES = 1024 * 1024


class TnefContent(NamedTuple):
    """Files, and the text and HTML of the message where the message itself has none."""

    files: list[tuple[str, bytes]]
    body: str
    html: str


def is_tnef(media_type: str, filename: str | None) -> bool:
    return media_type in (MEDIA_TYPE, "application/vnd.ms-tnef") or (
        (filename or "").lower() == "winmail.dat"
    )


def parse_tnef(content: bytes) -> TnefContent | None:
    """Return the content of a TNEF file, or None for a damaged one or another format."""
    result = file_texts.parse_tnef(content)
    if result is None:
        return None
    header, [*contents, text] = result
    body = decode(text_prefix(text))
    names = (one_line(name, max_chars=255) for name in header["names"])
    files = list(zip(names, contents, strict=True))
    if header["body"] == "html":
        return TnefContent(files, html_to_text(body), body)
    return TnefContent(files, body.strip(), "")


@dataclass(frozen=True, slots=True)
class MailboxMetadata:
    """What the mailbox adds to a message: folder, Maildir flags, date of the separator, and labels.

    A message of Google Takeout (``is_takeout``) begins with labels that its sender cannot write.
    """

    folder: str | None = None
    flags: str | None = None
    date: str = ""
    is_takeout: bool = False
    labels: tuple[str, ...] = ()


def parse_message(raw: bytes, metadata: MailboxMetadata) -> ParsedItem:
    """Parse a message. Broken parts are left out and become issues."""
    item = ParsedItem()
    root = parse_mime(raw)
    key = message_key(raw, root)
    if stray := root.headers.stray_lines:
        item.add_issue(ReceiptCode.PARTLY_IMPORTED, detail=f"header: {decode(stray[0])[:60]}")
    if len(root.headers.addresses("from")) > 1:
        item.add_issue(ReceiptCode.PARTLY_IMPORTED, detail=f"from: {root.headers.raw('from')[:60]}")
    add_message(item, root.headers, select_body(root), metadata, key=key, size=len(raw))
    return item


def add_message(
    item: ParsedItem,
    headers: HeaderFields,
    body: Body,
    metadata: MailboxMetadata,
    *,
    key: str,
    size: int | None,
) -> None:
    """Add the records of a message and its attachments. ``size`` is that of the original."""
    sent_at = _sent_at(headers, metadata, item)
    text = item.cut_text(body.text)
    if body.is_truncated:
        item.add_issue(ReceiptCode.NESTED_TOO_DEEPLY)
    attached = list(_attachments(body, key=key, sent_at=sent_at, item=item))
    outlook_text = "" if text else body.outlook_text
    folder_fields = _folder_fields(headers, metadata)
    unknown = tuple(name for name, value in folder_fields.items() if value in (None, []))
    item.records.append(
        ParsedRecord(
            "messages",
            {
                "id": key,
                **_ids(headers, key, text or outlook_text),
                **folder_fields,
                **_people(headers),
                "subject": headers.text("subject"),
                "received_at": sent_at,
                "has_attachments": bool(attached),
                "original_bytes": size,
                "body_source": "plain" if outlook_text else body.source,
                "body_text": text or outlook_text or None,
                **html_fields(item, body, attached, key=key),
            },
            unknown=unknown,
        )
    )
    item.records += (record for _, record in attached)
    if headers.is_cut:
        item.add_issue(ReceiptCode.TEXT_CUT)


def message_key(raw: bytes, root: MimePart) -> str:
    """Return a key that is the same for a message in every export.

    The key covers the content: a sender chooses the Message-ID, and could otherwise replace a
    message by sending another one.
    """
    digest = sha256()
    for name in ("message-id", "from"):
        digest.update(" ".join(root.headers.raw(name).split()).encode("utf-8", "replace") + b"\0")
    if not root.headers.raw("message-id"):
        for name in ("date", "subject", "to"):
            digest.update(root.headers.raw(name).encode("utf-8", "replace") + b"\0")
    # Line ends, and the > before lines that begin with "From", differ between exports.
    for start in range(root.start, root.end, _HASH_BLOCK_BYTES):
        block = raw[start : min(root.end, start + _HASH_BLOCK_BYTES)]
        digest.update(block.translate(None, _IGNORED_IN_KEY))
    return f"m_{digest.hexdigest()[:32]}"


def _ids(headers: HeaderFields, key: str, text: str) -> dict[str, Any]:
    own = _first_id(headers.raw("message-id"))
    parent = _first_id(headers.raw("in-reply-to"))
    # The first of the references is the message that started the thread.
    root = headers.raw("x-gm-thrid") or _first_id(headers.raw("references")) or parent or own or key
    return {
        "internet_message_id": own,
        "content_digest": None if own else _content_digest(headers, text),
        "in_reply_to": parent,
        "thread_id": record_key("t_", root, length=24),
    }


def _content_digest(headers: HeaderFields, text: str) -> str | None:
    """Return what a mail without a Message-ID has in common with itself in files of other programs.

    They convert its text differently, so that links and everything but letters and digits are left out.
    """
    time = parse_date(headers.raw("date"))
    if time is None:
        return None
    _, address = next(iter(headers.addresses("from")), ("", ""))
    words = _NOT_LETTERS.sub("", _LINK.sub("", text.lower()))[:DIGESTED_CHARS]
    parts = (f"{time:%Y-%m-%d %H:%M:%S}", address.lower(), words)
    return sha256("\n".join(parts).encode("utf-8", "replace")).hexdigest()[:32]


def _first_id(value: str) -> str | None:
    start, end = value.find("<"), value.find(">")
    first = value[start + 1 : end] if 0 <= start < end else value
    return one_line(first, max_chars=250) or None


def _folder_fields(headers: HeaderFields, metadata: MailboxMetadata) -> dict[str, Any]:
    names = decode_encoded_words(headers.raw("x-gmail-labels")).split(",")
    labels = [label for name in names if (label := one_line(name, max_chars=200))]
    status = headers.raw("status") + headers.raw("x-status")
    flags = metadata.flags
    if flags is None and status:
        flags = "F" * ("F" in status) + "S" * ("R" in status)
    read_fields = dict[str, bool | None](is_read=None, is_flagged=None)
    if flags is not None:
        read_fields = flag_fields(flags)
    if labels:
        read_fields["is_read"] = UNREAD_LABELS.isdisjoint(label.lower() for label in labels)
    folder = labels[0] if labels else metadata.folder
    # Takeout writes its labels first; a sender could write others among the fields of any mail.
    if metadata.is_takeout and headers.starts_with("x-gmail-labels"):
        folder = next((label for label in labels if is_outgoing(label)), folder)
    elif labels and is_outgoing(labels[0]):
        folder = metadata.folder
    return {"folder": folder, "labels": labels or list(metadata.labels), **read_fields}


def flag_fields(flags: str) -> dict[str, bool | None]:
    """Return the fields of the flags of a message, which are letters as in a Maildir."""
    return {"is_read": "S" in flags, "is_flagged": "F" in flags}


def _people(headers: HeaderFields) -> dict[str, Any]:
    name, address = next(iter(headers.addresses("from")), ("", ""))
    return {
        "from_name": name or None,
        "from_email": address.lower() or None,
        "to": _addresses(headers, "to"),
        "cc": _addresses(headers, "cc"),
        "bcc": _addresses(headers, "bcc"),
        "recipient_names": _names(headers, "to", "cc", "bcc"),
        "reply_to": _addresses(headers, "reply-to"),
        "reply_to_names": _names(headers, "reply-to"),
    }


def _names(headers: HeaderFields, *fields: str) -> list[str]:
    """Return the names beside the addresses in these fields, each once."""
    people = (pair for name in fields for pair in headers.addresses(name))
    return list(dict.fromkeys(person for person, address in people if person and address))


def _addresses(headers: HeaderFields, name: str) -> list[str]:
    return [address.lower() or person for person, address in headers.addresses(name)]


def _sent_at(headers: HeaderFields, metadata: MailboxMetadata, item: ParsedItem) -> str | None:
    """Return when the message was sent, or else when it arrived."""
    sent_text = headers.raw("date")
    time = parse_date(sent_text, item)
    if time is None:
        if sent_text:
            item.add_issue(ReceiptCode.BAD_DATE, detail=sent_text[:80])
        received = headers.raw("received").rpartition(";")[2]
        time = parse_date(received) or parse_date(metadata.date)
    return None if time is None else time.isoformat().replace("+00:00", "Z")


def _attachments(
    body: Body, *, key: str, sent_at: str | None, item: ParsedItem
) -> Iterator[tuple[str, ParsedRecord]]:
    """Yield the content id and the record of each attachment."""
    files = ((part, *file) for part in body.files for file in _unpack(part))
    for number, (part, name, content, media_type, charset) in enumerate(files, 1):
        attachment_key = f"{key}.{number}"
        attachment = add_attachment(
            item,
            content,
            stream="attachments",
            key=attachment_key,
            media_type=media_type,
            charset=charset,
            text=message_text(content) if media_type == _MESSAGE_TYPE else None,
            name=name,
        )
        record = ParsedRecord(
            "attachments",
            {
                "id": attachment_key,
                "message_id": key,
                "filename": name,
                "media_type": attachment.media_type,
                "size_bytes": len(content),
                "is_inline": part.disposition == "inline",
                "received_at": sent_at,
                "text": attachment.text,
                "blob_ref": attachment.blob_ref,
            },
        )
        yield part.content_id, record


def _unpack(part: MimePart) -> Iterator[tuple[str | None, bytes, str, str | None]]:
    """Yield (name, content, media type, charset) of an attachment, or of the files in its TNEF."""
    content, name = part.content, part.filename
    if is_tnef(part.media_type, name):
        tnef = parse_tnef(content)
        if tnef is not None:
            part.outlook_text = truncate(tnef.body)
            part.outlook_html = tnef.html
            for tnef_name, tnef_content in tnef.files:
                yield tnef_name or None, tnef_content, detect_media_type(tnef_name), None
            return
    if part.media_type == _MESSAGE_TYPE:
        name = name or parse_mime(content).headers.text("subject")
    yield name, content, detect_media_type(name, part.media_type), part.charset


def message_text(content: bytes) -> str:
    """Return the searchable text of a message."""
    root = parse_mime(content)
    texts = (root.headers.text("subject"), root.headers.text("from"), select_body(root).text)
    return truncate("\n\n".join(filter(None, texts)))
