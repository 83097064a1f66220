"""Errors that a request can raise, each with its wire code and default message.

An error is raised where its cause is detected. `evidence.api.error_responses` renders it. The first
docstring line of a class is its default message, so it addresses the client and contains no record text.
"""

from collections.abc import Mapping, Sequence

from evidence import limits
from evidence.errors.codes import ApiException as ApiException
from evidence.errors.codes import Code as Code
from evidence.errors.codes import MissingAccess as MissingAccess

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
