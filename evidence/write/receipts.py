"""Receipts for lines that were rejected or adjusted; a receipt never quotes the line."""

import secrets
from dataclasses import dataclass, field
from enum import StrEnum


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
