"""What became of a line that was not simply stored. A receipt never quotes the line."""

import secrets
from dataclasses import dataclass, field
from enum import StrEnum


class Code(StrEnum):
    """Why a line has a receipt."""

    # The text of the line
    LINE_TOO_LONG = "line_too_long"
    INVALID_UTF8 = "invalid_utf8"
    MALFORMED_NDJSON = "malformed_ndjson"
    LONE_SURROGATE = "lone_surrogate"
    NUL_CHARACTER = "nul_character"
    NESTED_TOO_DEEPLY = "nested_too_deeply"
    NUMBER_OUT_OF_RANGE = "number_out_of_range"
    # The members around the record
    INVALID_ENVELOPE = "invalid_envelope"
    INVALID_OP = "invalid_op"
    INVALID_EMITTED_AT = "invalid_emitted_at"
    # Where it is to go
    CONNECTION_NOT_FOUND = "connector_instance_not_found"
    CONNECTION_NOT_WRITABLE = "connector_instance_not_writable"
    STREAM_NOT_DECLARED = "stream_not_declared"
    # The record
    INVALID_RECORD_IDENTITY = "invalid_record_identity"
    INVALID_RECORD_KEY = "invalid_record_key"
    INVALID_RECORD = "invalid_record"
    APPEND_ONLY_CONFLICT = "append_only_conflict"
    NOT_STORABLE = "not_storable"

    # Nothing is wrong with the line, but the owner erased this record and it stays erased
    SUPPRESSED = "suppressed"
    # Stored: an earlier line of the same import said something else, and this one holds
    DUPLICATE_KEY = "duplicate_key"


MEANINGS: dict[Code, str] = {
    Code.LINE_TOO_LONG: "The line is longer than this way in takes.",
    Code.INVALID_UTF8: "The line is not UTF-8.",
    Code.MALFORMED_NDJSON: "The line is not one JSON object.",
    Code.LONE_SURROGATE: "A string holds half of a surrogate pair.",
    Code.NUL_CHARACTER: "A string or member name holds U+0000, which the store cannot keep.",
    Code.NESTED_TOO_DEEPLY: "Arrays and objects are nested more than 64 deep.",
    Code.NUMBER_OUT_OF_RANGE: "A number does not fit 64 bits.",
    Code.INVALID_ENVELOPE: "A member beside the record is missing, unknown or of a wrong type.",
    Code.INVALID_OP: "The op is neither upsert nor delete.",
    Code.INVALID_EMITTED_AT: "emitted_at is not an RFC 3339 date-time with its offset.",
    Code.CONNECTION_NOT_FOUND: "No connection has this id; make it first: manage.py connect.",
    Code.CONNECTION_NOT_WRITABLE: "The connection is revoked.",
    Code.STREAM_NOT_DECLARED: "The source of the connection declares no such stream.",
    Code.INVALID_RECORD_IDENTITY: "The key is not what the primary key fields say.",
    Code.INVALID_RECORD_KEY: "The key is missing, over 200 bytes, or has a control character.",
    Code.INVALID_RECORD: "The record does not match the schema of its stream.",
    Code.APPEND_ONLY_CONFLICT: "The stream only appends, and holds another record of this key.",
    Code.NOT_STORABLE: "The database cannot hold the record: a value or the whole is too large.",
    Code.SUPPRESSED: "The owner erased this record, so it was not stored again.",
    Code.DUPLICATE_KEY: "An earlier line of this import had the same key; this line holds now.",
}


def _receipt_id() -> str:
    return "rcp_" + secrets.token_hex(12)


@dataclass(frozen=True, slots=True)
class Receipt:
    """One line that has something to be said of it. ``line`` counts from 1; ``path`` is a JSON
    path made of declared names, ``reason`` a keyword of JSON Schema."""

    line: int
    code: Code
    path: str | None = None
    reason: str | None = None
    receipt_id: str = field(default_factory=_receipt_id)


class Rejected(Exception):  # noqa: N818 - it is one line's end, not a failure of ours
    """The line in hand cannot be stored."""

    def __init__(self, code: Code, *, path: str | None = None, reason: str | None = None) -> None:
        super().__init__(code)
        self.code = code
        self.path = path
        self.reason = reason
