"""Narrow a grant: the grant wizard limited to what the grant allows now."""

import secrets

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from evidence.access.gate import Gate
from evidence.access.grant_lifecycle import narrow_grant
from evidence.access.grant_states import CURRENT_STATES, state_of, with_grant_state
from evidence.access.owner_scope import grant_scope, preview_scope
from evidence.errors import ApiException
from evidence.models.accounts import OWNER_ID
from evidence.models.grants import Grant
from owner.grants.draft import DraftForms
from owner.grants.grantable_sources import narrowable
from owner.grants.preview import StreamDifference, compare_gates, preview_sources
from owner.grants.review_page import describe_hidden, source_rows
from owner.grants.wizard import HAS_ERRORS, review_signature, verify_review
from owner.permissions import owner_required

NOTHING_LEFT = "Nothing would be left. To remove all access, disconnect the app instead."
REVIEW_CHANGED = "Your changes updated the summary. Check it, then choose Narrow access."


@require_http_methods(["GET", "HEAD", "POST"])
@owner_required
def narrow_page(request: HttpRequest) -> HttpResponse:
    """Show the form and its counts, or replace the grant with a narrower one."""
    grant = _grant_or_404(request)
    source = narrowable(grant, owner_id=OWNER_ID)
    if source is None or not source.bounds:
        messages.error(request, "This grant gives access to nothing, so it cannot be narrowed.")
        return redirect("connected-apps")
    data = request.POST if request.method == "POST" else None
    forms = DraftForms([source], data, latest_expiry=grant.expires_at, selected=True)
    error = ""
    if request.POST.get("decision") == "allow":
        error = _find_error(request, grant, forms)
        if not error:
            try:
                _narrow(grant, forms)
            except ApiException as refusal:
                error = refusal.message
            else:
                name = grant.package.client.display_name
                messages.success(request, f"{name} can now read less.")
                return redirect("connected-apps")
    return _page(request, grant, forms, error)


def _find_error(request: HttpRequest, grant: Grant, forms: DraftForms) -> str:
    if forms.is_empty:
        return NOTHING_LEFT
    if not forms.check():
        return HAS_ERRORS
    form_token = request.POST.get("form_token", "")
    signature = request.POST.get("review_signature", "")
    expected = _signature(request, grant, forms, form_token)
    return "" if form_token and verify_review(signature, expected) else REVIEW_CHANGED


def _narrow(grant: Grant, forms: DraftForms) -> None:
    now = timezone.now()
    [narrowed] = forms.draft.requests(now)
    narrow_grant(
        grant.pk,
        narrowed.streams,
        connection_ids=narrowed.connection_ids,
        expires_at=narrowed.expires_at,
        now=now,
    )


def _page(request: HttpRequest, grant: Grant, forms: DraftForms, error: str) -> HttpResponse:
    is_complete = forms.check()
    form_token = secrets.token_urlsafe(16)
    previews = preview_sources(forms.draft.sources)
    context = {
        "here": "connected-apps",
        "grant": grant,
        "client_name": grant.package.client.display_name,
        "error": error or ("" if is_complete or forms.is_empty else HAS_ERRORS),
        "rows": source_rows(forms.sources, previews),
        "terms": forms.terms,
        "sentences": [preview.words for preview in previews.values()],
        "hidden_parts": describe_hidden(forms, previews),
        "changes": None if forms.is_empty else _changes(grant, forms),
        "expires": forms.terms.expiry_text if forms.terms.is_valid() else "",
        "form_token": form_token,
        "review_signature": _signature(request, grant, forms, form_token) if is_complete else "",
    }
    status = 422 if error else 200
    return render(request, "owner/grants/narrow.html", context, status=status)


def _changes(grant: Grant, forms: DraftForms) -> list[StreamDifference]:
    """Return what the grant shows now and would no longer show."""
    [source] = forms.draft.sources
    after = preview_scope([(source.source.source.pk, source.terms)], owner_id=OWNER_ID)
    return compare_gates([Gate(grant_scope(grant, owner_id=OWNER_ID))], Gate(after))


def _signature(request: HttpRequest, grant: Grant, forms: DraftForms, form_token: str) -> str:
    return review_signature(
        forms.draft.sources,
        subject=["narrow", grant.pk],
        expires=forms.expiry_value,
        limits="",  # limits do not change
        form_token=form_token,
        user_pk=request.user.pk,
    )


def _grant_or_404(request: HttpRequest) -> Grant:
    rows = with_grant_state(timezone.now()).filter(package__owner_id=OWNER_ID)
    grant = rows.filter(pk=request.GET.get("grant", "")).first()
    if grant is None or state_of(grant) not in CURRENT_STATES:
        raise Http404
    return grant
