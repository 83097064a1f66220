"""Errors that a request can raise, each with its wire code and default message.

An error is raised where its cause is detected. `evidence.api.error_responses` renders it. The first
docstring line of a class is its default message, so it addresses the client and contains no record text.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Self

from evidence import limits


class Code(StrEnum):
    """Values of `error.code`, each with its HTTP status (contract 4)."""

    status: int

    def __new__(cls, value: str, status: int) -> Self:
        member = str.__new__(cls, value)
        member._value_, member.status = value, status
        return member

    CONNECTOR_INVALID = "connector_invalid", 400
    CONNECTOR_MISMATCH = "connector_instance_connector_mismatch", 400
    INVALID_ARGUMENT = "invalid_argument", 400
    INVALID_CURSOR = "invalid_cursor", 400
    INVALID_EXPAND = "invalid_expand", 400
    INVALID_FIELD_PATH = "invalid_field_path", 400
    INVALID_REQUEST = "invalid_request", 400
    INVALID_SORT = "invalid_sort", 400
    INVALID_WINDOW = "invalid_window", 400
    UNKNOWN_FIELD = "unknown_field", 400
    UNSUPPORTED_VERSION = "unsupported_version", 400
    AUTHENTICATION_ERROR = "authentication_error", 401
    FIELD_NOT_GRANTED = "field_not_granted", 403
    GRANT_CONSUMED = "grant_consumed", 403
    GRANT_EXPIRED = "grant_expired", 403
    GRANT_INVALID = "grant_invalid", 403
    GRANT_PAUSED = "grant_paused", 403
    GRANT_REVOKED = "grant_revoked", 403
    GRANT_STREAM_NOT_ALLOWED = "grant_stream_not_allowed", 403
    PERMISSION_ERROR = "permission_error", 403
    BLOB_NOT_FOUND = "blob_not_found", 404
    CONNECTION_NOT_FOUND = "connection_not_found", 404
    FIELD_NOT_FOUND = "field_not_found", 404
    NOT_FOUND = "not_found", 404
    QUERY_NOT_FOUND = "query_not_found", 404
    SEARCH_MODE_UNAVAILABLE = "search_mode_unavailable", 404
    STREAM_NOT_DECLARED = "stream_not_declared", 404
    METHOD_NOT_ALLOWED = "method_not_allowed", 405
    NOT_ACCEPTABLE = "not_acceptable", 406
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type", 415
    AMBIGUOUS_CONNECTION = "ambiguous_connection", 409
    AMBIGUOUS_SCHEMA_DETAIL = "ambiguous_schema_detail", 409
    INVALID_STATE = "invalid_state", 409
    CONNECTION_NOT_WRITABLE = "connector_instance_not_writable", 409
    CURSOR_EXPIRED = "cursor_expired", 410
    RESOURCE_LIMIT = "resource_limit", 413
    RANGE_NOT_SATISFIABLE = "range_not_satisfiable", 416
    MISDIRECTED_REQUEST = "misdirected_request", 421
    FIELD_NOT_TEXT = "field_not_text", 422
    RATE_LIMIT_EXCEEDED = "rate_limit_exceeded", 429
    TOO_MANY_REQUESTS = "too_many_requests", 429
    INTERNAL_ERROR = "internal_error", 500
    INGEST_STORAGE_ERROR = "ingest_batch_storage_error", 503
    QUERY_TIMEOUT = "query_timeout", 503
    SERVICE_UNAVAILABLE = "service_unavailable", 503
    STORAGE_FULL = "storage_full", 507


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


# Authentication


class AuthenticationRequired(ApiException):
    """Bearer token required."""

    code = Code.AUTHENTICATION_ERROR


class WrongTokenKind(ApiException):
    """This kind of token is not accepted here."""

    code = Code.PERMISSION_ERROR


# Grants


class GrantExpired(ApiException):
    """The grant behind this token has expired."""

    code = Code.GRANT_EXPIRED


class GrantConsumed(GrantExpired):
    """This grant was for a single use and closed ten minutes after its first response."""

    code = Code.GRANT_CONSUMED


class GrantPaused(ApiException):
    """This access is paused until the owner resumes it."""

    code = Code.GRANT_PAUSED


class GrantRevoked(ApiException):
    """The grant behind this token has been revoked."""

    code = Code.GRANT_REVOKED


class StreamNotGranted(ApiException):
    """The stream is outside the grant."""

    code = Code.GRANT_STREAM_NOT_ALLOWED


class FieldNotGranted(ApiException):
    """The field is outside the grant."""

    code = Code.FIELD_NOT_GRANTED


# Missing, or hidden from this client


class NotFound(ApiException):
    """Nothing with this name is visible to this token."""

    code = Code.NOT_FOUND


class ConnectionNotFound(ApiException):
    """No connection with this id is visible to this token."""

    code = Code.CONNECTION_NOT_FOUND


class StreamNotDeclared(ApiException):
    """The connector declares no stream with this name."""

    code = Code.STREAM_NOT_DECLARED


class FieldNotFound(ApiException):
    """The record has no field with this name."""

    code = Code.FIELD_NOT_FOUND


class QueryNotFound(ApiException):
    """The requested text does not occur in the field."""

    code = Code.QUERY_NOT_FOUND


class SearchModeUnavailable(ApiException):
    """This server searches no stream of this token by meaning."""

    code = Code.SEARCH_MODE_UNAVAILABLE


class FieldNotText(ApiException):
    """The value is a number or a boolean, which has no windows; read the record."""

    code = Code.FIELD_NOT_TEXT


class BlobNotFound(ApiException):
    """No blob with this id is visible to this token."""

    code = Code.BLOB_NOT_FOUND


# Ambiguous requests


class _Ambiguous(ApiException):
    """More than one connection matches."""

    def __init__(
        self,
        candidates: Sequence[Mapping[str, object]],
        *,
        message: str | None = None,
        param: str = "connection_id",
        **extra: object,
    ) -> None:
        """Initialize with the matching connections, in display order.

        `candidates`: {connection_id, display_name, connector_key, grant_id, stream?}. Pass only
        connections that the client may see.
        """
        listed = [dict(candidate) for candidate in candidates[: limits.CANDIDATES_MAX]]
        omitted = len(candidates) - len(listed)
        counts: dict[str, object] = {
            "available_connection_count": len(candidates),
            "available_connections_truncated": omitted > 0,
            "available_connections_omitted": omitted,
            "discovery_hint": "GET /v1/schema lists every granted connection.",
        }
        super().__init__(
            message=message,
            param=param,
            retry_with=param,
            available_connections=listed,
            **(counts | extra),
        )


class AmbiguousConnection(_Ambiguous):
    """More than one connection matches; choose one with connection_id."""

    code = Code.AMBIGUOUS_CONNECTION


class AmbiguousSchemaDetail(_Ambiguous):
    """The full schema covers one connection at a time; choose one with connection_id."""

    code = Code.AMBIGUOUS_SCHEMA_DETAIL


# Invalid requests


class InvalidRequest(ApiException):
    """The request is not valid."""

    code = Code.INVALID_REQUEST


class InvalidArgument(ApiException):
    """The value of a parameter is not valid."""

    code = Code.INVALID_ARGUMENT


class UnknownField(ApiException):
    """The stream declares no field with this name."""

    code = Code.UNKNOWN_FIELD


class InvalidSort(ApiException):
    """The stream does not support this sort order."""

    code = Code.INVALID_SORT


class InvalidExpand(ApiException):
    """The relation does not support this expansion."""

    code = Code.INVALID_EXPAND


class InvalidFieldPath(ApiException):
    """The field path is missing or does not name a top-level field."""

    code = Code.INVALID_FIELD_PATH


class InvalidWindow(ApiException):
    """The window is not valid."""

    code = Code.INVALID_WINDOW


class InvalidCursor(ApiException):
    """The cursor is invalid or belongs to another request."""

    code = Code.INVALID_CURSOR


class CursorExpired(ApiException):
    """The cursor is older than the stored history; start again without it."""

    code = Code.CURSOR_EXPIRED


class UnsupportedVersion(ApiException):
    """This PDPP-Version is not supported."""

    code = Code.UNSUPPORTED_VERSION


class MisdirectedRequest(ApiException):
    """This server does not serve the requested host."""

    code = Code.MISDIRECTED_REQUEST


# Writes


class ConnectorMismatch(ApiException):
    """The connection belongs to another connector."""

    code = Code.CONNECTOR_MISMATCH


class ConnectorInvalid(ApiException):
    """The source declaration is not valid."""

    code = Code.CONNECTOR_INVALID


class ConnectionNotWritable(ApiException):
    """The connection does not accept records in its current state."""

    code = Code.CONNECTION_NOT_WRITABLE


# Limits and failures of the server


class ResourceLimit(ApiException):
    """The request is larger than this server accepts."""

    code = Code.RESOURCE_LIMIT


class RangeNotSatisfiable(ApiException):
    """The range is outside the blob."""

    code = Code.RANGE_NOT_SATISFIABLE


class RateLimitExceeded(ApiException):
    """Too many requests; try again later."""

    code = Code.RATE_LIMIT_EXCEEDED


class IngestStorageError(ApiException):
    """The batch was not stored; it is safe to send it again."""

    code = Code.INGEST_STORAGE_ERROR


class StorageFull(ApiException):
    """The records and files of this owner have reached the disk limit that was set for them."""

    code = Code.STORAGE_FULL


class QueryTimeout(ApiException):
    """The database query exceeded the time limit of a request."""

    code = Code.QUERY_TIMEOUT


class ServiceUnavailable(ApiException):
    """The server is not ready."""

    code = Code.SERVICE_UNAVAILABLE
