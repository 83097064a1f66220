"""Everything the product may refuse, and the code each refusal carries on the wire.

A refusal is raised where the reason is detected and rendered once, in `evidence.api.error_responses`, which
maps every `Code` to its HTTP status and error type. The class docstring is the default message, so
it is written for the reader of the error: one sentence, and never record text.
"""

from collections.abc import Mapping, Sequence

from evidence import limits
from evidence.errors.codes import Code as Code
from evidence.errors.codes import Refusal as Refusal

# Who is asking


class AuthenticationRequired(Refusal):
    """Bearer token required."""

    code = Code.AUTHENTICATION_ERROR


class WrongTokenKind(Refusal):
    """This kind of token is not accepted here."""

    code = Code.PERMISSION_ERROR


# What the grant says


class GrantExpired(Refusal):
    """The grant behind this token has expired."""

    code = Code.GRANT_EXPIRED


class GrantConsumed(GrantExpired):
    """This grant was for a single use: it closed ten minutes after its first answer."""

    code = Code.GRANT_CONSUMED


class GrantPaused(Refusal):
    """This access is paused; it works again when the owner resumes it."""

    code = Code.GRANT_PAUSED


class GrantRevoked(Refusal):
    """The grant behind this token has been revoked."""

    code = Code.GRANT_REVOKED


class PackageRevoked(Refusal):
    """No grant of this package is usable any more."""

    code = Code.PACKAGE_REVOKED


class StreamNotGranted(Refusal):
    """The stream is outside the grant."""

    code = Code.GRANT_STREAM_NOT_ALLOWED


class FieldNotGranted(Refusal):
    """The field is outside the grant."""

    code = Code.FIELD_NOT_GRANTED


# What does not exist, or must look as if it did not


class NotFound(Refusal):
    """Nothing of that name is visible here."""

    code = Code.NOT_FOUND


class ConnectionNotFound(Refusal):
    """No connection of that id is visible here."""

    code = Code.CONNECTION_NOT_FOUND


class StreamNotDeclared(Refusal):
    """The connector declares no stream of that name."""

    code = Code.STREAM_NOT_DECLARED


class FieldNotFound(Refusal):
    """The record has no such field."""

    code = Code.FIELD_NOT_FOUND


class QueryNotFound(Refusal):
    """The text asked for does not occur in the field."""

    code = Code.QUERY_NOT_FOUND


class BlobNotFound(Refusal):
    """No blob of that id is visible here."""

    code = Code.BLOB_NOT_FOUND


# What must be said more precisely


class _Ambiguous(Refusal):
    """More than one connection is meant."""

    def __init__(
        self,
        candidates: Sequence[Mapping[str, object]],
        *,
        message: str | None = None,
        param: str = "connection_id",
        **extra: object,
    ) -> None:
        """`candidates`: {connection_id, display_name, connector_key, grant_id, stream?}, in the
        order in which to show them, and only what the caller may see."""
        shown = [dict(candidate) for candidate in candidates[: limits.CANDIDATES_MAX]]
        omitted = len(candidates) - len(shown)
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
            available_connections=shown,
            **(counts | extra),
        )


class AmbiguousConnection(_Ambiguous):
    """More than one connection matches; name one by connection_id."""

    code = Code.AMBIGUOUS_CONNECTION


class AmbiguousSchemaDetail(_Ambiguous):
    """The full schema is given for one source at a time; name one by connection_id."""

    code = Code.AMBIGUOUS_SCHEMA_DETAIL


# What is wrong with the request


class InvalidRequest(Refusal):
    """The request is not valid."""

    code = Code.INVALID_REQUEST


class InvalidArgument(Refusal):
    """The value of a parameter is not valid."""

    code = Code.INVALID_ARGUMENT


class UnknownField(Refusal):
    """The stream declares no such field."""

    code = Code.UNKNOWN_FIELD


class InvalidSort(Refusal):
    """The stream cannot be sorted like that."""

    code = Code.INVALID_SORT


class InvalidExpand(Refusal):
    """The relation cannot be expanded like that."""

    code = Code.INVALID_EXPAND


class InvalidFieldPath(Refusal):
    """The field path is missing or does not name a top-level field."""

    code = Code.INVALID_FIELD_PATH


class InvalidWindow(Refusal):
    """The window is not valid."""

    code = Code.INVALID_WINDOW


class InvalidCursor(Refusal):
    """The cursor is not one of ours, or belongs to another request."""

    code = Code.INVALID_CURSOR


class CursorExpired(Refusal):
    """The cursor is older than the history that is kept; start again."""

    code = Code.CURSOR_EXPIRED


class UnsupportedVersion(Refusal):
    """That PDPP-Version is not supported."""

    code = Code.UNSUPPORTED_VERSION


class MisdirectedRequest(Refusal):
    """This server does not answer for that host."""

    code = Code.MISDIRECTED_REQUEST


# Writing


class ConnectorMismatch(Refusal):
    """The connection is one of another connector."""

    code = Code.CONNECTOR_MISMATCH


class ConnectorInvalid(Refusal):
    """The source declaration is not valid."""

    code = Code.CONNECTOR_INVALID


class ConnectionNotWritable(Refusal):
    """The connection takes no records in its present state."""

    code = Code.CONNECTION_NOT_WRITABLE


# What the server cannot do now


class ResourceLimit(Refusal):
    """The request is larger than this server takes."""

    code = Code.RESOURCE_LIMIT


class RangeNotSatisfiable(Refusal):
    """The range lies outside the blob."""

    code = Code.RANGE_NOT_SATISFIABLE


class RateLimitExceeded(Refusal):
    """Too much was asked in too short a time."""

    code = Code.RATE_LIMIT_EXCEEDED


class IngestStorageError(Refusal):
    """The batch could not be stored; sending it again is safe."""

    code = Code.INGEST_STORAGE_ERROR


class QueryTimeout(Refusal):
    """The database took longer than a request may take."""

    code = Code.QUERY_TIMEOUT


class ServiceUnavailable(Refusal):
    """The server is not ready to answer."""

    code = Code.SERVICE_UNAVAILABLE
