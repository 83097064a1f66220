"""Narrow a grant: the grant wizard limited to what the grant allows now."""

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
from evidence.models.grants import Grant
from evidence.models.owners import current_owner
from owner.grants.grant_forms import DraftForms
from owner.grants.grantable_sources import narrowable
from owner.grants.preview import StreamDifference, compare_gates
from owner.grants.wizard import ReviewedForms
from owner.permissions import owner_required

NOTHING_LEFT = "Nothing would be left. To remove all access, disconnect the app instead."
REVIEW_CHANGED = "Your changes updated the summary. Check it, then choose Narrow access."


@require_http_methods(["GET", "HEAD", "POST"])
@owner_required
def narrow_page(request: HttpRequest) -> HttpResponse:
    """Show the form and its counts, or replace the grant with a narrower one."""
    grant = _grant_or_404(request)
    source = narrowable(grant, owner_id=current_owner())
    if source is None or not source.bounds:
        messages.error(request, "This grant gives access to nothing, so it cannot be narrowed.")
        return redirect("connected-apps")
    data = request.POST if request.method == "POST" else None
    forms = DraftForms([source], data, latest_expiry=grant.expires_at, selected=True)
    reviewed = ReviewedForms(request, forms, ["narrow", grant.pk])
    error = ""
    if request.POST.get("decision") == "allow":
        error = reviewed.find_error(nothing_selected=NOTHING_LEFT, changed=REVIEW_CHANGED)
        if not error:
            try:
                _narrow(grant, forms)
            except ApiException as refusal:
                error = refusal.message
            else:
                name = grant.package.client.display_name
                messages.success(request, f"{name} can now read less.")
                return redirect("connected-apps")
    return _page(request, grant, reviewed, error)


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


def _page(request: HttpRequest, grant: Grant, reviewed: ReviewedForms, error: str) -> HttpResponse:
    context = {
        **reviewed.context(error=error),
        "here": "connected-apps",
        "grant": grant,
        "client_name": grant.package.client.display_name,
        "limits": None,  # limits do not change
        "changes": None if reviewed.forms.is_empty else _changes(grant, reviewed.forms),
    }
    status = 422 if error else 200
    return render(request, "owner/grants/narrow.html", context, status=status)


def _changes(grant: Grant, forms: DraftForms) -> list[StreamDifference]:
    """Return what the grant shows now and would no longer show."""
    [source] = forms.draft.sources
    after = preview_scope([(source.source.source.pk, source.terms)], owner_id=current_owner())
    return compare_gates([Gate(grant_scope(grant, owner_id=current_owner()))], Gate(after))


def _grant_or_404(request: HttpRequest) -> Grant:
    rows = with_grant_state(timezone.now()).filter(package__owner_id=current_owner())
    grant = rows.filter(pk=request.GET.get("grant", "")).first()
    if grant is None or state_of(grant) not in CURRENT_STATES:
        raise Http404
    return grant
