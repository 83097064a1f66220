"""The page on which the owner answers an app's request for more access."""

import hmac
from collections.abc import Iterator
from dataclasses import dataclass, replace

from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from evidence.access.gate import Gate
from evidence.access.grant_lifecycle import (
    Answer,
    answer_request,
    describe_request,
    find_request,
    requested_grant,
    temporary_grant,
    widened_terms,
)
from evidence.access.grant_states import connection_labels, terms_of
from evidence.access.grant_terms import serialize_terms
from evidence.access.grant_text import field_label
from evidence.access.grants import lock_packages, lock_sources
from evidence.access.owner_scope import grant_scope, preview_scope
from evidence.errors import ApiException
from evidence.models.grants import Grant, PermissionRequest
from evidence.models.owners import current_owner
from evidence.read.records import count_records
from owner.grants.preview import (
    Sample,
    StreamDifference,
    compare_gates,
    describe_extent,
    newest_samples,
)
from owner.grants.wizard import review_signature
from owner.permissions import owner_required
from owner.text import describe_terms, format_time

REVIEW_CHANGED = "The access changed meanwhile. Check the request again, then answer it."
OUTCOMES = {
    Answer.ONCE: "{} can now read {} once.",
    Answer.HOUR: "{} can now read {} for an hour.",
    Answer.ALWAYS: "{} can now read {}.",
    Answer.DECLINED: "{} stays without {}. It cannot ask for this again for a day.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What an answer would add to a grant."""

    grant: Grant
    differences: list[StreamDifference]
    count: int
    extent: str
    ignores_time: bool
    samples: list[Sample]
    hidden_fields: list[str]
    replaces: Grant | None
    terms: list[object]


@require_http_methods(["GET", "HEAD", "POST"])
@owner_required
def permission_page(request: HttpRequest, token: str) -> HttpResponse:
    """Show what the app asks for. A POST stores the answer; opening the page changes nothing."""
    asked = find_request(token, owner_id=current_owner())
    if asked is None:
        raise Http404
    if request.method != "POST":
        return _page(request, asked)
    answer = request.POST.get("answer", "")
    if answer not in Answer.values:
        return _page(request, asked, error="Choose one of the answers.")
    with transaction.atomic():
        lock_sources(current_owner())
        lock_packages(pk=asked.grant.package_id)
        offer = _offer(asked)
        signature = request.POST.get("review_signature", "")
        if answer != Answer.DECLINED and offer is not None:
            expected = _signature(request, asked, offer)
            if not hmac.compare_digest(signature.encode(), expected.encode()):
                return _page(request, asked, error=REVIEW_CHANGED)
        if offer is None or not answer_request(asked.pk, answer, now=timezone.now()):
            return redirect(request.path)
    name = asked.grant.package.client.display_name
    messages.success(request, OUTCOMES[Answer(answer)].format(name, describe_request(asked)))
    return redirect("home")


def _page(request: HttpRequest, asked: PermissionRequest, *, error: str = "") -> HttpResponse:
    offer = _offer(asked)
    labels = connection_labels(current_owner())
    context = {
        "here": "home",
        "asked": asked,
        "name": asked.grant.package.client.display_name,
        "what": describe_request(asked),
        "error": error,
        "offer": offer,
        "now": [] if offer is None else [
            describe_terms(terms, stream=stream, labels=labels)
            for terms, stream in terms_of(offer.grant)
        ],
        "expires": "" if offer is None else format_time(offer.grant.expires_at, never=""),
        "review_signature": "" if offer is None else _signature(request, asked, offer),
    }  # fmt: skip
    status = 422 if error else 200 if offer is not None or asked.answered_at else 410
    return render(request, "owner/grants/permission.html", context, status=status)


def _offer(asked: PermissionRequest) -> Offer | None:
    """Return what an answer would add, or None if the request cannot be answered any more."""
    now = timezone.now()
    grant = requested_grant(asked, now=now)
    if asked.answered_at is not None or asked.expires_at <= now or grant is None:
        return None
    try:
        terms = widened_terms(grant, asked.stream, asked.fields)
        after = Gate(preview_scope([(grant.source_id, terms)], owner_id=current_owner()))
        visible = after.stream(asked.stream)
    except ApiException:
        return None  # the grant includes it, or the source or its connections are gone
    shown = [name for name in visible.stream.fields if visible.shows(name)]
    added = [name for name in shown if asked.fields is None or name in asked.fields]
    hidden = [name for name in visible.stream.fields if name not in shown]
    fields = visible.stream.fields
    labels = {name: field_label(field, fields) for name, field in fields.items()}
    return Offer(
        grant=grant,
        differences=compare_gates([Gate(grant_scope(grant, owner_id=current_owner()))], after),
        count=count_records(visible),
        extent=describe_extent(visible),
        ignores_time=all(term.time is None for term in terms if term.name == asked.stream)
        and any(term.time is not None for term in terms),
        samples=[*_only(newest_samples(visible), added)],
        hidden_fields=[labels[name] for name in hidden],
        replaces=temporary_grant(grant, asked.stream, now),
        terms=[
            grant.pk,
            grant.source.current_declaration_id,
            *serialize_terms(terms, time_fields={}),
        ],
    )


def _only(samples: list[Sample], names: list[str]) -> Iterator[Sample]:
    for sample in samples:
        yield replace(sample, values=[value for value in sample.values if value.name in names])


def _signature(request: HttpRequest, asked: PermissionRequest, offer: Offer) -> str:
    return review_signature(
        [], subject=["permission", asked.pk, offer.terms], form_token="", user_pk=request.user.pk
    )
