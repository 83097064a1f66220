"""A caller of the consent page with nothing of its own: it asks what a test wants asked."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from django.http import HttpRequest, HttpResponse
from django.urls import path

from owner.grants.grantable_sources import (
    AccessRequest,
    RequestedAccess,
    RequestedStream,
    RequestingClient,
)
from owner.grants.wizard import Approved, Denied, handle_decision, show_review
from pdpp_site.urls import urlpatterns as site

ASK = "/ask/"
LATER = datetime(2099, 1, 1, tzinfo=UTC)
CLAUDE = RequestingClient(
    client_id="cli_claude",
    name="Claude Code",
    uri="https://claude.example",
    host=None,
    verified=False,
    registered_by="dynamic",
)
_asked: list[AccessRequest] = []


def plain(client: RequestingClient = CLAUDE) -> AccessRequest:
    """A request that leaves the sources to the owner."""
    return AccessRequest(
        client=client,
        resource="/v1",
        redirect_host="localhost",
        details=(),
        claims={"software_version": "2.1"},
        expires_at=LATER,
    )


def detailed(*streams: RequestedStream, source: str = "mail", **more: object) -> AccessRequest:
    """A request for streams of one source of the cast."""
    detail = RequestedAccess(
        source_kind="connector",
        source_id=f"https://registry.example/connectors/{source}",
        streams=streams,
        purpose_code="https://pdpp.dev/purpose/assistance",
        purpose_description="To answer questions about your lease",
        access_mode="continuous",
        **more,  # type: ignore[arg-type]
    )
    return AccessRequest(
        client=CLAUDE,
        resource="/v1",
        redirect_host="claude.example",
        details=(detail,),
        claims={},
        expires_at=LATER,
    )


@contextmanager
def asking(asked: AccessRequest) -> Iterator[None]:
    _asked.append(asked)
    yield
    _asked.pop()


def ask(request: HttpRequest) -> HttpResponse:
    if request.method != "POST":
        return show_review(request, _asked[-1], action_url=ASK, hidden={"state": "kept"})
    match handle_decision(request, _asked[-1]):
        case Approved(package_id):
            return HttpResponse(f"approved {package_id} {request.POST['state']}")
        case Denied():
            return HttpResponse("denied")
        case page:
            return page


urlpatterns = [path("ask/", ask), *site]
