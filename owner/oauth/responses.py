"""OAuth responses: JSON errors (RFC 6749), message pages and redirects to the client."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import render, resolve_url
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST

from evidence.errors import RateLimitExceeded
from owner.grants.grantable_sources import Resource
from owner.oauth.uris import form_action_source, single_resource
from owner.permissions import is_owner, with_security_headers

CLIENT_CHALLENGE = 'Basic realm="token"'
DESCRIPTIONS = {
    "invalid_client": "Unknown client or wrong credentials.",
    "invalid_grant": "The code or token is unknown, has expired, was used, or is not this client's.",
    "invalid_request": "A parameter is missing, repeated or invalid.",
    "unauthorized_client": "The client is not registered for this grant type.",
}
View = Callable[[HttpRequest], HttpResponse]
NO_STORE_HEADERS = {"Cache-Control": "no-store", "Pragma": "no-cache"}


def json_response(body: Mapping[str, Any], *, status: int = 200) -> JsonResponse:
    """Return an uncacheable JSON response."""
    return JsonResponse(dict(body), status=status, headers=NO_STORE_HEADERS)


def error_response(
    error: str, description: str, *, status: int = 400, **members: Any
) -> JsonResponse:
    """Return an RFC 6749 error with a request id; `members` are added to the body."""
    request_id = f"req_{secrets.token_hex(10)}"
    text = description or default_description(error)
    body = {"error": error, "error_description": text, **members, "request_id": request_id}
    response = json_response(body, status=status)
    response["Request-Id"] = response["X-Request-Id"] = request_id
    return response


def default_description(error: str) -> str:
    """Return the description of an error that the library does not describe."""
    return DESCRIPTIONS.get(error, f"The request was refused: {error.replace('_', ' ')}.")


class RefusalError(Exception):
    """A request that gets an error for an answer; the message is its description."""

    def __init__(self, message: str, *, error: str = "invalid_request", status: int = 400) -> None:
        super().__init__(message)
        self.error, self.status = error, status


class InvalidClientError(RefusalError):
    """The client is not known: 400, or 401 for wrong credentials in a header (RFC 6749, 5.2)."""

    def __init__(self, *, used_header: bool) -> None:
        status = 401 if used_header else 400
        super().__init__(DESCRIPTIONS["invalid_client"], error="invalid_client", status=status)


def required_resource(indicators: Sequence[str], *, default: Resource = "/mcp") -> Resource:
    """Return the resource that all indicators name. Raises RefusalError for others."""
    resource = single_resource(indicators, default=default)
    if resource is None:
        raise RefusalError("resource must name a resource of this server.", error="invalid_target")
    return resource


def endpoint(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Let clients POST to a view without a session, and answer its refusals as JSON."""

    @csrf_exempt
    @sensitive_post_parameters()
    @require_POST
    @wraps(view)
    def inner(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return view(request, *args, **kwargs)
        except RefusalError as refusal:
            response = error_response(refusal.error, str(refusal), status=refusal.status)
            if refusal.error == "invalid_client" and refusal.status == 401:
                response["WWW-Authenticate"] = CLIENT_CHALLENGE
        except RateLimitExceeded as error:
            response = error_response("slow_down", error.message, status=429)
            response["Retry-After"] = str(error.extra["retry_after"])
        return response

    return inner


@with_security_headers
def message_page(request: HttpRequest, title: str, text: str, *, status: int) -> HttpResponse:
    """Render a page with one message."""
    context = {"title": title, "text": text}
    return render(request, "owner/oauth/message.html", context, status=status)


def redirect_to_client(location: str) -> HttpResponse:
    """Return a redirect to any scheme; HttpResponseRedirect refuses an app's private scheme."""
    return HttpResponse(status=302, headers={"Location": location, **NO_STORE_HEADERS})


def allow_form_redirect(response: HttpResponse, redirect_uri: str) -> HttpResponse:
    """Let the page's form redirect to the client.

    Browsers apply form-action also to the redirects that follow a form submission.
    """
    policy = response.headers.get("Content-Security-Policy", "")
    allowed = f"form-action 'self' {form_action_source(redirect_uri)}"
    response["Content-Security-Policy"] = policy.replace("form-action 'self'", allowed)
    return response


def redirect_to_sign_in(request: HttpRequest) -> HttpResponseRedirect:
    """Redirect to the sign-in page, which leads back to the requested page."""
    query = urlencode({REDIRECT_FIELD_NAME: request.get_full_path()})
    return HttpResponseRedirect(f"{resolve_url(settings.LOGIN_URL)}?{query}")


def owner_or_sign_in(view: View) -> View:
    """Restrict a view to the owner; others are redirected to the sign-in page."""

    @wraps(view)
    def inner(request: HttpRequest) -> HttpResponse:
        return view(request) if is_owner(request.user) else redirect_to_sign_in(request)

    return inner
