"""The header of a mail or of a part of it, however badly written."""

import binascii
import io
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from email.message import Message
from email.utils import collapse_rfc2231_value, getaddresses, parsedate_tz
from itertools import islice

from importers.core.text import decoded, one_line, storable

HEADER_BYTES = 4 * 1024 * 1024
"""Of a block of headers so much is read."""
FIELDS_MOST = 5_000
VALUE_CHARS = 64 * 1024
ADDRESSES_MOST = 500

_ENCODED = re.compile(r"=\?([^?\s]{1,64})\?([bBqQ])\?([^?]*)\?=")
_BETWEEN = re.compile(r"(\?=)\s+(?==\?[^?\s]{1,64}\?[bBqQ]\?)")
_NO_BASE64 = re.compile(rb"[^A-Za-z0-9+/]")


class Headers:
    """By lower-case name; of several the first counts."""

    def __init__(self, block: bytes) -> None:
        self._values: dict[str, str] = {}
        for name, value in islice(_fields(block[:HEADER_BYTES]), FIELDS_MOST):
            self._values.setdefault(name, value)

    def raw(self, name: str) -> str:
        return self._values.get(name, "")

    def text(self, name: str) -> str | None:
        """Decoded, on one line; None where there is nothing."""
        return one_line(unencoded(self.raw(name))) or None

    def addresses(self, name: str) -> list[tuple[str, str]]:
        """(name, address) of each; names decoded after the list is taken apart, for they may hold
        commas."""
        try:
            found = getaddresses([self.raw(name)])[:ADDRESSES_MOST]
        except RecursionError:  # comments within comments
            found = []
        return [
            (one_line(unencoded(who)), one_line(address, most=320))
            for who, address in found
            if who or address
        ]

    def value(self, name: str, *, otherwise: str) -> str:
        """What stands before the parameters, in lower case."""
        return self.raw(name).partition(";")[0].strip().lower() or otherwise

    def parameter(self, name: str, parameter: str) -> str | None:
        """As the standard library reads it (RFC 2231), where it can."""
        message = Message()
        message[name] = " ".join(self.raw(name).split())[:4096]
        try:
            found = message.get_param(parameter, header=name)
            return None if found is None else collapse_rfc2231_value(found)
        except (
            TypeError,
            ValueError,
            LookupError,
        ):  # parts that are numbered and are not, and such
            return None


def _fields(block: bytes) -> Iterator[tuple[str, str]]:
    """Names and values, continued lines joined. Lines that are neither are passed over."""
    name, parts = "", list[bytes]()
    for line in io.BytesIO(block):
        line = line.rstrip(b"\r\n")
        if line[:1] in (b" ", b"\t"):
            parts.append(line)
            continue
        if name:
            yield name, _value(parts)
        before, colon, after = line.partition(b":")
        name = before.strip().lower().decode("latin-1") if colon else ""
        parts = [after]
    if name:
        yield name, _value(parts)


def _value(parts: list[bytes]) -> str:
    joined = b"".join(parts)[:VALUE_CHARS]
    return (joined.decode("ascii") if joined.isascii() else decoded(joined)).strip()


def unencoded(value: str) -> str:
    """RFC 2047, leniently: neighbouring words of one charset are joined before they are decoded,
    as mailers break them in the middle of a character."""
    if "=?" not in value:
        return storable(value)
    value = _BETWEEN.sub(r"\1", value)
    out, at, waiting, charset = [], 0, b"", ""
    for word in _ENCODED.finditer(value):
        between, same = value[at : word.start()], word[1].lower() == charset
        if waiting and (between or not same):
            out.append(decoded(waiting, charset))
            waiting = b""
        out.append(between)
        charset = word[1].lower()
        waiting += _word(word[2], word[3])
        at = word.end()
    if waiting:
        out.append(decoded(waiting, charset.partition("*")[0]))
    return storable("".join(out) + value[at:])


def _word(encoding: str, text: str) -> bytes:
    content = text.encode("utf-8", "replace")
    if encoding in "bB":
        return base64(content)
    return binascii.a2b_qp(content.replace(b"_", b" "))


def base64(content: bytes | memoryview) -> bytes:
    """As much as can be decoded."""
    try:
        return binascii.a2b_base64(content)
    except binascii.Error:  # the end is not where the padding says
        content = _NO_BASE64.sub(b"", content)
    if len(content) % 4 == 1:
        content = content[:-1]
    return binascii.a2b_base64(content + b"=" * (-len(content) % 4))


def moment(value: str) -> datetime | None:
    """The moment of a Date header in UTC; None for one that does not exist, such as of 30 February,
    or that no mail can have."""
    try:
        parsed = parsedate_tz(value[:200])
        if parsed is None:
            return None
        zone = timezone(timedelta(seconds=parsed[9] or 0))
        found = datetime(*parsed[:6], tzinfo=zone).astimezone(UTC)
    except (ValueError, OverflowError, TypeError, IndexError):
        return None
    return found if 1970 <= found.year < 2100 else None
