"""A mail as a tree of parts, by its boundaries, without a copy of any part.

The standard library's parser splits a mail into a list of lines and joins them again, which takes
several times the memory and most of the time; and it follows nesting as deep as it is given.
"""

import binascii
import quopri
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from importers.core.text import beginning, decoded, of_html, one_line
from importers.mail.headers import Headers, base64, unencoded

DEPTH = 50
PARTS_MOST = 1_000


@dataclass
class Part:
    """``raw`` is the whole mail, ``start`` and ``end`` where this part's content stands in it.
    ``cut_short``: parts below it are not looked at. ``outlook_text`` is found when the files that
    Outlook wrapped up in it are."""

    raw: bytes
    headers: Headers
    start: int
    end: int
    depth: int
    children: list["Part"] = field(default_factory=list)
    cut_short: bool = False
    outlook_text: str = ""

    @cached_property
    def media_type(self) -> str:
        stated = self.headers.value("content-type", otherwise="text/plain")
        return stated if stated.count("/") == 1 else "text/plain"

    @property
    def charset(self) -> str | None:
        return self.headers.parameter("content-type", "charset")

    @cached_property
    def filename(self) -> str | None:
        """Decoded however it was encoded."""
        stated = self.headers.parameter("content-disposition", "filename")
        stated = stated or self.headers.parameter("content-type", "name")
        return one_line(unencoded(stated), most=255) or None if stated else None

    @property
    def disposition(self) -> str:
        return self.headers.value("content-disposition", otherwise="")

    @property
    def content(self) -> bytes:
        """The bytes that were sent, whatever they were wrapped in."""
        encoding = self.headers.raw("content-transfer-encoding").strip().lower()
        if encoding == "base64":
            return base64(memoryview(self.raw)[self.start : self.end])
        body = self.raw[self.start : self.end]
        if encoding == "quoted-printable":
            return quopri.decodestring(body)
        if encoding in ("x-uuencode", "uuencode", "uue", "x-uue"):
            return _uudecoded(body)
        return body

    def walk(self) -> Iterator["Part"]:
        yield self
        for child in self.children:
            yield from child.walk()


def parse(raw: bytes) -> Part:
    """The tree of a mail, at most DEPTH deep and of PARTS_MOST parts."""
    return _part(raw, 0, len(raw), depth=0, budget=iter(range(PARTS_MOST)))


def _part(raw: bytes, start: int, end: int, *, depth: int, budget: Iterator[int]) -> Part:
    content = content_start(raw, start, end)
    part = Part(raw, Headers(raw[start:content]), content, end, depth)
    if part.media_type.startswith("multipart/"):
        _divide(part, budget)
    return part


def content_start(raw: bytes, start: int, end: int) -> int:
    """After the first empty line; a part may also begin with it and have no headers."""
    if raw.startswith(b"\n", start):
        return start + 1
    if raw.startswith(b"\r\n", start):
        return start + 2
    found = [
        at + len(blank)
        for blank in (b"\n\n", b"\r\n\r\n", b"\n\r\n")
        if (at := raw.find(blank, start, end)) >= 0
    ]
    return min(found, default=end)


def _divide(part: Part, budget: Iterator[int]) -> None:
    stated = part.headers.parameter("content-type", "boundary") or ""
    boundary = stated.encode("utf-8", "replace")
    if not boundary:
        return
    if part.depth >= DEPTH:
        part.cut_short = True
        return
    for start, end in _between(part.raw, b"--" + boundary, part.start, part.end):
        if next(budget, None) is None:
            part.cut_short = True
            return
        part.children.append(_part(part.raw, start, end, depth=part.depth + 1, budget=budget))


def _between(raw: bytes, mark: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Where the parts between the marks begin and end. The last mark may be missing."""
    opened: int | None = None
    at = start
    while (found := raw.find(mark, at, end)) >= 0:
        at = found + len(mark)
        if found != start and raw[found - 1 : found] != b"\n":
            continue
        closes = raw.startswith(b"--", at)
        line_end = raw.find(b"\n", at, end)
        if not closes and raw[at : line_end if line_end >= 0 else end].strip():
            continue  # a longer boundary that begins alike
        if opened is not None:
            yield opened, max(opened, _before_line_end(raw, found))
        if closes or line_end < 0:
            return
        opened = at = line_end + 1
    if opened is not None:
        yield opened, end


def _before_line_end(raw: bytes, at: int) -> int:
    return at - 2 if raw[at - 2 : at] == b"\r\n" else at - 1


def _uudecoded(body: bytes) -> bytes:
    out = []
    for line in body.splitlines():
        if line.startswith(b"begin ") or line.strip() in (b"end", b"`", b""):
            continue
        try:
            out.append(binascii.a2b_uu(line))
        except binascii.Error:
            continue
    return b"".join(out)


_ALTERNATIVE = "multipart/alternative"
_SHOWN = ("text/plain", "text/html", "text/enriched")


@dataclass(slots=True)
class Body:
    """``source`` is "plain" or "html", or None where there is no text."""

    text: str = ""
    source: str | None = None
    files: list[Part] = field(default_factory=list)
    cut_short: bool = False


def body_of(root: Part) -> Body:
    """The text that a mail program would show, and everything beside it."""
    body = Body(cut_short=any(part.cut_short for part in root.walk()))
    shown = _shown(root, body.files)
    body.text = "\n\n".join(text for text, _ in shown)
    if shown:
        body.source = "html" if any(is_html for _, is_html in shown) else "plain"
    return body


def _shown(part: Part, files: list[Part]) -> list[tuple[str, bool]]:
    """The texts below a part in their order, and whether each was HTML."""
    if part.children:
        below = [_shown(child, files) for child in part.children]
        if part.media_type == _ALTERNATIVE:
            return _best(below)
        return [text for texts in below for text in texts]
    if part.media_type.startswith("multipart/"):
        return []
    if _is_file(part):
        files.append(part)
        return []
    text, is_html = _text(part)
    return [(text, is_html)] if text else []


def _best(alternatives: list[list[tuple[str, bool]]]) -> list[tuple[str, bool]]:
    """Plain text as it was written before HTML as we read it."""
    written = [texts for texts in alternatives if texts]
    plain = (texts for texts in written if not any(is_html for _, is_html in texts))
    return next(plain, written[0] if written else [])


def _is_file(part: Part) -> bool:
    if part.disposition == "attachment" or part.filename:
        return True
    return part.depth > 0 and part.media_type not in _SHOWN


def _text(part: Part) -> tuple[str, bool]:
    text = decoded(beginning(part.content), part.charset).replace("\r\n", "\n").strip()
    # Some programs put their HTML under the wrong name.
    if part.media_type == "text/html" or text[:15].lower().startswith(("<!doctype html", "<html")):
        return of_html(text), True
    return text, False
