"""Parse a message into a tree of MIME parts (RFC 2046), and select its body and attachments.

No part is copied. The standard library's parser splits a message into lines and joins them again,
which takes several times the memory and most of the time, and it does not limit nesting.
"""

import binascii
import quopri
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from urllib.parse import quote

from importers.core.text import decode, html_to_text, one_line, text_prefix
from importers.mail.headers import HeaderFields, decode_base64, decode_encoded_words
from importers.mail.text_formats import RICH_TYPES, join_flowed, rich_to_text

MAX_DEPTH = 50
_BOUNDARY_LINE = re.compile(
    rb"^--([^\r\n]{1,200}?)[ \t]*\r?\n(?:Content-[A-Za-z-]+:|\r?\n)", re.M | re.I
)
"""A delimiter, where the header names another boundary or none."""
MAX_PARTS = 1_000
_PADDED_LINE_END = re.compile(rb"=[ \t]+\r?\n")
"""A soft line break of quoted-printable to which a server has added blanks."""


@dataclass
class MimePart:
    """A part whose content is ``raw[start:end]`` of the whole message.

    ``is_truncated``: some parts below this one were not parsed. ``outlook_text`` is the body of a
    TNEF attachment, set when the attachment is unpacked.
    """

    raw: bytes
    headers: HeaderFields
    start: int
    end: int
    depth: int
    children: list["MimePart"] = field(default_factory=list)
    is_truncated: bool = False
    outlook_text: str = ""
    default_type: str = "text/plain"

    @cached_property
    def media_type(self) -> str:
        media_type = self.headers.value("content-type", default=self.default_type)
        return media_type if media_type.count("/") == 1 else "text/plain"

    @property
    def charset(self) -> str | None:
        return self.headers.parameter("content-type", "charset")

    @cached_property
    def filename(self) -> str | None:
        name = self.headers.parameter("content-disposition", "filename")
        name = name or self.headers.parameter("content-type", "name")
        return one_line(decode_encoded_words(name), max_chars=255) or None if name else None

    @property
    def disposition(self) -> str:
        return self.headers.value("content-disposition", default="")

    @property
    def content(self) -> bytes:
        """The content without its transfer encoding."""
        written = self.headers.raw("content-transfer-encoding").partition("(")[0]
        encoding = written.strip("\"'; \t").lower()
        if encoding == "base64":
            return decode_base64(memoryview(self.raw)[self.start : self.end])
        content = self.raw[self.start : self.end]
        if encoding == "quoted-printable":
            return quopri.decodestring(_PADDED_LINE_END.sub(b"=\n", content))
        if encoding in ("x-uuencode", "uuencode", "uue", "x-uue"):
            return _decode_uuencode(content)
        return content

    def walk(self) -> Iterator["MimePart"]:
        yield self
        for child in self.children:
            yield from child.walk()


def file_part(content: bytes, *, name: str, media_type: str, is_inline: bool = False) -> MimePart:
    """Return a part for an attached file that is not in MIME."""
    header = (
        f"content-type: {one_line(media_type) or 'application/octet-stream'}\n"
        f"content-disposition: {'inline' if is_inline else 'attachment'}"
        + (f"; filename*=utf-8''{quote(name, safe='')}" if name else "")
    )
    return MimePart(content, HeaderFields(header.encode("utf-8", "replace")), 0, len(content), 0)


def parse_mime(raw: bytes) -> MimePart:
    """Return the tree of a message, at most MAX_DEPTH deep and of at most MAX_PARTS parts."""
    root = _parse_part(raw, 0, len(raw), depth=0, budget=iter(range(MAX_PARTS)))
    undecoded = [part.headers for part in root.walk() if part.headers.undecoded]
    if undecoded:
        charset = next(filter(None, (part.charset for part in root.walk())), "")
        for headers in undecoded:
            headers.decode_again(charset)
    return root


def _parse_part(raw: bytes, start: int, end: int, *, depth: int, budget: Iterator[int]) -> MimePart:
    content = content_start(raw, start, end)
    part = MimePart(raw, HeaderFields(raw[start:content]), content, end, depth)
    if part.media_type.startswith("multipart/"):
        _split_multipart(part, budget)
    return part


def content_start(raw: bytes, start: int, end: int) -> int:
    """Return the position after the header, which may be empty."""
    if raw.startswith(b"\n", start):
        return start + 1
    if raw.startswith(b"\r\n", start):
        return start + 2
    positions = [
        position + len(empty_line)
        for empty_line in (b"\n\n", b"\r\n\r\n", b"\n\r\n")
        if (position := raw.find(empty_line, start, end)) >= 0
    ]
    return min(positions, default=end)


def _split_multipart(part: MimePart, budget: Iterator[int]) -> None:
    if part.depth >= MAX_DEPTH:
        part.is_truncated = True
        return
    boundary = (part.headers.parameter("content-type", "boundary") or "").encode("utf-8", "replace")
    if not boundary or part.raw.find(b"--" + boundary, part.start, part.end) < 0:
        actual = _BOUNDARY_LINE.search(part.raw, part.start, part.end)
        if actual is None:
            return
        boundary = actual[1]
    delimiter = b"--" + boundary
    for start, end in _parts_between(part.raw, delimiter, part.start, part.end):
        if next(budget, None) is None:
            part.is_truncated = True
            return
        child = _parse_part(part.raw, start, end, depth=part.depth + 1, budget=budget)
        if part.media_type == "multipart/digest" and not child.children:
            child = replace(child, default_type="message/rfc822")
        part.children.append(child)


