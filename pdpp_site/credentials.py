"""Check a credential before a large body is read: one query, without the body."""

import secrets
from io import BytesIO

from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.core.handlers.wsgi import WSGIRequest
from django.db import Error
from django.http import HttpRequest, HttpResponse
from django_otp.middleware import OTPMiddleware
from rest_framework.request import Request

from evidence.access.scope import TokenKind
from evidence.api import error_responses
from evidence.api.authentication import BearerAuthentication
from evidence.api.refusal_log import note_unlet
from evidence.errors import Code, Refusal, WrongTokenKind
from mcp_adapter.inprocess import releasing
from owner.permissions import is_owner
from pdpp_site.wsgi_bridge import RequestBody, Scope, build_environ


class SignInRequired(Refusal):
    """Sign in, then send this again."""

    code = Code.PERMISSION_ERROR


def refuse_without_owner_token(scope: Scope) -> Refusal | None:
    """Return why the bearer may not write, or None. Runs in a thread."""
    try:
        _, authority = releasing(lambda: BearerAuthentication().authenticate(_request(scope)))
    except (Refusal, Error) as error:
        refusal = error_responses.as_refusal(error)
        request_id = f"req_{secrets.token_hex(10)}"
        releasing(lambda: note_unlet(refusal, route="rest", request_id=request_id))
        return refusal
    if authority.kind is not TokenKind.OWNER:
        return WrongTokenKind(message="Only the owner's own token may do this.")
    return None


def refuse_without_owner_session(scope: Scope) -> Refusal | None:
    """Return why the session may not send a large form, or None. Runs in a thread."""
    try:
        answer = releasing(lambda: _signed_in(_request(scope)._request))  # noqa: SLF001 - DRF's own name
    except Error as error:
        return error_responses.as_refusal(error)
    return None if getattr(answer, "status_code", None) == 204 else SignInRequired()


def _request(scope: Scope) -> Request:
    return Request(WSGIRequest(build_environ(scope, body=RequestBody(BytesIO(), 0))))


def _answer(request: HttpRequest) -> HttpResponse:
    return HttpResponse(status=204 if is_owner(request.user) else 403)


# The same middleware, in the same order, as in settings.
_signed_in = SessionMiddleware(AuthenticationMiddleware(OTPMiddleware(_answer)))
