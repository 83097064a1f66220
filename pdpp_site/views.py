"""The front page, and addresses that people mistake for that of MCP."""

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.views.decorators.csrf import csrf_exempt

from evidence.api.authentication import requested_url
from evidence.api.error_responses import MethodNotAllowed
from evidence.api.views.public import IndexView
from evidence.errors import NotFound
from owner.home_page import home
from owner.permissions import PAGE_HEADERS, is_owner
from pdpp_site.error_pages import error_response


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