def _parts_between(raw: bytes, delimiter: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of the parts between delimiters. The last delimiter may be missing."""
    part_start: int | None = None
    position = start
    while (found := raw.find(delimiter, position, end)) >= 0:
        position = found + len(delimiter)
        if found != start and raw[found - 1 : found] != b"\n":
            continue
        is_last = raw.startswith(b"--", position)
        line_end = raw.find(b"\n", position, end)
        if not is_last and raw[position : line_end if line_end >= 0 else end].strip():
            continue  # a longer boundary with the same prefix
        if part_start is not None:
            yield part_start, max(part_start, _before_line_end(raw, found))
        if is_last or line_end < 0:
            return
        part_start = position = line_end + 1
    if part_start is not None:
        yield part_start, end


def _before_line_end(raw: bytes, position: int) -> int:
    return position - 2 if raw[position - 2 : position] == b"\r\n" else position - 1


def _decode_uuencode(content: bytes) -> bytes:
    decoded = []
    for line in content.splitlines():
        if line.startswith(b"begin ") or line.strip() in (b"end", b"`", b""):
            continue
        try:
            decoded.append(binascii.a2b_uu(line))
        except binascii.Error:
            continue
    return b"".join(decoded)


STUB_MAX_CHARS = 1_000
NOTICE_MAX_CHARS = 500
_NOTICE = re.compile(
    r"\bx?html\b|browser|navigat|navegador|webbl|przegl|браузер|ブラウザ|浏览器|瀏覽器", re.I
)
_LINK = re.compile(r"\(?https?://\S+")
_ALTERNATIVE = "multipart/alternative"
_DISPLAYED_TYPES = ("text/plain", "text/html", *RICH_TYPES)


@dataclass(slots=True)
class Body:
    """The text of a message, and its attachments in ``files``.

    ``source`` is "plain" or "html", or None without text.
    """

    text: str = ""
    source: str | None = None
    files: list[MimePart] = field(default_factory=list)
    is_truncated: bool = False


def select_body(root: MimePart) -> Body:
    """Return the text that a mail program would display, and all attachments."""
    body = Body(is_truncated=any(part.is_truncated for part in root.walk()))
    texts = _displayed_texts(root, body.files)
    body.text = "\n\n".join(text for text, _ in texts)
    if texts:
        body.source = "html" if any(is_html for _, is_html in texts) else "plain"
    return body


def _displayed_texts(part: MimePart, files: list[MimePart]) -> list[tuple[str, bool]]:
    """Return (text, is HTML) of the texts below a part, and append attachments to ``files``."""
    if part.children:
        children = [_displayed_texts(child, files) for child in part.children]
        if part.media_type == _ALTERNATIVE:
            return select_alternative(children)
        return [text for texts in children for text in texts]
    if part.media_type.startswith("multipart/") and part.is_truncated:
        return []
    if _is_attachment(part):
        files.append(part)
        return []
    text, is_html = _text(part)
    return [(text, is_html)] if text else []


def select_alternative(alternatives: list[list[tuple[str, bool]]]) -> list[tuple[str, bool]]:
    """Prefer plain text, unless it only says that the message is HTML."""
    with_text = [texts for texts in alternatives if texts]
    is_plain = [not any(is_html for _, is_html in texts) for texts in with_text]
    plain = next((texts for texts, is_it in zip(with_text, is_plain, strict=True) if is_it), None)
    html = next((texts for texts, is_it in zip(with_text, is_plain, strict=True) if not is_it), [])
    return html if plain is None or (html and _is_stub(plain, html)) else plain


def _is_stub(plain: list[tuple[str, bool]], html: list[tuple[str, bool]]) -> bool:
    plain_text, html_text = (
        _LINK.sub("", " ".join(text for text, _ in texts)).strip() for texts in (plain, html)
    )
    if not len(plain_text) < min(STUB_MAX_CHARS, len(html_text)):
        return False
    if len(plain_text) < NOTICE_MAX_CHARS and _NOTICE.search(plain_text):
        return True
    words = set(plain_text.lower().split())
    common = words & set(html_text.lower().split())
    return len(common) * 2 < len(words) or len(html_text) > len(plain_text) * 2 + 100


def _is_attachment(part: MimePart) -> bool:
    if part.disposition == "attachment" or part.filename:
        return True
    is_displayed = part.media_type in _DISPLAYED_TYPES or part.media_type.startswith("multipart/")
    return part.depth > 0 and not is_displayed


def _text(part: MimePart) -> tuple[str, bool]:
    content = text_prefix(part.content)
    text = decode(content, part.charset).replace("\r\n", "\n").strip()
    # Some programs label HTML as plain text.
    if part.media_type == "text/html" or text[:15].lower().startswith(("<!doctype html", "<html")):
        return html_to_text(text), True
    if part.media_type in RICH_TYPES:
        return rich_to_text(text, part.media_type), False
    if (part.headers.parameter("content-type", "format") or "").lower() == "flowed":
        deletes_space = part.headers.parameter("content-type", "delsp") or ""
        text = join_flowed(text, deletes_space=deletes_space.lower() == "yes")
    return text, False
