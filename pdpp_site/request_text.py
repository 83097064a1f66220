"""Refuse text that no page and no table of this server can hold, before any view reads it.

PostgreSQL stores no NUL character, and a charset other than UTF-8 makes Python fail to decode a form
or a query. Views that take a body of their own (``csrf_exempt``) check it themselves.
"""

from collections.abc import Callable
from typing import Any

from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.http import HttpRequest, HttpResponseBase, QueryDict
from django.http.multipartparser import MultiPartParserError
from django.http.request import UnreadablePostError

from evidence.errors import InvalidRequest, NotFound
from pdpp_site import error_pages

NUL = "\x00"
CHARSETS = frozenset({"utf-8", "utf8", "us-ascii"})
Response = Callable[[HttpRequest], HttpResponseBase]


class RequestTextMiddleware:
    """Checks charset, path and query of every request, and the form of every page."""

    def __init__(self, get_response: Response) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        charset = (request.content_params or {}).get("charset", "utf-8")
        if charset.lower() not in CHARSETS:
            message = f"charset takes utf-8; got {charset[:64]!r}."
            return error_pages.refused(request, InvalidRequest(message=message, param="charset"))
        if NUL in request.path_info:
            return error_pages.refused(
                request, NotFound(message="There is nothing at this address.")
            )
        if "%00" in request.META.get("QUERY_STRING", ""):
            return self._refusal(request, request.GET) or self._get_response(request)
        return self._get_response(request)

    def process_view(
        self, request: HttpRequest, view: Any, args: object, kwargs: object
    ) -> HttpResponseBase | None:
        """Runs after Django has checked, and so has read, the form of a page."""
        if request.method != "POST" or getattr(view, "csrf_exempt", False):
            return None
        try:
            return self._refusal(request, request.POST)
        except (MultiPartParserError, RequestDataTooBig, SuspiciousOperation, UnreadablePostError):
            return None  # the view reads the form again, and Django answers

    def _refusal(self, request: HttpRequest, sent: QueryDict) -> HttpResponseBase | None:
        for name, values in sent.lists():
            if NUL in name or any(NUL in each for each in values):
                shown = name.replace(NUL, "")[:64]
                message = f"{shown} holds a NUL character. Send it without."
                return error_pages.refused(request, InvalidRequest(message=message, param=shown))
        return None
