"""What Django itself refuses or fails at: the error of the API to a program, a page to a person.

Nothing here asks the database, which may be what has failed.
"""

import secrets
import sys

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.loader import render_to_string

from evidence.api import error_responses
from evidence.errors import Code, InvalidRequest, NotFound, Refusal, ServiceUnavailable
from pdpp_site.views import PAGE_HEADERS

TITLES = {
    400: "This request cannot be read",
    403: "This is refused",
    404: "Nothing is here",
    500: "Something went wrong",
    503: "Try again in a moment",
}


class Forged(Refusal):
    """The form did not come from a page of this site, or that page is too old. Open it again."""

    code = Code.PERMISSION_ERROR


class Forbidden(Refusal):
    """This is for somebody else."""

    code = Code.PERMISSION_ERROR


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return refused(request, InvalidRequest(message="The request cannot be read."))


def forged(request: HttpRequest, reason: str = "") -> HttpResponse:
    return refused(request, Forged())


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    return refused(request, Forbidden())


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return refused(request, NotFound(message="There is nothing at this address."))


def failed(request: HttpRequest) -> HttpResponse:
    """Django asks for this in the middle of the exception."""
    error = sys.exception()
    if isinstance(error, OperationalError | InterfaceError):
        return refused(
            request, ServiceUnavailable(message="The database does not answer just now.")
        )
    return refused(request, error_responses.InternalError())


def refused(request: HttpRequest, refusal: Refusal) -> HttpResponse:
    """Return the refusal as an error of the API, or as a page where a browser asks."""
    request_id = f"req_{secrets.token_hex(10)}"
    status = error_responses.STATUS[refusal.code]
    if request.get_preferred_type(["application/json", "text/html"]) == "text/html":
        context = {"title": TITLES[status], "text": refusal.message, "request_id": request_id}
        page = render_to_string("pdpp_site/failed.html", context)
        response = HttpResponse(page, status=status, headers=PAGE_HEADERS)
    else:
        response = JsonResponse(error_responses.body(refusal, request_id=request_id), status=status)
    response["Request-Id"] = response["X-Request-Id"] = request_id
    response["Cache-Control"] = "no-store"
    if status == 503:
        response["Retry-After"] = error_responses.RETRY_SECONDS
    return response
