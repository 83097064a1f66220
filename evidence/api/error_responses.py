"""The error table: every code, its status and its type (contract 4), and the one renderer.

A refusal is raised where it is detected; this module is the only one that knows HTTP statuses.
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
    Code,
    InvalidRequest,
    NotFound,
    QueryTimeout,
    Refusal,
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
    Code.INVALID_RECORD: 400,
    Code.INVALID_RECORD_IDENTITY: 400,
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
    Code.GRANT_TIME_RANGE_EXCEEDED: 403,
    Code.INSUFFICIENT_SCOPE: 403,
    Code.PACKAGE_REVOKED: 403,
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

NARROWER = "Ask for less at once: one stream, a shorter time range, fewer words, a smaller limit."
RETRY_SECONDS = "2"
"""After so long whoever met a database that did not answer may ask again."""

TYPES: Mapping[int, str] = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    410: "gone_error",
    413: "request_entity_too_large_error",
    429: "rate_limit_error",
}


class MethodNotAllowed(Refusal):
    """This route does not answer that method."""

    code = Code.METHOD_NOT_ALLOWED


class NotAcceptable(Refusal):
    """Answers are application/json."""

    code = Code.NOT_ACCEPTABLE


class UnsupportedMediaType(Refusal):
    """The request body has a media type that this route does not take."""

    code = Code.UNSUPPORTED_MEDIA_TYPE


class InternalError(Refusal):
    """Something went wrong here; the request id finds it in the log."""


_FRAMEWORK: tuple[tuple[type[Exception], type[Refusal]], ...] = (
    (exceptions.MethodNotAllowed, MethodNotAllowed),
    (exceptions.NotAcceptable, NotAcceptable),
    (exceptions.UnsupportedMediaType, UnsupportedMediaType),
    (exceptions.ParseError, InvalidRequest),
    (Http404, NotFound),
    (SuspiciousOperation, InvalidRequest),
    (OperationalError, ServiceUnavailable),
    (InterfaceError, ServiceUnavailable),
)


def as_refusal(error: Exception) -> Refusal:
    """Whatever was raised, as one of ours; what nobody foresaw is logged and named internal."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error.__cause__, QueryCanceled):
        return QueryTimeout(next_step=NARROWER)
    for kind, refusal in _FRAMEWORK:
        if isinstance(error, kind):
            if refusal is ServiceUnavailable:
                logger.error("the database did not answer: %s", type(error).__name__)
            return refusal()
    logger.error("unforeseen error", exc_info=error)
    return InternalError()


def unwritten(error: Exception) -> Refusal:
    """Return the refusal in place of an answer that could not be written to the ledger.

    A database that fails may answer the next time; a kind of answer unknown to us will not.
    """
    if isinstance(error, Refusal) or isinstance(error.__cause__, QueryCanceled):
        return as_refusal(error)
    if isinstance(error, DatabaseError | InterfaceError):
        return ServiceUnavailable(next_step="Ask again in a moment.")
    return InternalError()


def body(refusal: Refusal, *, request_id: str) -> dict[str, Any]:
    """``{"error": {type, code, message, param?, request_id, …}}``."""
    error: dict[str, Any] = {
        "type": error_type(refusal.code),
        "code": str(refusal.code),
        "message": refusal.message,
    }
    if refusal.param is not None:
        error["param"] = refusal.param
    return {"error": error | refusal.extra | {"request_id": request_id}}


def error_type(code: Code) -> str:
    return TYPES.get(STATUS[code], "api_error")


def handle(error: Exception, context: Mapping[str, Any]) -> Response:
    """DRF's exception handler for every view under ``/v1``."""
    refusal = as_refusal(error)
    context["view"].refusal = refusal
    request_id = getattr(context["view"], "request_id", "")
    response = Response(body(refusal, request_id=request_id), status=STATUS[refusal.code])
    if response.status_code == 429:
        response["Retry-After"] = str(refusal.extra.get("retry_after", 60))
    elif response.status_code == 503:
        response["Retry-After"] = RETRY_SECONDS
    return response
