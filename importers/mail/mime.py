"""Parse a message into a tree of MIME parts, its header fields, and the text and files that a program shows.

No part is copied. The standard library's parser splits a message into lines and joins them again,
which takes several times the memory and most of the time, and it does not limit nesting.
"""

import binascii
import email.utils
import inspect
import io
import quopri
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, timezone
from email.message import Message
from email.utils import collapse_rfc2231_value, getaddresses, parsedate_tz
from functools import cached_property
from html import escape, unescape
from itertools import chain, islice
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

import regex

from importers.core import dates
from importers.core.file_texts import DEFAULT_MEDIA_TYPE, add_attachment
from importers.core.results import ParsedItem, ParsedRecord, ReceiptCode
from importers.core.text import (
    decode,
    html_to_text,
    one_line,
    replace_unstorable,
    strip_tags,
    text_prefix,
)

HEADER_MAX_BYTES = 4 * 1024 * 1024
MAX_FIELDS = 5_000
VALUE_MAX_CHARS = 64 * 1024
LINE_MAX_CHARS = 1_000
MAX_ADDRESSES = 500

_IN_WORD = r"[^?=]|=(?!\?[^?\s]{1,64}\?[bBqQ]\?)|\?(?!=)"
# Possessive groups of `re` match too little in Python 3.11.2, which Debian 12 has.
_ENCODED_WORD = regex.compile(
    rf"=\?([^?\s]{{1,64}})\?([bBqQ])\?((?:{_IN_WORD}|\?(?==[0-9A-Fa-f]{{2}}(?:{_IN_WORD})*+\?=))*+)\?="
)
"""An encoded word, also with question marks that its mailer did not encode.

One before an encoded character looks like the end, but then another end follows.
"""
_ENCODED_BYTE = re.compile(rb"=([0-9A-Fa-f]{2})")
_SPACE_BETWEEN_WORDS = re.compile(r"(\?=)\s+(?==\?[^?\s]{1,64}\?[bBqQ]\?)")
_PHRASE = re.compile(r'(^|,)\s*([^<>,"()]{0,500}[@\[\]][^<>,"()]{0,500}?)\s*<')
"""A name that must be in quotation marks and is not."""
_SEPARATOR = re.compile(r'"(?:[^"\\]|\\.){0,500}"|\([^()]*\)|<[^<>]*>|([,;:])')
"""What separates the items of an address list, in group 1, or a part that can contain it."""
_LENIENT: dict[str, Any] = (
    {"strict": False} if "strict" in inspect.signature(getaddresses).parameters else {}
)
"""Newer versions of Python return no address at all of a list with one that they doubt."""
_ADDRESS_COMMENT = re.compile(r"\([^()]*+\)")
_SPACED_ADDRESS = re.compile(r'(?:"[^"]*"|[^\s@]+) ?@ ?[^\s@]+')
_PEOPLE = frozenset(("from", "to", "cc", "bcc", "reply-to"))
_SHOWN = _PEOPLE | {"subject"}
_ZONE = re.compile(r"\d:\d\d(?::\d\d(?:\.\d+)?)?\s*(.*)$")
_COMMENT = re.compile(r"\s*\([^()]*\)|\"")
_NOT_BASE64 = re.compile(rb"[^A-Za-z0-9+/]")
_WORDS = re.compile(rb"^[^\r\n]*[!-~] +[!-~][^\r\n]*$", re.M)
"""A line with blanks between words, which base64 has not."""
_NO_SEMICOLON = re.compile(r"\A([\w./+-]+)(?= [\w-]+=)")
"""A value before parameters, such as `text/plain charset=utf-8` of some mailers."""
_BLANK_LINE = re.compile(rb"\n[ \t]+\r?\n(?![!-9;-~]+:|[ \t\r\n])")
"""A line of blanks before one that is no field: it ends the header, too."""
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f]")
_BINARY = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
"""Control characters that no text has; ISO-2022 has escapes."""


