"""Parse the header fields of a message or MIME part (RFC 5322, RFC 2047), leniently."""

import binascii
import io
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from email.message import Message
from email.utils import collapse_rfc2231_value, getaddresses, parsedate_tz, quote, unquote
from itertools import islice

from importers.core import dates
from importers.core.results import ParsedItem, ReceiptCode
from importers.core.text import decode, one_line, replace_unstorable

HEADER_MAX_BYTES = 4 * 1024 * 1024
MAX_FIELDS = 5_000
VALUE_MAX_CHARS = 64 * 1024
MAX_ADDRESSES = 500

_IN_WORD = r"[^?=]|=(?!\?[^?\s]{1,64}\?[bBqQ]\?)|\?(?!=)"
_ENCODED_WORD = re.compile(
    rf"=\?([^?\s]{{1,64}})\?([bBqQ])\?((?:{_IN_WORD}|\?(?==[0-9A-Fa-f]{{2}}(?:{_IN_WORD})*+\?=))*+)\?="
)
"""An encoded word, also with question marks that its mailer did not encode.

One before an encoded character looks like the end, but then another end follows.
"""
_ENCODED_BYTE = re.compile(rb"=([0-9A-Fa-f]{2})")
_SPACE_BETWEEN_WORDS = re.compile(r"(\?=)\s+(?==\?[^?\s]{1,64}\?[bBqQ]\?)")
_PHRASE = re.compile(r'(^|,)\s*([^<>,"()]{0,500}[@\[\]][^<>,"()]{0,500}?)\s*<')
"""A name that must be in quotation marks and is not."""
_LIST_ITEM = re.compile(r'(?:"(?:[^"\\]|\\.){0,500}+"|\([^()]*+\)|<[^<>]*+>|[^,;:])++')
_ADDRESS_COMMENT = re.compile(r"\([^()]*+\)")
_SPACED_ADDRESS = re.compile(r'(?:"[^"]*"|[^\s@]+) ?@ ?[^\s@]+')
_PEOPLE = frozenset(("to", "cc"))
_ZONE = re.compile(r"\d:\d\d(?::\d\d(?:\.\d+)?)?\s*(.*)$")
_COMMENT = re.compile(r"\s*\([^()]*\)|\"")
_NOT_BASE64 = re.compile(rb"[^A-Za-z0-9+/]")


class HeaderFields:
    """Header fields by lower-case name; the first of several counts, but for lists of people."""

    def __init__(self, header: bytes) -> None:
        self._values: dict[str, str] = {}
        self._more_people: dict[str, list[bytes]] = {}
        self.undecoded: dict[str, bytes] = {}
        for name, value in islice(_split_fields(header[:HEADER_MAX_BYTES]), MAX_FIELDS):
            if name in self._values:
                if name in _PEOPLE:
                    self._more_people.setdefault(name, []).append(value)
                continue
            if not value.isascii():
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
        return one_line(decode_encoded_words(self.raw(name))) or None

    def addresses(self, name: str) -> list[tuple[str, str]]:
        """Return (name, address) pairs.

        Names are decoded after the list is split, because encoded words can contain commas.
        """
        lists = [self.raw(name), *map(decode, self._more_people.get(name, ()))]
        lists = [
            _LIST_ITEM.sub(_with_brackets, _PHRASE.sub(r'\1 "\2" <', value)) for value in lists
        ]
        try:
            pairs = getaddresses(lists)[:MAX_ADDRESSES]
        except RecursionError:  # nested comments
            pairs = []
        return [
            (one_line(decode_encoded_words(person)), one_line(address, max_chars=320))
            for person, address in pairs
            if person or address
        ]

    def value(self, name: str, *, default: str) -> str:
        """Return the value without its parameters, in lower case."""
        return self.raw(name).partition(";")[0].strip().lower() or default

    def parameter(self, name: str, parameter: str) -> str | None:
        """Return a parameter as the standard library parses it (RFC 2231)."""
        message = Message()
        message[name] = " ".join(self.raw(name).split())[:4096]
        try:
            params = message.get_params([], header=name)
            values = [value for key, value in params if key.lower() == parameter]
            # A value of RFC 2231 is written beside a plain one for older programs.
            values.sort(key=lambda value: isinstance(value, str))
            return collapse_rfc2231_value(values[0]) if values else None
        except (TypeError, ValueError, LookupError):  # such as badly numbered continuations
            return None


def _with_brackets(item: re.Match[str]) -> str:
    """Return an item of an address list with the angle brackets that its mailer left out.

    The last of several words is the address if it alone has an @; otherwise all of them are a name.
    """
    words = _ADDRESS_COMMENT.sub(" ", item[0]).split()
    text = " ".join(words)
    is_group = item.string.startswith(":", item.end())
    if len(words) < 2 or is_group or set("<>()") & set(text) or _SPACED_ADDRESS.fullmatch(text):
        return item[0]
    *names, last = words
    name = " ".join(names)
    has_address = "@" in last.strip("@") and "@" not in name and '"' not in last
    if not has_address:
        name, last = text, ""
    return f'"{quote(unquote(name))}" <{last}>'


def _split_fields(header: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield unfolded (name, value) pairs, and skip other lines."""
    name, parts = "", list[bytes]()
    for line in io.BytesIO(header):
        line = line.rstrip(b"\r\n")
        if line[:1] in (b" ", b"\t"):
            parts.append(line)
            continue
        if name:
            yield name, b"".join(parts)[:VALUE_MAX_CHARS]
        raw_name, colon, value = line.partition(b":")
        name = raw_name.strip().lower().decode("latin-1") if colon else ""
        parts = [value]
    if name:
        yield name, b"".join(parts)[:VALUE_MAX_CHARS]


def decode_encoded_words(value: str) -> str:
    """Decode encoded words (RFC 2047), leniently.

    Neighboring words of one charset are joined first, because mailers split characters.
    """
    if "=?" not in value:
        return replace_unstorable(value)
    value = _SPACE_BETWEEN_WORDS.sub(r"\1", value)
    texts, position, pending, charset = [], 0, b"", ""
    for word in _ENCODED_WORD.finditer(value):
        between, is_same_charset = value[position : word.start()], word[1].lower() == charset
        if pending and (between or not is_same_charset):
            texts.append(decode(pending, charset))
            pending = b""
        texts.append(between)
        charset = word[1].lower()
        pending += _decode_word(word[2], word[3])
        position = word.end()
    if pending:
        texts.append(decode(pending, charset.partition("*")[0]))
    return replace_unstorable("".join(texts) + value[position:])


def _decode_word(encoding: str, text: str) -> bytes:
    content = text.encode("utf-8", "replace")
    if encoding in "bB":
        return decode_base64(content)
    # Other than in a body, an equals sign that encodes nothing, as at the end, is one.
    spaced = content.replace(b"_", b" ")
    return _ENCODED_BYTE.sub(lambda found: bytes.fromhex(found[1].decode()), spaced)


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
