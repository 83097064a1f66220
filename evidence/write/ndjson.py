"""Read NDJSON lines from a byte stream and parse them safely, at bounded memory per line."""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn, Protocol

import orjson

from evidence import limits
from evidence.write.receipts import LineRejectedError, ReceiptCode

MAX_LINE_BYTES = limits.INGEST_MAX_BYTES
"""Default maximum length of a line, in bytes."""
_SKIP_BYTES = 64 * 1024
_BOM = b"\xef\xbb\xbf"


class Readable(Protocol):
    """A file, standard input or a request body."""

    def readline(self, size: int = -1, /) -> bytes: ...


class NdjsonLine(NamedTuple):
    """One line. ``number`` counts from 1 and includes blank lines; a too long line has no content."""

    number: int
    content: bytes | None


def read_lines(stream: Readable, *, max_bytes: int = MAX_LINE_BYTES) -> Iterator[NdjsonLine]:
    """Yield every line that is not blank, without its line ending."""
    number = 0
    while content := stream.readline(max_bytes + 1):
        number += 1
        if len(content) > max_bytes and not content.endswith(b"\n"):
            _skip_line(stream)
            yield NdjsonLine(number, None)
            continue
        if number == 1:
            content = content.removeprefix(_BOM)
        if content := content.strip(b" \t\r\n"):
            yield NdjsonLine(number, content)


def _skip_line(stream: Readable) -> None:
    while chunk := stream.readline(_SKIP_BYTES):
        if chunk.endswith(b"\n"):
            return


_INTEGER_RANGE = range(-(2**63), 2**64)
_LONG_INTEGER = b"0" * 19
_SURROGATE = re.compile("[\ud800-\udfff]")
_DIGITS_AS_ZERO = bytes.maketrans(b"123456789", b"000000000")


def parse_object(content: bytes) -> dict[str, Any]:
    """Parse the JSON object of a line. Raises ``LineRejectedError``."""
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError:
        raise LineRejectedError(_parse_error_code(content)) from None
    if not isinstance(value, dict):
        raise LineRejectedError(ReceiptCode.MALFORMED_NDJSON)
    # Cheap tests decide whether the slow checks, which rarely find anything, have to run.
    if b"\\u0000" in content:
        reject_nul(value)
    if _LONG_INTEGER in content.translate(_DIGITS_AS_ZERO):
        _reject_long_integers(content)
    return value


def reject_nul(value: object) -> None:
    """Raise ``LineRejectedError`` if a string or member name in ``value`` contains U+0000."""
    if any("\0" in text for text in _strings(value)):
        raise LineRejectedError(ReceiptCode.NUL_CHARACTER)


def _reject_long_integers(content: bytes) -> None:
    try:
        json.loads(content, parse_int=_parse_integer)
    except RecursionError:  # orjson allows deeper nesting than the json module
        raise LineRejectedError(ReceiptCode.NESTED_TOO_DEEPLY) from None


def _children(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _strings(value: object) -> Iterator[str]:
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            yield from item
        pending.extend(_children(item))


def _parse_error_code(content: bytes) -> ReceiptCode:
    """Return the code for content that orjson rejects."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return ReceiptCode.INVALID_UTF8
    if "\0" in text:
        return ReceiptCode.NUL_CHARACTER
    try:
        value = json.loads(text, parse_constant=_reject_constant, parse_int=_parse_integer)
    except LineRejectedError as error:
        return error.code
    except RecursionError:
        return ReceiptCode.NESTED_TOO_DEEPLY
    except ValueError:
        return ReceiptCode.MALFORMED_NDJSON
    if any(map(_SURROGATE.search, _strings(value))):
        return ReceiptCode.LONE_SURROGATE
    return ReceiptCode.NUMBER_OUT_OF_RANGE


def _reject_constant(_name: str) -> NoReturn:
    raise LineRejectedError(ReceiptCode.MALFORMED_NDJSON)


def _parse_integer(digits: str) -> int:
    if len(digits) > len("-9223372036854775808") or int(digits) not in _INTEGER_RANGE:
        raise LineRejectedError(ReceiptCode.NUMBER_OUT_OF_RANGE)
    return int(digits)
