"""Files of records as responses: HTML, pictures, PDF files and downloads, and records as JSON lines.

HTML, such as a mail, is shown in a frame that runs and loads nothing. The frame is a document of its
own: its policy allows the styles that mails are made of, which the policy of the page does not.
"""

import base64
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from email.message import EmailMessage, MIMEPart
from email.policy import SMTP
from email.utils import format_datetime, formataddr
from html import unescape
from pathlib import Path
from typing import Any

import orjson
from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.http import content_disposition_header

from evidence.access.gate import Gate
from evidence.access.owner_scope import owner_scope
from evidence.access.record_details import (
    VisibleBlob,
    fetch_many_related,
    fetch_one_related,
    get_blob,
    read_chunks,
    stored_blob,
)
from evidence.access.records import RecordKey, VisibleRecord, VisibleRecords, get_record
from evidence.api.views.blobs import blob_response
from evidence.declarations.declaration import BLOB_REFERENCE, field_text
from evidence.errors import ApiException, RangeNotSatisfiable
from evidence.ledger.entries import DisclosedItem
from evidence.models.owners import current_owner
from evidence.read.expansion import related_stream
from importers.core.text import TEXT_MAX_CHARS
from owner.permissions import owner_reads
from owner.records.record_roles import HTML_MEDIA_TYPE, Layout, StreamRoles
from owner.records.record_summaries import (
    PICTURE_TYPES,
    RecordSummary,
    record_owner_read,
    record_url,
    summarize,
)
from owner.text import one_line, record_title

HTML_MAX_BYTES = 8_000_000
PICTURES_MAX_BYTES = 10_000_000
MAX_PICTURES = 50
WORKER = Path(__file__).with_name("html_worker.py")
WORKER_SECONDS = 30.0
"""It has five seconds of CPU time, of a machine that may be busy."""
FRAME_POLICY = "; ".join(
    [
        "default-src 'none'",
        "img-src data:",
        "style-src 'unsafe-inline'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'self'",
        "sandbox allow-popups allow-popups-to-escape-sandbox",
    ]
)
# As `html_worker` writes it: one line of attributes, each in double quotes.
_PICTURE = re.compile(r'(<img [^<>]*?)src="cid:([^"<>]*)"')


@owner_reads
def record_html(request: HttpRequest, connection_id: str, stream: str) -> HttpResponse:
    """Show the HTML of the record with the key in ``key``; 404 for whatever has none."""
    gate = Gate(owner_scope(current_owner()))
    key = request.GET.get("key", "")
    try:
        visible = gate.stream(stream, connection_id=connection_id)
        record = get_record(visible, key)
        source, name = _html(visible, record)
        html = sanitize(source)
        pictures = _Pictures(gate, visible, record, PICTURES_MAX_BYTES)
        with transaction.atomic():
            html = None if html is None else _PICTURE.sub(pictures.insert, html)
            page = DisclosedItem(connection_id, stream, key, frozenset({name}))
            record_owner_read(gate.scope, [page, *pictures.shown], route="file")
    except ApiException as refusal:
        raise Http404 from refusal
    response = render(request, "owner/records/html.html", {"html": html})
    response["Content-Security-Policy"] = FRAME_POLICY
    response["X-Frame-Options"] = "SAMEORIGIN"
    response["Referrer-Policy"] = "no-referrer"
    return response


def sanitize(html: bytes) -> str | None:
    """Return the HTML that ``html_worker`` allows; None if it takes too much time or memory."""
    try:
        done = subprocess.run(
            [sys.executable, "-I", str(WORKER)],
            input=html[:HTML_MAX_BYTES],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=WORKER_SECONDS,
            check=True,
        )
    except (subprocess.SubprocessError, OSError):
        return None
    return done.stdout.decode()


def _html(visible: VisibleRecords, record: VisibleRecord) -> tuple[bytes, str]:
    """Return the HTML of a record and the field that has it. Raises Http404 without any."""
    name = StreamRoles(visible.stream).html
    value = record.data.get(name or "")
    if name is not None and isinstance(value, str):
        return value.encode("utf-8", "replace"), name
    blob = stored_blob(visible, record, record.data)
    if blob is None or blob.media_type != HTML_MEDIA_TYPE:
        raise Http404
    return _content(blob, max_bytes=HTML_MAX_BYTES), BLOB_REFERENCE


def _content(blob: VisibleBlob, *, max_bytes: int) -> bytes:
    return b"".join(read_chunks(blob, start=0, end=min(blob.size_bytes, max_bytes)))