class HeaderFields:
    """Header fields by lower-case name; the first of several counts, but for lists of people."""

    def __init__(self, header: bytes) -> None:
        self._values: dict[str, str] = {}
        self._more_people: dict[str, list[bytes]] = {}
        self.undecoded: dict[str, bytes] = {}
        self.stray_lines: list[bytes] = []
        self.is_cut = len(header) > HEADER_MAX_BYTES
        """Whether a text or list was too long, as far as they were asked for."""
        for name, written in islice(
            _split_fields(header[:HEADER_MAX_BYTES], self.stray_lines), MAX_FIELDS
        ):
            value = written[:VALUE_MAX_CHARS]
            self.is_cut |= len(written) > VALUE_MAX_CHARS and name in _SHOWN
            if name in self._values:
                if name in _PEOPLE:
                    self._more_people.setdefault(name, []).append(value)
                continue
            if not value.isascii() or b"\x1b" in value:
                self.undecoded[name] = value
            self._values[name] = (
                decode(value) if name in self.undecoded else value.decode("ascii")
            ).strip()

    def decode_again(self, charset: str) -> None:
        """Decode values that have no declared charset in the charset of the body."""
        for name, value in self.undecoded.items():
            self._values[name] = decode(value, charset).strip()

    def starts_with(self, name: str) -> bool:
        """Return whether a field is among the first two."""
        return name in islice(self._values, 2)

    def raw(self, name: str) -> str:
        return self._values.get(name, "")

    def text(self, name: str) -> str | None:
        """Return the decoded value on one line, or None if it is empty."""
        line = one_line(decode_encoded_words(self.raw(name)), max_chars=LINE_MAX_CHARS + 1)
        self.is_cut |= len(line) > LINE_MAX_CHARS
        return line[:LINE_MAX_CHARS] or None

    def addresses(self, name: str) -> list[tuple[str, str]]:
        """Return (name, address) pairs.

        Names are decoded after the list is split, because encoded words can contain commas.
        """
        lists = [self.raw(name), *map(decode, self._more_people.get(name, ()))]
        lists = [_with_brackets(_PHRASE.sub(r'\1 "\2" <', value)) for value in lists]
        try:
            pairs = list(filter(any, getaddresses(lists, **_LENIENT)))
        except RecursionError:  # nested comments
            pairs = []
        self.is_cut |= len(pairs) > MAX_ADDRESSES
        return [
            (one_line(decode_encoded_words(person)), one_line(address, max_chars=320))
            for person, address in pairs[:MAX_ADDRESSES]
        ]

    def value(self, name: str, *, default: str) -> str:
        """Return the value without its parameters, in lower case, also without a semicolon between."""
        value, *_ = self.raw(name).partition(";")[0].lower().split() or [default]
        return value

    def parameter(self, name: str, parameter: str) -> str | None:
        """Return a parameter as the standard library parses it (RFC 2231)."""
        message = Message()
        message[name] = _NO_SEMICOLON.sub(r"\1;", " ".join(self.raw(name).split())[:4096])
        try:
            params = message.get_params([], header=name)
            values = [value for key, value in params if key.lower() == parameter]
            # A value of RFC 2231 is written beside a plain one for older programs.
            values.sort(key=lambda value: isinstance(value, str))
            return collapse_rfc2231_value(values[0]) if values else None
        except (TypeError, ValueError, LookupError):  # such as badly numbered continuations
            return None


def _with_brackets(addresses: str) -> str:
    """Return an address list with the angle brackets that its mailer left out."""
    parts = []
    start = 0
    for separator in _SEPARATOR.finditer(addresses):
        if separator[1]:
            item = addresses[start : separator.start()]
            # An item before a colon is the name of a group.
            parts += [item if separator[1] == ":" else _with_bracket(item), separator[1]]
            start = separator.end()
    return "".join((*parts, _with_bracket(addresses[start:])))


