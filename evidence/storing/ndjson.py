"""Lines of a stream of bytes, without ever holding one that is too long."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

import orjson

from evidence import limits
from evidence.storing.receipts import Code, Rejected

LINE_BYTES = limits.INGEST_MAX_BYTES
"""The longest line that is read unless the caller says otherwise."""
_SKIPPED_AT_ONCE = 64 * 1024
_BOM = b"\xef\xbb\xbf"


class Readable(Protocol):
    """A file, standard input or the body of a request."""

    def readline(self, size: int = -1, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Line:
    """``number`` counts from 1, blank lines included; ``content`` is None for a line too long."""

    number: int
    content: bytes | None


def read_lines(stream: Readable, *, longest: int = LINE_BYTES) -> Iterator[Line]:
    """Every line that is not blank, without its end."""
    number = 0
    while content := stream.readline(longest + 1):
        number += 1
        if len(content) > longest and not content.endswith(b"\n"):
            _skip(stream)
            yield Line(number, None)
            continue
        if number == 1:
            content = content.removeprefix(_BOM)
        if content := content.strip(b" \t\r\n"):
            yield Line(number, content)


def _skip(stream: Readable) -> None:
    """Reads on to the end of the line that has begun."""
    while rest := stream.readline(_SKIPPED_AT_ONCE):
        if rest.endswith(b"\n"):
            return


_INTEGERS = range(-(2**63), 2**64)
_LONG_INTEGER = b"0" * 19
_SURROGATE = re.compile("[\ud800-\udfff]")
_DIGITS_AS_ZERO = bytes.maketrans(b"123456789", b"000000000")


def read_object(content: bytes) -> dict[str, Any]:
    """The object of a line; raises ``Rejected``."""
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError:
        raise Rejected(_reason(content)) from None
    if not isinstance(value, dict):
        raise Rejected(Code.MALFORMED_NDJSON)
    # The suspicions are cheap to raise and rarely right, so only they pay for a closer look.
    if b"\\u0000" in content:
        refuse_nul(value)
    if _LONG_INTEGER in content.translate(_DIGITS_AS_ZERO):
        _refuse_long_integers(content)
    return value


def refuse_nul(value: object) -> None:
    """Raises ``Rejected`` when a string or member name in ``value`` holds U+0000."""
    if any("\0" in text for text in _strings(value)):
        raise Rejected(Code.NUL_CHARACTER)


def _refuse_long_integers(content: bytes) -> None:
    try:
        json.loads(content, parse_int=_refuse_long)
    except RecursionError:  # deeper than any record may be; orjson goes a little further
        raise Rejected(Code.NESTED_TOO_DEEPLY) from None


def _children(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _strings(value: object) -> Iterator[str]:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict):
            yield from each
        waiting.extend(_children(each))


def _reason(content: bytes) -> Code:
    """Why orjson would not have it."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return Code.INVALID_UTF8
    if "\0" in text:
        return Code.NUL_CHARACTER
    try:
        value = json.loads(text, parse_constant=_refuse_constant, parse_int=_refuse_long)
    except Rejected as refusal:
        return refusal.code
    except RecursionError:
        return Code.NESTED_TOO_DEEPLY
    except ValueError:
        return Code.MALFORMED_NDJSON
    if any(map(_SURROGATE.search, _strings(value))):
        return Code.LONE_SURROGATE
    return Code.NUMBER_OUT_OF_RANGE


def _refuse_constant(_name: str) -> NoReturn:
    raise Rejected(Code.MALFORMED_NDJSON)


def _refuse_long(digits: str) -> int:
    if len(digits) > len("-9223372036854775808") or int(digits) not in _INTEGERS:
        raise Rejected(Code.NUMBER_OUT_OF_RANGE)
    return int(digits)
