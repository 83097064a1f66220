"""The front page, error pages, and addresses that people mistake for that of MCP.

Error pages run no query, because the database may have failed.
"""

import secrets
import sys
from collections.abc import Callable

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.template.loader import render_to_string
from django.views.decorators.csrf import csrf_exempt

from evidence.api import error_responses
from evidence.api.authentication import requested_url
from evidence.api.error_responses import MethodNotAllowed
from evidence.api.views.public import IndexView
from evidence.errors import ApiException, Code, InvalidRequest, NotFound, ServiceUnavailable
from owner.home_page import home
from owner.permissions import PAGE_HEADERS, is_owner

TITLES = {
    400: "Invalid request",
    403: "Not allowed",
    404: "Page not found",
    405: "Not a page",
    413: "Too large",
    429: "Too many requests",
    500: "Something went wrong",
    503: "Try again in a moment",
}
TEXTS = {
    413: "What you sent is larger than this page accepts.",
    429: "You sent many requests at once, and they are still waiting. Try again in a moment.",
    500: "The server made a mistake. Try again. Its log has details under the request id.",
}
"""What pages say in other words than the API."""


class CsrfFailed(ApiException):
    """This form has expired. Go back, reload the page, and send it again."""

    code = Code.PERMISSION_ERROR


class WrongMethod(ApiException):
    """This address only receives a form. Open the page and send the form again."""

    code = Code.METHOD_NOT_ALLOWED


class Forbidden(ApiException):
    """This page is not for you."""

    code = Code.PERMISSION_ERROR


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return error_response(request, InvalidRequest(message="The request is invalid."))


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    return error_response(request, CsrfFailed())


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    return error_response(request, Forbidden())


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return error_response(request, NotFound(message="No such page. It may have been erased."))


def server_error(request: HttpRequest) -> HttpResponse:
    """Return the page for the exception that Django is handling."""
    error = sys.exception()
    if isinstance(error, OperationalError | InterfaceError):
        return error_response(request, ServiceUnavailable(message="The database does not answer."))
    return error_response(request, error_responses.InternalError())


def error_response(request: HttpRequest, error: ApiException) -> HttpResponse:
    """Return the error as a page for browsers, or as an API error."""
    request_id = f"req_{secrets.token_hex(10)}"
    status = error.code.status
    if request.get_preferred_type(["application/json", "text/html"]) == "text/html":
        title = TITLES.get(status, TITLES[400])
        text = TEXTS.get(status, error.message)
        context = {"title": title, "text": text, "request_id": request_id}
        page = render_to_string("pdpp_site/failed.html", context)
        response = HttpResponse(page, status=status, headers=PAGE_HEADERS)
    else:
        response = JsonResponse(
            error_responses.error_body(error, request_id=request_id), status=status
        )
    response["Request-Id"] = response["X-Request-Id"] = request_id
    if status in (429, 503):
        response["Retry-After"] = error_responses.RETRY_SECONDS
    return response


def explain_wrong_method(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Middleware: give the empty 405 of Django's views a text."""

    def explain(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        if not isinstance(response, HttpResponseNotAllowed):
            return response
        explained = error_response(request, WrongMethod())
        explained["Allow"] = response["Allow"]
        return explained

    return explain


@csrf_exempt
def front(request: HttpRequest) -> HttpResponseBase:
    """Return the home page to the owner, links to other people, the API index to programs."""
    if request.method not in ("GET", "HEAD"):
        response = error_response(request, MethodNotAllowed(message=_mcp_address(request)))
        response["Allow"] = "GET, HEAD"
        return response
    if request.get_preferred_type(["application/json", "text/html"]) != "text/html":
        return IndexView.as_view()(request)
    if is_owner(request.user):
        return home(request)
    response = render(request, "pdpp_site/front.html", {"url": requested_url(request)})
    for header, value in PAGE_HEADERS.items():
        response[header] = value
    return response


@csrf_exempt
def sse(request: HttpRequest) -> HttpResponse:
    """Return 404 with the address of MCP, for apps that look for its former transport."""
    return error_response(request, NotFound(message=_mcp_address(request)))


def _mcp_address(request: HttpRequest) -> str:
    return f"MCP is served at {requested_url(request)}/mcp. Connect the app to that address."