def _with_bracket(item: str) -> str:
    """Return an address with its name; the last of several words is the address.

    If another word or none has an @, all of them are a name.
    """
    words = _ADDRESS_COMMENT.sub(" ", item).split()
    text = " ".join(words)
    if len(words) < 2 or set("<>()") & set(text) or _SPACED_ADDRESS.fullmatch(text):
        return item
    *names, last = words
    name = " ".join(names)
    has_address = "@" in last.strip("@") and "@" not in name and '"' not in last
    if not has_address:
        name, last = text, ""
    return f'"{email.utils.quote(email.utils.unquote(name))}" <{last}>'


def _split_fields(header: bytes, stray: list[bytes]) -> Iterator[tuple[str, bytes]]:
    """Yield unfolded (name, value) pairs, and append other lines to ``stray``."""
    name, parts = "", list[bytes]()
    for line in io.BytesIO(header):
        line = line.rstrip(b"\r\n")
        if line[:1] in (b" ", b"\t"):
            parts.append(line)
            continue
        if name:
            yield name, b"".join(parts)
        raw_name, colon, value = line.partition(b":")
        name = raw_name.strip().lower().decode("latin-1") if colon else ""
        if not colon and line.strip() and not line.startswith((b"From ", b">From ")):
            stray.append(line)
        parts = [value]
    if name:
        yield name, b"".join(parts)


def decode_encoded_words(value: str) -> str:
    """Decode encoded words (RFC 2047), leniently.

    Neighboring words of one charset are joined first, because mailers split characters.
    """
    if "=?" not in value:
        return replace_unstorable(value)
    value = _SPACE_BETWEEN_WORDS.sub(r"\1", value)
    texts, position, start, pending, charset = [], 0, 0, b"", ""
    for word in _ENCODED_WORD.finditer(value):
        between, is_same_charset = value[position : word.start()], word[1].lower() == charset
        if pending and (between or not is_same_charset):
            texts.append(_decoded(pending, charset, value[start:position]))
            pending = b""
        if not pending:
            start = word.start()
        texts.append(between)
        charset = word[1].lower()
        pending += _decode_word(word[2], word[3])
        position = word.end()
    if pending:
        texts.append(_decoded(pending, charset.partition("*")[0], value[start:position]))
    return replace_unstorable("".join(texts) + value[position:])


def _decoded(content: bytes, charset: str, written: str) -> str:
    """Return the text of encoded words, or the words as ``written`` if it would be no text."""
    text = decode(content, charset)
    return written if _CONTROL.search(text) else text


def _decode_word(encoding: str, text: str) -> bytes:
    content = text.encode("utf-8", "replace")
    if encoding in "bB":
        return decode_base64(content)
    # Other than in a body, an equals sign that encodes nothing, as at the end, is one.
    spaced = content.replace(b"_", b" ")
    return _ENCODED_BYTE.sub(lambda found: bytes.fromhex(found[1].decode()), spaced)


def _is_text(content: bytes) -> bool:
    """Return whether most lines have words: some mailers say base64 and write plain text."""
    lines = [line for line in content.splitlines() if line.strip()]
    return len(_WORDS.findall(content)) * 2 > len(lines)


def decode_base64(content: bytes | memoryview) -> bytes:
    """Decode base64, skipping invalid characters and padding."""
    try:
        return binascii.a2b_base64(content)
    except binascii.Error:  # the padding does not match the length
        content = _NOT_BASE64.sub(b"", content)
    if len(content) % 4 == 1:
        content = content[:-1]
    return binascii.a2b_base64(content + b"=" * (-len(content) % 4))


