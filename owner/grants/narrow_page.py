"""Narrowing a grant: the same choice and the same counts as when it was given, within what it says."""

import secrets

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from evidence.access.gate import Gate
from evidence.access.grant_lifecycle import narrow
from evidence.access.grant_states import grants_with_state, state_of
from evidence.access.owner_scope import held_scope, tried_scope
from evidence.errors import Refusal
from evidence.models.accounts import OWNER_ID
from evidence.models.grants import Grant
from owner.connected_apps import STANDING
from owner.grants import wizard
from owner.grants.draft import Choice
from owner.grants.grantable_sources import narrowing_offer
from owner.grants.preview import Difference, differences, previews
from owner.grants.review_page import source_rows, unseen
from owner.permissions import owners_page

EMPTY = "Nothing would be left. To take everything away, disconnect it instead."
FAULTY = "Something below needs another look; it is marked."
NOT_SEEN = "This is not what you were shown last. Look at what is left now, then narrow it."


@require_http_methods(["GET", "HEAD", "POST"])
@owners_page
def narrow_page(request: HttpRequest) -> HttpResponse:
    """The choice on GET and after each "Count again", the successor on "Narrow it"."""
    grant = _grant(request)
    offer = narrowing_offer(grant, owner_id=OWNER_ID)
    if offer is None or not offer.bounds:
        messages.error(
            request, "Nothing of it can be read any more, so there is nothing to narrow."
        )
        return redirect("connected")
    data = request.POST if request.method == "POST" else None
    choice = Choice([offer], data, at_most=grant.expires_at, ticked=True)
    error = ""
    if request.POST.get("decision") == "allow":
        error = _reason_not_to(request, grant, choice)
        if not error:
            try:
                _narrowed(grant, choice)
            except Refusal as refusal:
                error = refusal.message
            else:
                messages.success(request, f"{grant.package.client.display_name} now reads less.")
                return redirect("connected")
    return _page(request, grant, choice, error)


def _reason_not_to(request: HttpRequest, grant: Grant, choice: Choice) -> str:
    if choice.is_empty:
        return EMPTY
    if not choice.check():
        return FAULTY
    mark, given = (request.POST.get(name, "") for name in ("mark", "revision"))
    expected = _revision(request, grant, choice, mark)
    return "" if mark and wizard.is_same(given, expected) else NOT_SEEN


def _narrowed(grant: Grant, choice: Choice) -> None:
    now = timezone.now()
    [wanted] = choice.draft.requests(now)
    narrow(
        grant.pk,
        wanted.streams,
        connection_ids=wanted.connection_ids,
        expires_at=wanted.expires_at,
        now=now,
    )


def _page(request: HttpRequest, grant: Grant, choice: Choice, error: str) -> HttpResponse:
    complete = choice.check()
    mark = secrets.token_urlsafe(16)
    found = previews(choice.draft.sources)
    context = {
        "here": "connected",
        "grant": grant,
        "client_name": grant.package.client.display_name,
        "error": error or ("" if complete or choice.is_empty else FAULTY),
        "rows": source_rows(choice.sources, found),
        "terms": choice.terms,
        "sentences": [each.words for each in found.values()],
        "unseen": unseen(choice, found),
        "changes": None if choice.is_empty else _changes(grant, choice),
        "ends": choice.terms.in_words if choice.terms.is_valid() else "",
        "mark": mark,
        "revision": _revision(request, grant, choice, mark) if complete else "",
    }
    status = 422 if error else 200
    return render(request, "owner/connecting/narrow.html", context, status=status)


def _changes(grant: Grant, choice: Choice) -> list[Difference]:
    """What it reads now and would not any more."""
    [source] = choice.draft.sources
    after = tried_scope([(source.offer.source.pk, source.terms)], owner_id=OWNER_ID)
    return differences([Gate(held_scope(grant, owner_id=OWNER_ID))], Gate(after))


def _revision(request: HttpRequest, grant: Grant, choice: Choice, mark: str) -> str:
    return wizard.revision(
        choice.draft.sources,
        question=["narrow", grant.pk],
        ends=choice.ends,
        at_most="",  # what limits there are go on
        mark=mark,
        user_pk=request.user.pk,
    )


def _grant(request: HttpRequest) -> Grant:
    rows = grants_with_state(timezone.now()).filter(package__owner_id=OWNER_ID)
    grant = rows.filter(pk=request.GET.get("grant", "")).first()
    if grant is None or state_of(grant) not in STANDING:
        raise Http404
    return grant
