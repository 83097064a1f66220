"""Render the error body (contract 4), and record refusals.

An error is raised where it is detected, and only this module makes a response of it. A refused call
is recorded for the owner without request contents: only the name of a known parameter and declared
names.
"""

import logging
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.core.exceptions import SuspiciousOperation
from django.db import DatabaseError, Error, InterfaceError, OperationalError
from django.http import Http404
from django.urls import reverse
from django.utils import timezone
from psycopg.errors import QueryCanceled
from rest_framework import exceptions
from rest_framework.response import Response

from evidence.access.gate import Gate
from evidence.access.grant_lifecycle import request_permission, requestable
from evidence.access.grant_text import CLAUSE_BY_CODE, explain_refusal
from evidence.access.owner_notices import RefusedCallDetails, store_refused_call
from evidence.access.scope import Scope
from evidence.errors import (
    ApiException,
    Code,
    InvalidRequest,
    NotFound,
    QueryTimeout,
    ServiceUnavailable,
)

logger = logging.getLogger(__name__)

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
    return ERROR_TYPES.get(code.status, "api_error")


def handle_exception(error: Exception, context: Mapping[str, Any]) -> Response:
    """Render the error of a view under `/v1`, as DRF's exception handler."""
    api_error = to_api_exception(error)
    context["view"].error = api_error
    request_id = getattr(context["view"], "request_id", "")
    response = Response(error_body(api_error, request_id=request_id), status=api_error.code.status)
    if response.status_code == 429:
        response["Retry-After"] = str(api_error.extra.get("retry_after", 60))
    elif response.status_code == 503:
        response["Retry-After"] = RETRY_SECONDS
    return response


PATH_PARAMETERS = frozenset({"stream", "record_id", "connection_id", "PDPP-Version"})


def record_refused_call(
    scope: Scope | None,
    error: ApiException,
    *,
    route: str,
    request_id: str,
    stream: str,
    parameters: frozenset[str],
) -> None:
    """Store a refused call of a client; `scope` is None if its token was rejected.

    `stream` is the name in the path, `parameters` are those of the route.
    """
    if scope is None:
        record_rejected_token(error, route=route, request_id=request_id)
        return
    if scope.client_id is None:
        return
    base = (error.param or "").partition("[")[0]
    try:
        declared = {
            name for source in Gate(scope).sources for name in source.declared.declaration.streams
        }
        named = stream if stream in declared else ""
        _store(
            RefusedCallDetails(
                owner_id=scope.owner_id,
                client_id=scope.client_id,
                token_id=scope.token_id,
                request_id=request_id,
                route=route,
                code=error.code,
                param=base if base in parameters | PATH_PARAMETERS else "",
                stream=named,
                clause=explain_refusal(error, scope, stream=named, declared=declared),
            )
        )
    except Error as database_error:
        _log_failure(database_error)


def permission_offer(scope: Scope, error: ApiException) -> dict[str, object]:
    """Return ``missing``, ``ask_url`` and ``next_step`` of an error that the owner can lift, or nothing.

    Both depend on declarations, grants and answers only. Call after the transaction of the read has
    ended; a database error leaves out the link.
    """
    missing = requestable(error, scope)
    if missing is None:
        return {}
    members: dict[str, object] = {"connector_key": missing.connector_key, "stream": missing.stream}
    if missing.fields is not None:
        members["fields"] = list(missing.fields)
    token = None
    try:
        package_id = str(scope.package_id)
        token = request_permission(missing, package_id=package_id, now=timezone.now())
    except Error as database_error:
        _log_failure(database_error)
    if token is None:
        return {"missing": members}
    url = f"{settings.PDPP_PUBLIC_URL}{reverse('permission-request', args=[token])}"
    allow = f"The owner can allow this at {url} ; then call again."
    steps = [str(error.extra["next_step"]), allow] if "next_step" in error.extra else [allow]
    return {"missing": members, "ask_url": url, "next_step": " ".join(steps)}


def record_rejected_token(error: ApiException, *, route: str, request_id: str) -> None:
    """Store a call whose token was rejected, if the token is a known client's."""
    if error.caller is None:
        return
    owner_id, client_id, token_id = error.caller
    is_about_token = error.code is Code.AUTHENTICATION_ERROR
    try:
        _store(
            RefusedCallDetails(
                owner_id=owner_id,
                client_id=client_id,
                token_id=token_id,
                request_id=request_id,
                route=route,
                code=error.code,
                clause=error.message if is_about_token else CLAUSE_BY_CODE.get(error.code, ""),
            )
        )
    except Error as database_error:
        _log_failure(database_error)


def _store(call: RefusedCallDetails) -> None:
    store_refused_call(call, now=timezone.now())


def _log_failure(error: Error) -> None:
    logger.warning("a refused call or request was not stored: %s", type(error).__name__)
