"""Reject NUL characters and charsets other than UTF-8 before a view reads the request.

PostgreSQL cannot store NUL characters, and Python cannot decode forms in an unknown charset. Views
that parse their own body (`csrf_exempt`) check it themselves.
"""

from collections.abc import Callable
from typing import Any

from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.http import HttpRequest, HttpResponseBase, QueryDict
from django.http.multipartparser import MultiPartParserError
from django.http.request import UnreadablePostError
from django.urls import Resolver404, resolve

from evidence.errors import InvalidRequest, NotFound
from pdpp_site import views

NUL = "\x00"
API = "/v1/"
CHARSETS = frozenset({"utf-8", "utf8", "us-ascii"})
Response = Callable[[HttpRequest], HttpResponseBase]


def answer_api(get_response: Response) -> Response:
    """Answer requests of the API without the middleware of pages, which does nothing for them."""

    def answer(request: HttpRequest) -> HttpResponseBase:
        if not request.path_info.startswith(API):
            return get_response(request)
        try:
            match = resolve(request.path_info)
        except Resolver404:
            return get_response(request)
        response: HttpResponseBase = match.func(request, *match.args, **match.kwargs)
        return response.render() if hasattr(response, "render") else response

    return answer


class RequestTextMiddleware:
    """Checks charset, path and query of every request, and posted forms."""

    def __init__(self, get_response: Response) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        charset = (request.content_params or {}).get("charset", "utf-8")
        if charset.lower() not in CHARSETS:
            message = f"charset takes utf-8; got {charset[:64]!r}."
            return views.error_response(request, InvalidRequest(message=message, param="charset"))
        # Views of the API answer as they do for any other unknown id.
        if NUL in request.path_info and not request.path_info.startswith(API):
            return views.error_response(request, NotFound(message="No page at this address."))
        if "%00" in request.META.get("QUERY_STRING", ""):
            return self._nul_error(request, request.GET) or self._get_response(request)
        return self._get_response(request)

    def process_view(
        self, request: HttpRequest, view: Any, args: object, kwargs: object
    ) -> HttpResponseBase | None:
        """Check a posted form, after Django's CSRF check has read it."""
        if request.method != "POST" or getattr(view, "csrf_exempt", False):
            return None
        try:
            return self._nul_error(request, request.POST)
        except (MultiPartParserError, RequestDataTooBig, SuspiciousOperation, UnreadablePostError):
            return None  # the view reads the form again, and Django renders the error

    def _nul_error(self, request: HttpRequest, data: QueryDict) -> HttpResponseBase | None:
        for name, values in data.lists():
            if NUL in name or any(NUL in value for value in values):
                clean_name = name.replace(NUL, "")[:64]
                message = f"{clean_name} contains a NUL character; remove it."
                return views.error_response(
                    request, InvalidRequest(message=message, param=clean_name)
                )
        return None
