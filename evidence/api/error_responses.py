"""Map error codes to HTTP statuses and types, and render the error body (contract 4).

An error is raised where it is detected; only this module knows HTTP statuses.
"""

import logging
from collections.abc import Mapping
from typing import Any

from django.core.exceptions import SuspiciousOperation
from django.db import DatabaseError, InterfaceError, OperationalError
from django.http import Http404
from psycopg.errors import QueryCanceled
from rest_framework import exceptions
from rest_framework.response import Response

from evidence.errors import (
    ApiException,
    Code,
    InvalidRequest,
    NotFound,
    QueryTimeout,
    ServiceUnavailable,
)

logger = logging.getLogger(__name__)

STATUS: Mapping[Code, int] = {
    Code.CONNECTOR_INVALID: 400,
    Code.CONNECTOR_MISMATCH: 400,
    Code.INVALID_ARGUMENT: 400,
    Code.INVALID_CURSOR: 400,
    Code.INVALID_EXPAND: 400,
    Code.INVALID_FIELD_PATH: 400,
    Code.INVALID_REQUEST: 400,
    Code.INVALID_SORT: 400,
    Code.INVALID_WINDOW: 400,
    Code.UNKNOWN_FIELD: 400,
    Code.UNSUPPORTED_VERSION: 400,
    Code.AUTHENTICATION_ERROR: 401,
    Code.FIELD_NOT_GRANTED: 403,
    Code.GRANT_CONSUMED: 403,
    Code.GRANT_EXPIRED: 403,
    Code.GRANT_INVALID: 403,
    Code.GRANT_PAUSED: 403,
    Code.GRANT_REVOKED: 403,
    Code.GRANT_STREAM_NOT_ALLOWED: 403,
    Code.PERMISSION_ERROR: 403,
    Code.BLOB_NOT_FOUND: 404,
    Code.CONNECTION_NOT_FOUND: 404,
    Code.FIELD_NOT_FOUND: 404,
    Code.NOT_FOUND: 404,
    Code.QUERY_NOT_FOUND: 404,
    Code.STREAM_NOT_DECLARED: 404,
    Code.METHOD_NOT_ALLOWED: 405,
    Code.NOT_ACCEPTABLE: 406,
    Code.UNSUPPORTED_MEDIA_TYPE: 415,
    Code.AMBIGUOUS_CONNECTION: 409,
    Code.AMBIGUOUS_SCHEMA_DETAIL: 409,
    Code.CONNECTION_NOT_WRITABLE: 409,
    Code.INVALID_STATE: 409,
    Code.CURSOR_EXPIRED: 410,
    Code.RESOURCE_LIMIT: 413,
    Code.RANGE_NOT_SATISFIABLE: 416,
    Code.MISDIRECTED_REQUEST: 421,
    Code.RATE_LIMIT_EXCEEDED: 429,
    Code.TOO_MANY_REQUESTS: 429,
    Code.INTERNAL_ERROR: 500,
    Code.INGEST_STORAGE_ERROR: 503,
    Code.QUERY_TIMEOUT: 503,
    Code.SERVICE_UNAVAILABLE: 503,
}

NARROW_QUERY_HINT = (
    "Request less at once: one stream, a shorter time range, fewer words or a smaller limit."
)
RETRY_SECONDS = "2"
"""Retry-After of a response that failed because the database did not answer."""

ERROR_TYPES: Mapping[int, str] = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    410: "gone_error",
    413: "request_entity_too_large_error",
    429: "rate_limit_error",
}


class MethodNotAllowed(ApiException):
    """This route does not support this method."""

    code = Code.METHOD_NOT_ALLOWED


class NotAcceptable(ApiException):
    """Responses are application/json."""

    code = Code.NOT_ACCEPTABLE


class UnsupportedMediaType(ApiException):
    """This route does not accept this media type of the request body."""

    code = Code.UNSUPPORTED_MEDIA_TYPE


class InternalError(ApiException):
    """Internal server error; the log has details under the request id."""


_FRAMEWORK_ERRORS: tuple[tuple[type[Exception], type[ApiException]], ...] = (
    (exceptions.MethodNotAllowed, MethodNotAllowed),
    (exceptions.NotAcceptable, NotAcceptable),
    (exceptions.UnsupportedMediaType, UnsupportedMediaType),
    (exceptions.ParseError, InvalidRequest),
    (Http404, NotFound),
    (SuspiciousOperation, InvalidRequest),
    (OperationalError, ServiceUnavailable),
    (InterfaceError, ServiceUnavailable),
)


def to_api_exception(error: Exception) -> ApiException:
    """Convert any exception to an ApiException; log an unexpected one and return InternalError."""
    if isinstance(error, ApiException):
        return error
    if isinstance(error.__cause__, QueryCanceled):
        return QueryTimeout(next_step=NARROW_QUERY_HINT)
    for framework_class, error_class in _FRAMEWORK_ERRORS:
        if isinstance(error, framework_class):
            if error_class is ServiceUnavailable:
                logger.error("the database did not answer: %s", type(error).__name__)
            return error_class()
    logger.error("unexpected error", exc_info=error)
    return InternalError()


def ledger_failure(error: Exception) -> ApiException:
    """Return the error that replaces a response that could not be recorded in the ledger.

    A database error is temporary. An unknown response type is a bug.
    """
    if isinstance(error, ApiException) or isinstance(error.__cause__, QueryCanceled):
        return to_api_exception(error)
    if isinstance(error, DatabaseError | InterfaceError):
        return ServiceUnavailable(next_step="Try again in a moment.")
    return InternalError()


def error_body(error: ApiException, *, request_id: str) -> dict[str, Any]:
    """Return `{"error": {type, code, message, param?, request_id, …}}`."""
    members: dict[str, Any] = {
        "type": error_type(error.code),
        "code": str(error.code),
        "message": error.message,
    }
    if error.param is not None:
        members["param"] = error.param
    return {"error": members | error.extra | {"request_id": request_id}}


def error_type(code: Code) -> str:
    return ERROR_TYPES.get(STATUS[code], "api_error")


def handle_exception(error: Exception, context: Mapping[str, Any]) -> Response:
    """Render the error of a view under `/v1`, as DRF's exception handler."""
    api_error = to_api_exception(error)
    context["view"].error = api_error
    request_id = getattr(context["view"], "request_id", "")
    response = Response(error_body(api_error, request_id=request_id), status=STATUS[api_error.code])
    if response.status_code == 429:
        response["Retry-After"] = str(api_error.extra.get("retry_after", 60))
    elif response.status_code == 503:
        response["Retry-After"] = RETRY_SECONDS
    return response
