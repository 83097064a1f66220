"""Parse a message into a tree of MIME parts (RFC 2046).

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

from importers.core.text import one_line
from importers.mail.headers import HeaderFields, decode_base64, decode_encoded_words

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
    TNEF attachment and ``outlook_html`` its HTML, set when the attachment is unpacked.
    """

    raw: bytes
    headers: HeaderFields
    start: int
    end: int
    depth: int
    children: list["MimePart"] = field(default_factory=list)
    is_truncated: bool = False
    outlook_text: str = ""
    outlook_html: str = ""
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
    def content_id(self) -> str:
        """The id by which the HTML of the message names this part; empty without one."""
        return self.headers.raw("content-id").strip().removeprefix("<").removesuffix(">")

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


def file_part(
    content: bytes, *, name: str, media_type: str, is_inline: bool = False, content_id: str = ""
) -> MimePart:
    """Return a part for an attached file that is not in MIME."""
    header = (
        f"content-type: {one_line(media_type) or 'application/octet-stream'}\n"
        f"content-disposition: {'inline' if is_inline else 'attachment'}"
        + (f"; filename*=utf-8''{quote(name, safe='')}" if name else "")
        + (f"\ncontent-id: <{one_line(content_id)}>" if content_id else "")
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
