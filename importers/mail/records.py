"""One mail -> its record, and one record for each file in it."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, NamedTuple

from importers.core import attachments, sandbox
from importers.core.results import Code, Item, Row
from importers.core.text import beginning, cut, decoded, of_html, one_line, storable
from importers.mail.headers import Headers, moment, unencoded
from importers.mail.mime import Body, Part, body_of, parse

MEDIA_TYPE = "application/ms-tnef"


class Inside(NamedTuple):
    """``body`` is the text of the mail where the mail itself has none."""

    files: list[tuple[str, bytes]]
    body: str


def is_winmail(media_type: str, filename: str | None) -> bool:
    return media_type in (MEDIA_TYPE, "application/vnd.ms-tnef") or (
        (filename or "").lower() == "winmail.dat"
    )


def inside(content: bytes) -> Inside | None:
    """None for what is no TNEF, or a damaged one."""
    answer = sandbox.tnef(content)
    if answer is None:
        return None
    said, [*parts, text] = answer
    body = decoded(beginning(text))
    names = (one_line(storable(name), most=255) for name in said["names"])
    files = list(zip(names, parts, strict=True))
    return Inside(files, of_html(body) if said["body"] == "html" else body)


_MAIL = "message/rfc822"
_BLANK = b" \t\r\n>"
_HASHED_AT_ONCE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Envelope:
    """What is known of a mail from outside: where it lay, the flags of a Maildir, and the date on
    its wrapper."""

    folder: str | None = None
    flags: str | None = None
    date: str = ""


def read_mail(raw: bytes, envelope: Envelope) -> Item:
    """Everything of one mail. What is broken is left out with a remark; the rest is there."""
    item = Item()
    root = parse(raw)
    headers, body = root.headers, body_of(root)
    key = mail_key(raw, root)
    sent_at = _sent_at(headers, envelope, item)
    text, lost = cut(storable(body.text))
    if lost:
        item.remark(Code.TEXT_CUT)
    if body.cut_short:
        item.remark(Code.NESTED_TOO_DEEPLY)
    attached = list(_attachments(body, key=key, sent_at=sent_at, item=item))
    outlook = "" if text else next(filter(None, (part.outlook_text for part in body.files)), "")
    item.rows.append(
        Row(
            "messages",
            {
                "id": key,
                **_identity(headers, key),
                **_labels(headers, envelope),
                **_people(headers),
                "subject": headers.text("subject"),
                "received_at": sent_at,
                "has_attachments": bool(attached),
                "size_bytes": len(raw),
                "body_source": "plain" if outlook else body.source,
                "body_text": text or outlook or None,
            },
        )
    )
    item.rows += attached
    return item


def mail_key(raw: bytes, root: Part) -> str:
    """The same for the same mail in any export. The content counts beside the Message-ID: that is
    the sender's to choose, and nobody shall replace a mail by sending another one."""
    digest = sha256()
    for name in ("message-id", "from"):
        digest.update(" ".join(root.headers.raw(name).split()).encode("utf-8", "replace") + b"\0")
    if not root.headers.raw("message-id"):
        for name in ("date", "subject", "to"):
            digest.update(root.headers.raw(name).encode("utf-8", "replace") + b"\0")
    # Programs disagree about line ends and about the > before a line that begins with "From".
    for start in range(root.start, root.end, _HASHED_AT_ONCE):
        digest.update(raw[start : min(root.end, start + _HASHED_AT_ONCE)].translate(None, _BLANK))
    return f"m_{digest.hexdigest()[:32]}"


def _identity(headers: Headers, key: str) -> dict[str, Any]:
    own = _first_id(headers.raw("message-id"))
    parent = _first_id(headers.raw("in-reply-to"))
    root = headers.raw("x-gm-thrid") or _first_id(headers.raw("references")) or parent or own or key
    return {
        "internet_message_id": own,
        "in_reply_to": parent,
        "thread_id": f"t_{sha256(root.encode('utf-8', 'replace')).hexdigest()[:24]}",
    }


def _first_id(value: str) -> str | None:
    """Of a list of references the first is the mail that began it all."""
    start, end = value.find("<"), value.find(">")
    found = value[start + 1 : end] if 0 <= start < end else value
    return one_line(storable(found), most=250) or None


def _labels(headers: Headers, envelope: Envelope) -> dict[str, Any]:
    stated = unencoded(headers.raw("x-gmail-labels"))
    labels = [label for each in stated.split(",") if (label := one_line(each, most=200))]
    status = headers.raw("status") + headers.raw("x-status")
    is_read: bool | None = None
    if labels:
        is_read = "Unread" not in labels
    elif envelope.flags is not None or status:
        is_read = "S" in (envelope.flags or "") or "R" in status
    folder = labels[0] if labels else envelope.folder
    return {"folder": folder, "labels": labels, "is_read": is_read}


def _people(headers: Headers) -> dict[str, Any]:
    name, address = next(iter(headers.addresses("from")), ("", ""))
    return {
        "from_name": name or None,
        "from_email": address.lower() or None,
        "to": _addresses(headers, "to"),
        "cc": _addresses(headers, "cc"),
    }


def _addresses(headers: Headers, name: str) -> list[str]:
    return [address.lower() or who for who, address in headers.addresses(name)]


def _sent_at(headers: Headers, envelope: Envelope, item: Item) -> str | None:
    """The date that the sender wrote, else when it arrived."""
    stated = headers.raw("date")
    found: datetime | None = moment(stated)
    if found is None:
        if stated:
            item.remark(Code.BAD_DATE, detail=stated[:80])
        arrived = headers.raw("received").rpartition(";")[2]
        found = moment(arrived) or moment(envelope.date)
    return None if found is None else found.isoformat().replace("+00:00", "Z")


def _attachments(body: Body, *, key: str, sent_at: str | None, item: Item) -> Iterable[Row]:
    number = 0
    for part in body.files:
        for name, content, media_type, charset in _unpacked(part):
            number += 1
            own = f"{key}.{number}"
            kept = attachments.kept(
                content,
                stream="attachments",
                key=own,
                media_type=media_type,
                item=item,
                charset=charset,
                text=_mail_text(content) if media_type == _MAIL else None,
            )
            if kept.file is not None:
                item.files.append(kept.file)
            yield Row(
                "attachments",
                {
                    "id": own,
                    "message_id": key,
                    "filename": name,
                    "media_type": kept.media_type,
                    "size_bytes": len(content),
                    "is_inline": part.disposition == "inline",
                    "received_at": sent_at,
                    "text": kept.text,
                    "blob_ref": kept.blob_ref,
                },
            )


def _unpacked(part: Part) -> Iterable[tuple[str | None, bytes, str, str | None]]:
    """The file, or the files that Outlook wrapped up in it."""
    content, name = part.content, part.filename
    if is_winmail(part.media_type, name):
        found = inside(content)
        if found is not None:
            part.outlook_text = cut(storable(found.body))[0]
            for inner, data in found.files:
                yield inner or None, data, attachments.media_type_of(inner), None
            return
    if part.media_type == _MAIL:
        name = name or parse(content).headers.text("subject")
    yield name, content, attachments.media_type_of(name, part.media_type), part.charset


def _mail_text(content: bytes) -> str:
    """Of a mail within a mail, what is searched."""
    root = parse(content)
    said = (root.headers.text("subject"), root.headers.text("from"), body_of(root).text)
    return cut(storable("\n\n".join(filter(None, said))))[0]
