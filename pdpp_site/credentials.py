"""Check the credential of a request before its large body is read. One query."""

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
from evidence.api.refusal_log import record_rejected_token
from evidence.errors import ApiException, Code, WrongTokenKind
from mcp_adapter.inprocess import run_and_release
from owner.permissions import is_owner
from pdpp_site.wsgi_bridge import RequestBody, Scope, build_environ


class SignInRequired(ApiException):
    """Sign in, then send the request again."""

    code = Code.PERMISSION_ERROR


def refuse_without_owner_token(scope: Scope) -> ApiException | None:
    """Return an error unless the request has an owner token. Runs in a thread."""
    try:
        _, caller = run_and_release(lambda: BearerAuthentication().authenticate(_request(scope)))
    except (ApiException, Error) as error:
        api_error = error_responses.to_api_exception(error)
        request_id = f"req_{secrets.token_hex(10)}"
        run_and_release(
            lambda: record_rejected_token(api_error, route="rest", request_id=request_id)
        )
        return api_error
    if caller.kind is not TokenKind.OWNER:
        return WrongTokenKind(message="This route requires an owner token.")
    return None


def refuse_without_owner_session(scope: Scope) -> ApiException | None:
    """Return an error unless the request has the owner's session. Runs in a thread."""
    try:
        response = run_and_release(lambda: _session_status(_request(scope)._request))  # noqa: SLF001 - DRF's own name
    except Error as error:
        return error_responses.to_api_exception(error)
    return None if getattr(response, "status_code", None) == 204 else SignInRequired()


def _request(scope: Scope) -> Request:
    return Request(WSGIRequest(build_environ(scope, body=RequestBody(BytesIO(), 0))))


def _status(request: HttpRequest) -> HttpResponse:
    return HttpResponse(status=204 if is_owner(request.user) else 403)


# The same middleware in the same order as in settings.
_session_status = SessionMiddleware(AuthenticationMiddleware(OTPMiddleware(_status)))
