"""Error codes on the wire and the base class ApiException.

`evidence.api.error_responses` maps each code to its HTTP status and error type.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Self


class Code(StrEnum):
    """Values of `error.code`, grouped by the HTTP status of contract 4."""

    # 400
    CONNECTOR_INVALID = "connector_invalid"
    CONNECTOR_MISMATCH = "connector_instance_connector_mismatch"
    INVALID_ARGUMENT = "invalid_argument"
    INVALID_CURSOR = "invalid_cursor"
    INVALID_EXPAND = "invalid_expand"
    INVALID_FIELD_PATH = "invalid_field_path"
    INVALID_REQUEST = "invalid_request"
    INVALID_SORT = "invalid_sort"
    INVALID_WINDOW = "invalid_window"
    UNKNOWN_FIELD = "unknown_field"
    UNSUPPORTED_VERSION = "unsupported_version"
    # 401
    AUTHENTICATION_ERROR = "authentication_error"
    # 403
    FIELD_NOT_GRANTED = "field_not_granted"
    GRANT_CONSUMED = "grant_consumed"
    GRANT_EXPIRED = "grant_expired"
    GRANT_INVALID = "grant_invalid"
    GRANT_PAUSED = "grant_paused"
    GRANT_REVOKED = "grant_revoked"
    GRANT_STREAM_NOT_ALLOWED = "grant_stream_not_allowed"
    PERMISSION_ERROR = "permission_error"
    # 404
    BLOB_NOT_FOUND = "blob_not_found"
    CONNECTION_NOT_FOUND = "connection_not_found"
    FIELD_NOT_FOUND = "field_not_found"
    NOT_FOUND = "not_found"
    QUERY_NOT_FOUND = "query_not_found"
    SEARCH_MODE_UNAVAILABLE = "search_mode_unavailable"
    STREAM_NOT_DECLARED = "stream_not_declared"
    # 405, 406, 415
    METHOD_NOT_ALLOWED = "method_not_allowed"
    NOT_ACCEPTABLE = "not_acceptable"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    # 409
    AMBIGUOUS_CONNECTION = "ambiguous_connection"
    AMBIGUOUS_SCHEMA_DETAIL = "ambiguous_schema_detail"
    INVALID_STATE = "invalid_state"
    CONNECTION_NOT_WRITABLE = "connector_instance_not_writable"
    # 410
    CURSOR_EXPIRED = "cursor_expired"
    # 413
    RESOURCE_LIMIT = "resource_limit"
    # 416
    RANGE_NOT_SATISFIABLE = "range_not_satisfiable"
    # 421, 422
    MISDIRECTED_REQUEST = "misdirected_request"
    FIELD_NOT_TEXT = "field_not_text"
    # 429
    RATE_LIMIT_EXCEEDED = "rate_limit_exceeded"
    TOO_MANY_REQUESTS = "too_many_requests"
    # 500
    INTERNAL_ERROR = "internal_error"
    # 503
    INGEST_STORAGE_ERROR = "ingest_batch_storage_error"
    QUERY_TIMEOUT = "query_timeout"
    SERVICE_UNAVAILABLE = "service_unavailable"
    # 507
    STORAGE_FULL = "storage_full"


@dataclass(frozen=True, slots=True)
class MissingAccess:
    """What one grant lacks, judged by the declaration alone; ``fields`` is None for a whole stream."""

    grant_id: str
    connector_key: str
    stream: str
    fields: tuple[str, ...] | None = None


class ApiException(Exception):  # noqa: N818 named like DRF's APIException
    """The request was rejected.

    `param` names the invalid parameter. `extra` members are added to the error body (`retry_with`,
    `next_step`, …); their values must be JSON.
    """

    code: ClassVar[Code] = Code.INTERNAL_ERROR
    clause: str = ""
    """The clause of a grant that caused the error. Only the owner sees it, never the client."""
    caller: tuple[str, str, str] | None = None
    """Owner, client and token ids of a rejected but known token. Never sent to the client."""
    missing: MissingAccess | None = None
    """What the owner could add to the grant, so that the call succeeds."""
    disclosed_records: tuple[tuple[str, str, str], ...] = ()
    """(connection_id, stream, record_key) of visible records that the error discloses, for the ledger."""
    disclosed_fields: frozenset[str] = frozenset()
    """The fields of these records that the error discloses; none if only that they exist."""

    def __init__(
        self, *, message: str | None = None, param: str | None = None, **extra: object
    ) -> None:
        self.message = message or self.default_message()
        self.param = param
        self.extra: dict[str, object] = extra
        super().__init__(self.message)

    def with_clause(self, clause: str) -> Self:
        """Set the clause that caused the error, and return the error."""
        self.clause = clause
        return self

    def disclosing(self, *records: tuple[str, str, str], fields: Iterable[str] = ()) -> Self:
        """Set the visible records, and their fields, that the error discloses, and return the error."""
        self.disclosed_records, self.disclosed_fields = records, frozenset(fields)
        return self

    @classmethod
    def default_message(cls) -> str:
        # `python -OO` strips docstrings; the code is the fallback.
        return (cls.__doc__ or cls.code).partition("\n")[0]
