"""Record refused calls for the owner, without request contents, and offer to ask for permission.

Of the request, only the name of a known parameter and declared names are stored.
"""

import logging

from django.conf import settings
from django.db import Error
from django.urls import reverse
from django.utils import timezone

from evidence.access.gate import Gate
from evidence.access.grant_text import CLAUSE_BY_CODE, explain_refusal
from evidence.access.owner_notices import RefusedCallDetails, store_refused_call
from evidence.access.permission_requests import request_permission, requestable
from evidence.access.scope import Scope
from evidence.errors import ApiException, Code

logger = logging.getLogger(__name__)
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