@dataclass
class _Pictures:
    """The pictures among the related records of a record; their keys are in its HTML."""

    gate: Gate
    visible: VisibleRecords
    record: VisibleRecord
    bytes_left: int
    addresses: dict[str, str] = field(default_factory=dict)
    shown: list[DisclosedItem] = field(default_factory=list)

    def insert(self, tag: re.Match[str]) -> str:
        """Replace ``cid:`` by the picture; without one, the text for it remains."""
        key = unescape(tag[2])
        if key not in self.addresses and len(self.addresses) < MAX_PICTURES:
            self.addresses[key] = self._address(key)
        address = self.addresses.get(key, "")
        if not address or len(address) > self.bytes_left:
            return tag[1]
        self.bytes_left -= len(address)
        return f'{tag[1]}src="{address}"'

    def _address(self, key: str) -> str:
        """Return a picture as a ``data:`` address; empty without one."""
        connection_id = self.record.connection.connection_id
        blob = self._find(RecordKey(connection_id, key))
        if blob is None or blob.size_bytes > self.bytes_left:
            return ""
        place = (connection_id, blob.visible.stream.name, key)
        self.shown.append(DisclosedItem(*place, frozenset({BLOB_REFERENCE})))
        content = base64.b64encode(_content(blob, max_bytes=blob.size_bytes)).decode()
        return f"data:{blob.media_type};base64,{content}"

    def _find(self, key: RecordKey) -> VisibleBlob | None:
        """Return the picture with this key that belongs to the record. Two queries a relation."""
        for relation in self.visible.stream.relations.values():
            child = related_stream(self.gate, self.visible, relation)
            if relation.cardinality != "has_many" or child is None:
                continue
            found = fetch_one_related(child, [key]).get(key)
            if found is None or found.data.get(relation.foreign_key) != self.record.record_key:
                continue
            blob = stored_blob(child, found, found.data)
            if blob is not None and blob.media_type in PICTURE_TYPES:
                return blob
        return None


@owner_reads
def record_file(request: HttpRequest, connection_id: str, blob_id: str) -> HttpResponseBase:
    """Stream the file with the headers of the REST API, which keep browsers from running it."""
    gate = Gate(owner_scope(current_owner()))
    try:
        with transaction.atomic():
            blob = get_blob(gate, blob_id, connection_id=connection_id)
            place = (connection_id, blob.visible.stream.name, blob.record_key)
            item = DisclosedItem(*place, frozenset({BLOB_REFERENCE}))
            record_owner_read(gate.scope, [item], route="file")
            [record] = blob.visible.for_connection(connection_id).get(blob.record_key)
        response = blob_response(blob, request)
    except RangeNotSatisfiable:
        return HttpResponse(status=416)
    except ApiException as refusal:
        raise Http404 from refusal
    is_attachment = response.get("Content-Disposition", "").startswith("attachment")
    name = record_title(blob.visible, record)
    response["Content-Disposition"] = content_disposition_header(is_attachment, name) or "inline"
    return response


EXPORT_BATCH = 500


@owner_reads
def export_records(request: HttpRequest, connection_id: str, stream: str) -> HttpResponseBase:
    """Stream all records of a stream as JSON lines, or the one with the key in ``key``."""
    gate = Gate(owner_scope(current_owner()))
    try:
        visible = gate.stream(stream, connection_id=connection_id)
    except ApiException as refusal:
        raise Http404 from refusal
    return json_lines(_exported_lines(gate, visible, request.GET.get("key")), stream)


def json_lines(lines: Iterator[bytes], name: str) -> StreamingHttpResponse:
    response = StreamingHttpResponse(lines, content_type="application/x-ndjson")
    name = content_disposition_header(as_attachment=True, filename=f"{name}.jsonl") or "attachment"
    response["Content-Disposition"] = name
    return response


def json_line(record: VisibleRecord, *, stream: str) -> bytes:
    place = {"connection_id": record.connection.connection_id, "stream": stream}
    content = {"key": record.record_key, "emitted_at": record.emitted_at, "data": record.data}
    return orjson.dumps(place | content) + b"\n"


def _exported_lines(gate: Gate, visible: VisibleRecords, key: str | None) -> Iterator[bytes]:
    """Yield the records in the order of the stream, after their entry in the ledger."""
    after = None
    while True:
        with transaction.atomic():
            found = (
                visible.page(limit=EXPORT_BATCH, descending=False, after=after)
                if key is None
                else visible.get(key)
            )
            items = [
                DisclosedItem(
                    each.connection.connection_id, visible.stream.name, each.record_key,
                    frozenset(each.data),
                )
                for each in found
            ]  # fmt: skip
            if items:
                record_owner_read(gate.scope, items, route="export")
        yield from (json_line(each, stream=visible.stream.name) for each in found)
        if key is not None or len(found) < EXPORT_BATCH:
            return
        after = found[-1].position


class IncompleteMailError(Exception):
    """A mail file would lack a part of the mail. The message says which."""


ADDRESS_HEADERS = {"cc": "Cc", "bcc": "Bcc"}
"""Fields of people in copy; all other participants are recipients."""
ID_HEADERS = {"internet_message_id": "Message-ID", "in_reply_to": "In-Reply-To"}
MAX_ENCLOSURES, MAIL_MAX_BYTES = 200, 100_000_000
MAX_SUBJECT_CHARS = 2_000
REBUILT = "Rebuilt from a stored record. These are not the bytes that arrived."


