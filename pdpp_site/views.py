"""The front page."""

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_safe

from evidence.api.views.public import IndexView
from owner.permissions import PAGE_HEADERS


@require_safe
def front(request: HttpRequest) -> HttpResponseBase:
    """Return a page with links to people, and the API index to programs."""
    if request.get_preferred_type(["application/json", "text/html"]) != "text/html":
        return IndexView.as_view()(request)
    response = render(request, "pdpp_site/front.html", {"url": settings.PDPP_PUBLIC_URL})
    for header, value in PAGE_HEADERS.items():
        response[header] = value
    return response
