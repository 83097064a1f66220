"""The question as a page, and the owner's answer.

Three callers, one page: ``/oauth/authorize``, ``/device`` and the approval of ``/agent-connect``. Each
has made sure that the owner is signed in, and calls ``review`` to ask and ``decided`` on the POST.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from evidence.access.issuing import GrantRequest, holder, issue
from evidence.access.owning import owner_scope
from evidence.access.resolving import StreamRequest
from evidence.access.scope import ConnectionFacts, Scope
from evidence.consent.asking import Asked, RequestedAccess
from evidence.consent.owners_only import fenced
from evidence.models.owners import OWNER_ID
from evidence.refusals import Refusal


@dataclass(frozen=True, slots=True)
class Approved:
    """The package that holds what the owner allowed."""

    package_id: str


@dataclass(frozen=True, slots=True)
class Denied:
    """The owner said no."""


@fenced
def review(
    request: HttpRequest,
    asked: Asked,
    *,
    action_url: str,
    hidden: Mapping[str, str],
    error: str = "",
) -> HttpResponse:
    """The page. Its form posts to ``action_url`` with the ``hidden`` fields as they are."""
    scope = owner_scope(OWNER_ID)
    wanted = {each.source_id for each in asked.details}
    connections = [
        (each, scope.sources[each.source_pk])
        for each in scope.connections.values()
        if not wanted or scope.sources[each.source_pk].source_id in wanted
    ]
    context = {
        "asked": asked,
        "connections": connections,
        "action_url": action_url,
        "hidden": hidden,
        "error": error,
    }
    return render(request, "evidence/consent/review.html", context, status=422 if error else 200)


def decided(request: HttpRequest, asked: Asked) -> Approved | Denied | HttpResponse:
    """The owner's answer. A response where it cannot be taken as it is; nothing is stored then.

    The caller's own fields come back in the page: everything posted that is not the page's.
    """
    if request.POST.get("decision") != "allow":
        return Denied()
    now = timezone.now()
    try:
        client = holder(
            asked.client.client_id, display_name=asked.client.name, owner_id=OWNER_ID, now=now
        )
        package, _ = issue(_requests(request, asked), client=client, now=now)
    except Refusal as refusal:
        ours = {"csrfmiddlewaretoken", "decision", "connections"}
        hidden = {name: str(value) for name, value in request.POST.items() if name not in ours}
        return review(request, asked, action_url=request.path, hidden=hidden, error=refusal.message)
    return Approved(package.pk)


def _requests(request: HttpRequest, asked: Asked) -> list[GrantRequest]:
    scope = owner_scope(OWNER_ID)
    chosen = request.POST.getlist("connections")
    ticked = [each for each in scope.connections.values() if each.connection_id in chosen]
    if not asked.details:
        ticked.sort(key=lambda each: each.source_pk)
        return [
            _whole_source(scope, source_pk, list(group))
            for source_pk, group in groupby(ticked, key=lambda each: each.source_pk)
        ]
    return [_asked_for(scope, detail, ticked) for detail in asked.details]


def _whole_source(scope: Scope, source_pk: int, ticked: list[ConnectionFacts]) -> GrantRequest:
    [held] = [grant for grant in scope.grants if grant.source_pk == source_pk]
    return GrantRequest(
        connection_ids=[each.connection_id for each in ticked],
        streams=[StreamRequest(name=stream.name) for stream in held.streams],
    )


def _asked_for(
    scope: Scope, detail: RequestedAccess, ticked: list[ConnectionFacts]
) -> GrantRequest:
    return GrantRequest(
        connection_ids=[
            each.connection_id
            for each in ticked
            if scope.sources[each.source_pk].source_id == detail.source_id
        ],
        streams=[
            StreamRequest(
                name=stream.name,
                fields=stream.fields,
                resources=stream.resources,
                since=stream.since,
                until=stream.until,
            )
            for stream in detail.streams
        ],
        purpose_code=detail.purpose_code,
        purpose_description=detail.purpose_description,
        access_mode=detail.access_mode,
        retention=detail.retention,
        expires_at=detail.expires_at,
    )