@owner_reads
def mail_file(request: HttpRequest, connection_id: str, stream: str) -> HttpResponse:
    """Return the mail with the key in ``key`` as a file, or say what of it is not stored."""
    gate, key = Gate(owner_scope(current_owner())), request.GET.get("key", "")
    try:
        visible = gate.stream(stream, connection_id=connection_id)
        [summary] = summarize(visible, [get_record(visible, key)])
    except ApiException as refusal:
        raise Http404 from refusal
    if not is_mail(summary):
        raise Http404
    try:
        with transaction.atomic():
            mail, shown = _mail(gate, summary)
            own = DisclosedItem(connection_id, stream, key, frozenset(summary.record.data))
            record_owner_read(gate.scope, [own, *shown], route="export")
    except IncompleteMailError as problem:
        messages.error(request, f"This mail cannot be exported whole: {problem}")
        return redirect(record_url(connection_id, stream, key))
    response = HttpResponse(mail.as_bytes(), content_type="message/rfc822")
    name = content_disposition_header(as_attachment=True, filename=f"{summary.title[:80]}.eml")
    response["Content-Disposition"] = name or "attachment"
    return response


def is_mail(summary: RecordSummary) -> bool:
    """Return whether a record can be a mail file: it has a sender's address, a title and a time."""
    return summary.layout == Layout.MAILBOX and bool(summary.roles.addresses) and bool(summary.at)


def _mail(gate: Gate, summary: RecordSummary) -> tuple[EmailMessage, list[DisclosedItem]]:
    """Return a mail with its files. Raises IncompleteMailError if a part of it is not stored."""
    roles, data, visible = summary.roles, summary.record.data, summary.visible
    text, mail = field_text(data.get(roles.text or "")) or "", EmailMessage(policy=SMTP)
    if len(text) >= TEXT_MAX_CHARS:
        raise IncompleteMailError("its text was cut when it was imported.")
    sender = next(filter(None, map(summary.line, roles.addresses)), "")
    people: dict[str, list[Any]] = defaultdict(list)
    for name in roles.participants:
        value = data.get(name)
        people[ADDRESS_HEADERS.get(name, "To")] += value if isinstance(value, list) else [value]
    headers = {
        "From": formataddr((summary.line(roles.actor), sender)),
        **{name: ", ".join(map(one_line, filter(None, found))) for name, found in people.items()},
        "Subject": summary.line(roles.title, MAX_SUBJECT_CHARS),
        "Date": None if summary.at is None else format_datetime(summary.at),
        **{header: summary.line(name) for name, header in ID_HEADERS.items()},
        "Comments": REBUILT,
    }
    for header, value in headers.items():
        if value:
            mail[header] = value
    mail.set_content(text)
    items, html = [], None
    body: MIMEPart = mail
    with suppress(Http404):
        html = _html(visible, summary.record)[0]
    if html is not None:
        if len(html) >= HTML_MAX_BYTES:
            raise IncompleteMailError("its formatted text was cut.")
        mail.add_alternative(html.decode("utf-8", "replace"), subtype="html")
        *_, body = mail.iter_parts()
    size = len(text)
    for each, blob in _enclosures(gate, summary):
        size += 0 if blob is None else blob.size_bytes
        if blob is None or size > MAIL_MAX_BYTES:
            problem = "is not stored" if blob is None else "makes it larger than 100 MB"
            raise IncompleteMailError(f"its file “{each.title}” {problem}.")
        key = each.record.record_key
        maintype, _, subtype = blob.media_type.partition("/")
        content = _content(blob, max_bytes=blob.size_bytes)
        kind: dict[str, Any] = {"maintype": maintype, "subtype": subtype or "octet-stream"}
        if html is not None and f"cid:{key}".encode() in html:
            body.add_related(content, **kind, cid=f"<{key}>", filename=each.title)
        else:
            mail.add_attachment(content, **kind, filename=each.title)
        fields = frozenset({BLOB_REFERENCE}) | each.listed_fields
        items.append(DisclosedItem(each.connection_id, each.visible.stream.name, key, fields))
    return mail, items


def _enclosures(
    gate: Gate, summary: RecordSummary
) -> Iterator[tuple[RecordSummary, VisibleBlob | None]]:
    """Yield the files that belong to a mail, in their order, each with its bytes if stored."""
    key = RecordKey(summary.connection_id, summary.record.record_key)
    for relation in summary.visible.stream.relations.values():
        child = related_stream(gate, summary.visible, relation)
        if child is None or relation.cardinality != "has_many":
            continue
        found = fetch_many_related(child, relation.foreign_key, [key], limit=MAX_ENCLOSURES + 1)
        if len(found.get(key, ())) > MAX_ENCLOSURES:
            raise IncompleteMailError(f"it has more than {MAX_ENCLOSURES} files.")
        for each in summarize(child, reversed(found.get(key, ()))):
            yield each, stored_blob(child, each.record, each.record.data)
