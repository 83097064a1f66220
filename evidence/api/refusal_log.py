"""Why a call was refused, for the owner to look up: taken from the refusal, never from the request.

What is kept of the request are a name of a parameter that the route knows and of a stream that a
granted source declares; any other name might be anything.
"""

import logging

from django.db import Error
from django.utils import timezone

from evidence.access.gate import Gate
from evidence.access.grant_text import BY_CODE, clause_of
from evidence.access.owner_notices import Call, write_refused
from evidence.access.scope import Scope
from evidence.errors import Code, Refusal

logger = logging.getLogger(__name__)
OF_PATHS = frozenset({"stream", "record_id", "connection_id", "PDPP-Version"})


def note_refused(
    scope: Scope,
    refusal: Refusal,
    *,
    route: str,
    request_id: str,
    stream: str,
    known: frozenset[str],
) -> None:
    """A refused call of a client. ``stream`` is what the path says, ``known`` the route's parameters."""
    if scope.client_id is None:
        return
    base = (refusal.param or "").partition("[")[0]
    try:
        declared = {
            name for source in Gate(scope).sources for name in source.declared.declaration.streams
        }
        named = stream if stream in declared else ""
        _write(
            Call(
                owner_id=scope.owner_id,
                client_id=scope.client_id,
                token_id=scope.token_id,
                request_id=request_id,
                route=route,
                code=refusal.code,
                param=base if base in known | OF_PATHS else "",
                stream=named,
                clause=clause_of(refusal, scope, stream=named, declared=declared),
            )
        )
    except Error as error:
        logger.warning("a refusal was not written down: %s", type(error).__name__)


def note_unlet(refusal: Refusal, *, route: str, request_id: str) -> None:
    """A call whose bearer is a known client's and was not let in. Of others nobody is told."""
    if refusal.caller is None:
        return
    owner_id, client_id, token_id = refusal.caller
    is_about_token = refusal.code is Code.AUTHENTICATION_ERROR
    try:
        _write(
            Call(
                owner_id=owner_id,
                client_id=client_id,
                token_id=token_id,
                request_id=request_id,
                route=route,
                code=refusal.code,
                clause=refusal.message if is_about_token else BY_CODE.get(refusal.code, ""),
            )
        )
    except Error as error:
        logger.warning("a refusal was not written down: %s", type(error).__name__)


def _write(call: Call) -> None:
    write_refused(call, now=timezone.now())
