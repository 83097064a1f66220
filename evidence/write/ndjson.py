"""Read NDJSON lines from a byte stream safely, at bounded memory per line, and the receipts of lines.

A receipt is for a line that was rejected or adjusted, and never quotes it.
"""

import json
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, NoReturn, Protocol

import orjson

from evidence import limits


class ReceiptCode(StrEnum):
    """Reason of a receipt."""

    # Text of the line
    LINE_TOO_LONG = "line_too_long"
    INVALID_UTF8 = "invalid_utf8"
    MALFORMED_NDJSON = "malformed_ndjson"
    LONE_SURROGATE = "lone_surrogate"
    NUL_CHARACTER = "nul_character"
    NESTED_TOO_DEEPLY = "nested_too_deeply"
    NUMBER_OUT_OF_RANGE = "number_out_of_range"
    # Envelope around the record
    INVALID_ENVELOPE = "invalid_envelope"
    INVALID_OP = "invalid_op"
    INVALID_EMITTED_AT = "invalid_emitted_at"
    # Target
    CONNECTION_NOT_FOUND = "connector_instance_not_found"
    CONNECTION_NOT_WRITABLE = "connector_instance_not_writable"
    STREAM_NOT_DECLARED = "stream_not_declared"
    # Record
    INVALID_RECORD_IDENTITY = "invalid_record_identity"
    INVALID_RECORD_KEY = "invalid_record_key"
    INVALID_RECORD = "invalid_record"
    APPEND_ONLY_CONFLICT = "append_only_conflict"
    NOT_STORABLE = "not_storable"
    TOO_MANY_DELETIONS = "too_many_deletions"

    # Valid, but the owner erased this record for good
    SUPPRESSED = "suppressed"
    # Stored, replacing a different earlier line of the same import
    DUPLICATE_KEY = "duplicate_key"
    # Stored, with a value that is not the time that its field declares
    TIME_NOT_USED = "time_not_used"


NOTICES = frozenset({ReceiptCode.DUPLICATE_KEY, ReceiptCode.TIME_NOT_USED})
"""Codes of lines that were stored."""


CODE_MESSAGES: dict[ReceiptCode, str] = {
    ReceiptCode.LINE_TOO_LONG: "The line is too long.",
    ReceiptCode.INVALID_UTF8: "The line is not UTF-8.",
    ReceiptCode.MALFORMED_NDJSON: "The line is not one JSON object.",
    ReceiptCode.LONE_SURROGATE: "A string contains half of a surrogate pair.",
    ReceiptCode.NUL_CHARACTER: "A string or member name contains U+0000, which cannot be stored.",
    ReceiptCode.NESTED_TOO_DEEPLY: "Arrays and objects are nested more than 64 deep.",
    ReceiptCode.NUMBER_OUT_OF_RANGE: "A number does not fit 64 bits.",
    ReceiptCode.INVALID_ENVELOPE: "A member of the line's envelope is missing, unknown or of the wrong type.",
    ReceiptCode.INVALID_OP: "The op is neither upsert nor delete.",
    ReceiptCode.INVALID_EMITTED_AT: "emitted_at is not an RFC 3339 date-time with an offset.",
    ReceiptCode.CONNECTION_NOT_FOUND: "No connection has this id; create it with manage.py connect.",
    ReceiptCode.CONNECTION_NOT_WRITABLE: "The connection is revoked.",
    ReceiptCode.STREAM_NOT_DECLARED: "The source of the connection declares no such stream.",
    ReceiptCode.INVALID_RECORD_IDENTITY: "The key does not match the primary key fields.",
    ReceiptCode.INVALID_RECORD_KEY: "The key is missing, longer than 200 bytes, or contains a control character.",
    ReceiptCode.INVALID_RECORD: "The record does not match the schema of its stream.",
    ReceiptCode.APPEND_ONLY_CONFLICT: "The stream is append-only and has another record with this key. Send it with replace=true, or allow changes on the page of the connection.",
    ReceiptCode.NOT_STORABLE: "The database cannot store the record: it or one of its values is too large.",
    ReceiptCode.TOO_MANY_DELETIONS: "A collector deletes at most 50 records or a fifth of a stream a day; the owner can delete more.",
    ReceiptCode.SUPPRESSED: "The owner erased this record; it was not stored again.",
    ReceiptCode.DUPLICATE_KEY: "An earlier line of this import had the same key; this line replaced it.",
    ReceiptCode.TIME_NOT_USED: "A value is not the time that its field declares: it is stored, and left out of filters, order and time ranges.",
}


@dataclass(frozen=True, slots=True)
class Receipt:
    """Result of one line. ``line`` counts from 1.

    ``path`` is a JSON path of declared names, ``reason`` a JSON Schema keyword.
    """

    line: int
    code: ReceiptCode
    path: str | None = None
    reason: str | None = None
    receipt_id: str = field(default_factory=lambda: "rcp_" + secrets.token_hex(12))


class LineRejectedError(Exception):
    """The current line cannot be stored."""

    def __init__(
        self, code: ReceiptCode, *, path: str | None = None, reason: str | None = None
    ) -> None:
        super().__init__(code)
        self.code = code
        self.path = path
        self.reason = reason


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
