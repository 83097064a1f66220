"""The forms of our answers: JSON to programs, a page to people, the way back to a client."""

import secrets
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import render, resolve_url

from evidence.errors import RateLimitExceeded
from owner.oauth.uris import origin_of
from owner.permissions import fenced, is_owner

View = Callable[[HttpRequest], HttpResponse]
NEVER_KEPT = {"Cache-Control": "no-store", "Pragma": "no-cache"}


def said(body: Mapping[str, Any], *, status: int = 200) -> JsonResponse:
    """JSON that nobody may keep."""
    return JsonResponse(dict(body), status=status, headers=NEVER_KEPT)


def refused(error: str, description: str, *, status: int = 400, **more: Any) -> JsonResponse:
    """The error of RFC 6749 with the id by which the log knows it."""
    request_id = f"req_{secrets.token_hex(10)}"
    body = {"error": error, "error_description": description, **more, "request_id": request_id}
    response = said(body, status=status)
    response["Request-Id"] = response["X-Request-Id"] = request_id
    return response


def slowed(refusal: RateLimitExceeded) -> JsonResponse:
    """Too much in too short a time."""
    response = refused("slow_down", refusal.message, status=429)
    response["Retry-After"] = str(refusal.extra["retry_after"])
    return response


@fenced
def told(request: HttpRequest, title: str, text: str, *, status: int) -> HttpResponse:
    """A page with one message."""
    context = {"title": title, "text": text}
    response = render(request, "owner/consent/message.html", context, status=status)
    response["Cache-Control"] = "no-store"
    return response


def sent_back(location: str) -> HttpResponse:
    """On to the client, whose address may have a scheme that no browser knows."""
    return HttpResponse(status=302, headers={"Location": location, **NEVER_KEPT})


def letting_through(response: HttpResponse, redirect_uri: str) -> HttpResponse:
    """The same page, from whose form the answer may lead to the client: browsers hold the policy of
    a form against the redirects that follow it."""
    policy = response.headers.get("Content-Security-Policy", "")
    allowed = f"form-action 'self' {origin_of(redirect_uri)}"
    response["Content-Security-Policy"] = policy.replace("form-action 'self'", allowed)
    response["Cache-Control"] = "no-store"
    return response


def sign_in_first(request: HttpRequest) -> HttpResponseRedirect:
    """To the page that signs the owner in and comes back here."""
    query = urlencode({REDIRECT_FIELD_NAME: request.get_full_path()})
    return HttpResponseRedirect(f"{resolve_url(settings.LOGIN_URL)}?{query}")


def for_the_owner(view: View) -> View:
    """The same view, which nobody else gets to see."""

    @wraps(view)
    def inner(request: HttpRequest) -> HttpResponse:
        return view(request) if is_owner(request.user) else sign_in_first(request)

    return inner