def parse_date(value: str, item: ParsedItem | None = None) -> datetime | None:
    """Return the time of a Date field in UTC, or None if it is impossible or implausible.

    A zone whose name is unknown is UTC, and the item gets a receipt.
    """
    value = value[:200].strip()
    try:
        parsed = parsedate_tz(value)
        if parsed is None or value[:4].isdecimal():
            time = datetime.fromisoformat(_COMMENT.sub("", value))
            time = time.replace(tzinfo=time.tzinfo or UTC).astimezone(UTC)
            return time if 1970 <= time.year < 2100 else None
        zone = timezone(timedelta(seconds=parsed[9] or 0))
        if not parsed[9] and (written := _ZONE.search(_COMMENT.sub("", value))):
            # "Tue Jan 13 14:30:00 CET 2026" ends with the year.
            name = re.sub(r"\s+\d{4}$", "", written[1])
            known = dates.zone_offset(name)
            if known is None and name and item is not None:
                item.add_issue(ReceiptCode.UNKNOWN_TIME_ZONE, detail=name[:40])
            zone = known or zone
        time = datetime(*parsed[:6], tzinfo=zone).astimezone(UTC)
    except (ValueError, OverflowError, TypeError, IndexError):
        return None
    return time if 1970 <= time.year < 2100 else None


MAX_DEPTH = 50
_BOUNDARY_LINE = re.compile(
    rb"^--([^\r\n]{1,200}?)[ \t]*\r?\n(?:Content-[A-Za-z-]+:|\r?\n)", re.M | re.I
)
"""A delimiter, where the header names another boundary or none."""
MAX_PARTS = 1_000
_SIGNATURES = {
    b"%PDF-": "application/pdf",
    b"PK\x03\x04": "application/zip",
    b"\x89PNG\r\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF89a": "image/gif",
}
_SNIFFED_BYTES = 4_096
MAX_STRAY_CONTROLS = 3
CHARS_PER_CONTROL = 20
"""Random bytes have a control character in ten; a text has some by mistake."""
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
        """The declared type, or that of the content where it says text and the content is none."""
        media_type = self.headers.value("content-type", default=self.default_type)
        media_type = media_type if media_type.count("/") == 1 else "text/plain"
        is_text = media_type in _DISPLAYED_TYPES
        return (is_text and _binary_type(self.content, self.charset)) or media_type

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
        if encoding == "base64" and not _is_text(self.raw[self.start : self.end][:4_000]):
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
    found = min(positions, default=end)
    blank = _BLANK_LINE.search(raw, start, found)
    return blank.end() if blank else found


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
            line_end_bytes = 2 if raw[found - 2 : found] == b"\r\n" else 1
            yield part_start, max(part_start, found - line_end_bytes)
        if is_last or line_end < 0:
            return
        part_start = position = line_end + 1
    if part_start is not None:
        yield part_start, end


def _binary_type(content: bytes, charset: str | None) -> str | None:
    """Return the media type of content that is no text, or None for text."""
    for start, media_type in _SIGNATURES.items():
        if content.startswith(start):
            return media_type
    head = content[:_SNIFFED_BYTES]
    if not _BINARY.search(head):
        return None
    text = decode(head, charset)
    # `decode` replaces NUL characters, and leaves none of the NUL bytes of UTF-16.
    controls = len(_CONTROL.findall(text)) + min(head.count(0), text.count("\ufffd"))
    is_binary = controls > max(MAX_STRAY_CONTROLS, len(text) / CHARS_PER_CONTROL)
    return DEFAULT_MEDIA_TYPE if is_binary else None


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


RICH_TYPES = ("text/enriched", "text/richtext")
_RICH_TOKEN = re.compile(
    r"<<|<(param|comment)>.{0,300}?</\1>|<(/?)([a-z0-9-]{1,60})>|\n+", re.IGNORECASE | re.DOTALL
)
_RICH_TEXTS = {"lt": "<", "nl": "\n", "np": "\n", "paragraph": "\n"}
STUB_MAX_CHARS = 1_000
NOTICE_MAX_CHARS = 500
_NOTICE = re.compile(
    r"\bx?html\b|browser|navigat|navegador|webbl|przegl|браузер|ブラウザ|浏览器|瀏覽器", re.I
)
_LINK = re.compile(r"\(?https?://\S+")
COMPARED_CHARS = 20_000
SAYS_MORE = 0.2
"""Part of new words from which a text of the same kind, or before HTML, says something of its own."""
SAYS_OTHER = 0.8
"""Part of new words from which HTML says something else than the plain text, and not the same in more words."""
_ANY_WORD = re.compile(r"\w+")
_ALTERNATIVE = "multipart/alternative"
_DISPLAYED_TYPES = ("text/plain", "text/html", *RICH_TYPES)
_CONTENT_ID = re.compile(r"""(?<=["'(=])cid:([^"'()<>\s]{1,500})""", re.I)
HTML_MAX_CHARS = 4_000_000


