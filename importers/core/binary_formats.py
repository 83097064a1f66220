"""Extract text from PDF files and the content of TNEF files, each within a time limit."""

import io
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from pypdf import PdfReader
from striprtf.striprtf import rtf_to_text
from tnefparse import TNEF

MAX_PAGES = 500
MAX_CHARS = 1_000_000
PDF_MAX_BYTES = 50 * 1024 * 1024
PDF_SECONDS = 20.0
TNEF_SECONDS = 5.0
_TNEF_SIGNATURE = b"\x78\x9f\x3e\x22"

TnefFields = tuple[dict[str, Any], list[bytes]]


class TimeLimitExceeded(BaseException):
    """A parser ran longer than its limit. No ``Exception``, which parsers catch."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise ``TimeLimitExceeded`` after this time. Without effect outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_signal: int, _frame: object) -> None:
        raise TimeLimitExceeded

    previous = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


class PdfContent(NamedTuple):
    """The text of a PDF and its number of pages, each None where it cannot be read."""

    text: str | None = None
    pages: int | None = None
    is_locked: bool = False


def parse_pdf(content: bytes) -> PdfContent:
    """Return the text of all pages before the first damaged one, and before the time limit.

    Values of form fields follow. ``is_locked``: the file cannot be read without its password.
    """
    if len(content) > PDF_MAX_BYTES or b"%PDF" not in content[:1024]:
        return PdfContent()
    texts: list[str] = []
    pages, is_locked = None, False
    try:
        with time_limit(PDF_SECONDS):
            reader = PdfReader(io.BytesIO(content))
            is_locked = reader.is_encrypted and not reader.decrypt("")
            pages = len(reader.pages)
            for page in reader.pages[:MAX_PAGES]:
                texts.append(page.extract_text())
                if sum(map(len, texts)) > MAX_CHARS:
                    break
            texts.append(_form_text(reader))
    except (Exception, TimeLimitExceeded):  # noqa: BLE001, S110 - pypdf raises arbitrary errors
        pass
    text = "\n\n".join(filter(None, (text.strip() for text in texts)))
    text = text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
    return PdfContent(text[:MAX_CHARS] or None, pages, is_locked)


def _form_text(reader: PdfReader) -> str:
    """Return a line for each form field that has a value."""
    lines = []
    for name, form_field in (reader.get_fields() or {}).items():
        value = form_field.get("/V")
        value = ", ".join(map(str, value)) if isinstance(value, list) else str(value or "")
        if value.strip() and value != "/Off":
            lines.append(f"{form_field.get('/TU') or name}: {value.removeprefix('/')}")
    return "\n".join(lines)


def parse_tnef(content: bytes) -> TnefFields | None:
    """Return {"names", "body"} with the bytes of the files, followed by those of the body.

    "body" is "plain", "html" or None; RTF becomes plain text. Returns None for damaged TNEF or another format.
    """
    if not content.startswith(_TNEF_SIGNATURE):
        return None
    try:
        with time_limit(TNEF_SECONDS):
            tnef = TNEF(content, do_checksum=False)
            files = [(str(attachment.long_filename() or ""), bytes(attachment.data or b""))
                     for attachment in tnef.attachments]  # fmt: skip
            body_type, body = next(_bodies(tnef), (None, b""))
    except (Exception, TimeLimitExceeded):  # noqa: BLE001 - tnefparse raises arbitrary errors
        return None
    fields = {"names": [name for name, _ in files], "body": body_type}
    return fields, [*(data for _, data in files), body]


def _bodies(tnef: TNEF) -> Iterator[tuple[str, bytes]]:
    bodies = (
        ("plain", lambda: tnef.body),
        ("html", lambda: tnef.htmlbody),
        ("plain", lambda: rtf_text(tnef.rtfbody)),
    )
    for body_type, read in bodies:
        if text := read():
            content = text if isinstance(text, bytes) else str(text).encode("utf-8", "replace")
            yield body_type, content


def rtf_text(content: bytes | None) -> str:
    text = (content or b"").decode("cp1252", "replace")
    return str(rtf_to_text(text, errors="replace")).strip()