def rich_to_text(text: str, media_type: str) -> str:
    """Return the text that text/enriched (RFC 1896) or text/richtext (RFC 1341) displays.

    A line break is a space unless nofill says otherwise; text/enriched shows all but one of several.
    """
    unfilled = 0

    def show(token: re.Match[str]) -> str:
        nonlocal unfilled
        shown, name = token[0], (token[3] or "").lower()
        if name == "nofill":
            unfilled = max(0, unfilled + (-1 if token[2] else 1))
        if not shown.startswith("\n"):
            return "<" if shown == "<<" else _RICH_TEXTS.get(name, "")
        if unfilled:
            return shown
        return (shown[1:] if media_type == "text/enriched" else "") or " "

    return _RICH_TOKEN.sub(show, text).strip()


def join_flowed(text: str, *, deletes_space: bool) -> str:
    """Join the lines of each paragraph (RFC 3676): a line that ends with a space continues."""
    lines: list[str] = []
    flows_at: str | None = None
    for line in text.split("\n"):
        quote = line[: len(line) - len(line.lstrip(">"))]
        content = line[len(quote) :].removeprefix(" ")
        if flows_at == quote and content != "-- ":
            lines[-1] = (lines[-1][:-1] if deletes_space else lines[-1]) + content
        else:
            lines.append(f"{quote} {content}" if quote else content)
        flows_at = quote if content.endswith(" ") and content != "-- " else None
    return "\n".join(lines)


class DisplayedText(NamedTuple):
    """A text of a message, and the HTML that it was converted from; empty for a plain text."""

    text: str
    html: str = ""


@dataclass(slots=True)
class Body:
    """The text of a message, its HTML where it has some, and its attachments in ``files``.

    ``source`` is "plain" or "html", or None without text.
    """

    text: str = ""
    source: str | None = None
    html: str = ""
    files: list[MimePart] = field(default_factory=list)
    is_truncated: bool = False

    @property
    def outlook_text(self) -> str:
        return next((part.outlook_text for part in self.files if part.outlook_text), "")

    @property
    def outlook_html(self) -> str:
        return next((part.outlook_html for part in self.files if part.outlook_html), "")


def select_body(root: MimePart) -> Body:
    """Return the text and the HTML that a mail program would display, and all attachments."""
    body = Body(is_truncated=any(part.is_truncated for part in root.walk()))
    texts, formatted = _displayed_texts(root, body.files)
    body.text = "\n\n".join(each.text for each in texts)
    if texts:
        body.source = "html" if any(each.html for each in texts) else "plain"
    if any(each.html for each in formatted):
        plain = '<div style="white-space: pre-wrap">{}</div>'
        body.html = "".join(each.html or plain.format(escape(each.text)) for each in formatted)
    return body


def _displayed_texts(
    part: MimePart, files: list[MimePart]
) -> tuple[list[DisplayedText], list[DisplayedText]]:
    """Return the texts below a part to store and to show, and append attachments to ``files``.

    They differ where a part has alternatives: HTML is shown, plain text is stored.
    """
    if part.children:
        children = [_displayed_texts(child, files) for child in part.children]
        texts, formatted = ([*each] for each in zip(*children, strict=True))
        if part.media_type == _ALTERNATIVE:
            chosen = select_alternative(texts)
            with_html = [each for each in formatted if any(text.html for text in each)]
            return chosen, with_html[-1] if with_html else chosen
        return list(chain.from_iterable(texts)), list(chain.from_iterable(formatted))
    if part.media_type.startswith("multipart/") and part.is_truncated:
        return [], []
    if _is_attachment(part):
        files.append(part)
        return [], []
    text = _text(part)
    return [text] if text.text else [], [text] if any(text) else []


def select_alternative(alternatives: list[list[DisplayedText]]) -> list[DisplayedText]:
    """Prefer plain text, unless it only says that the message is HTML."""
    plain, html = list[DisplayedText](), list[DisplayedText]()
    for texts in alternatives:
        chosen = html if any(each.html for each in texts) else plain
        if not chosen or _new_words(texts, chosen) > SAYS_MORE:
            chosen += texts
    if not (plain and html):
        return plain or html
    if not _is_stub(plain, html):
        return [*plain, *html] if _new_words(html, plain) > SAYS_OTHER else plain
    is_notice = bool(_NOTICE.search(" ".join(each.text for each in plain)))
    return html if is_notice or _new_words(plain, html) <= SAYS_MORE else [*plain, *html]


def _new_words(texts: list[DisplayedText], chosen: list[DisplayedText]) -> float:
    """Return which part of the words, of the first ones, is not in the texts that were chosen."""
    written, known = (
        strip_tags(_LINK.sub("", " ".join(each.text for each in some)[:COMPARED_CHARS])).lower()
        for some in (texts, chosen)
    )
    words, known_words = set(_ANY_WORD.findall(written)), _ANY_WORD.findall(known)
    # Markup may split or join words, so the others are looked for in all letters. Without the known
    # words a mail of 2,500 takes 2 ms in place of 11.
    letters = "".join(known_words)
    new = sum(word not in letters for word in words.difference(known_words))
    return new / max(1, len(words))


def _is_stub(plain: list[DisplayedText], html: list[DisplayedText]) -> bool:
    plain_text, html_text = (
        _LINK.sub("", " ".join(each.text for each in texts)).strip() for texts in (plain, html)
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
    if part.media_type in _DISPLAYED_TYPES or part.media_type.startswith("multipart/"):
        return False
    return part.depth > 0 or bool(_BINARY.search(part.content))


def _text(part: MimePart) -> DisplayedText:
    content = text_prefix(part.content)
    text = decode(content, part.charset).replace("\r\n", "\n").strip()
    # Some programs label HTML as plain text.
    if part.media_type == "text/html" or text[:15].lower().startswith(("<!doctype html", "<html")):
        return DisplayedText(html_to_text(text), text)
    if part.media_type in RICH_TYPES:
        return DisplayedText(rich_to_text(text, part.media_type))
    if (part.headers.parameter("content-type", "format") or "").lower() == "flowed":
        deletes_space = part.headers.parameter("content-type", "delsp") or ""
        text = join_flowed(text, deletes_space=deletes_space.lower() == "yes")
    return DisplayedText(text)


def html_fields(
    item: ParsedItem, body: Body, attached: Sequence[tuple[str, ParsedRecord]], *, key: str
) -> dict[str, Any]:
    """Add the HTML of a message as its file, and return the field that names it.

    The declaration does not name this field, so that the HTML is for the owner alone. ``attached``
    are content ids and attachments: ``cid:`` and the key of an attachment replace ``cid:`` and its id.
    """
    if not (html := body.html or body.outlook_html):
        return {}
    keys = {content_id: record.data["id"] for content_id, record in attached if content_id}

    def with_key(link: re.Match[str]) -> str:
        found = keys.get(unquote(unescape(link[1])))
        return link[0] if found is None else f"cid:{found}"

    if len(html) > HTML_MAX_CHARS:
        item.add_issue(ReceiptCode.TEXT_CUT)
    content = _CONTENT_ID.sub(with_key, html[:HTML_MAX_CHARS])
    file = add_attachment(
        item,
        replace_unstorable(content).encode(),
        stream="messages",
        key=key,
        media_type="text/html",
        text="",
    )
    return {"blob_ref": file.blob_ref}
