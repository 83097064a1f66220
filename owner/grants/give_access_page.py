"""Give access, and narrow it: the consent form for an app without a sign-in of its own, and for less.

An app without a sign-in gets tokens. Narrowing is limited to what the grant allows now.
"""

from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods
from typing_extensions import override

from evidence import limits
from evidence.access.gate import Gate
from evidence.access.grant_lifecycle import narrow_grant
from evidence.access.grant_states import CURRENT_STATES, state_of, with_grant_state
from evidence.access.grants import find_approved_package, lock_sources, register_client
from evidence.access.owner_scope import grant_scope, preview_scope
from evidence.errors import ApiException
from evidence.models.clients import Client
from evidence.models.grants import Grant
from evidence.models.owners import current_owner
from owner.form_fields import set_choices, validate_printable
from owner.grants.grant_forms import DraftForms, TokensForm
from owner.grants.grant_pages import issue_tokens, tokens_page
from owner.grants.grantable_sources import all_grantable, narrowable, readable_connections
from owner.grants.preview import StreamDifference, compare_additions, compare_gates
from owner.grants.wizard import HAS_ERRORS, ReviewedForms
from owner.permissions import owner_required

NOTHING_SELECTED = "Select at least one connection."
REVIEW_CHANGED = "Your changes updated the summary. Check it, then choose Give access."
ALREADY_GIVEN = (
    "Access was already given with this form. If you did not copy the token, open the grant and choose"
    " “Create another token”."
)


class AppForm(TokensForm):
    """The app, known or new, its tokens, and a note."""

    client = forms.ChoiceField(label="App", required=False)
    new_client = forms.CharField(
        label="Name of the new app",
        required=False,
        max_length=limits.LABEL_MAX_CHARS,
        help_text="A name that you will recognize, such as “Claude on my laptop”.",
    )
    purpose = forms.CharField(
        label="Purpose",
        required=False,
        max_length=1000,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="A note for you: why you give this access.",
    )
    field_order = ("client", "new_client", "purpose", "tokens")

    def __init__(self, data: Any = None, *, clients: Sequence[Client], chosen: str = "") -> None:
        super().__init__(data, initial={"client": chosen})
        self._clients = {client.pk: client for client in clients}
        choices = [(client.pk, client.display_name) for client in clients]
        set_choices(self, "client", [("", "A new app"), *choices])

    def clean_new_client(self) -> str:
        name = validate_printable(self.cleaned_data["new_client"].strip())
        if any(client.display_name == name for client in self._clients.values()):
            raise forms.ValidationError("An app with this name exists. Choose it in the list.")
        return name

    @override
    def clean(self) -> None:
        if self.errors:
            return
        existing, new = self.cleaned_data["client"], self.cleaned_data["new_client"]
        if existing and new:
            self.add_error("new_client", "Choose an app or enter a new name, not both.")
        if not existing and not new:
            self.add_error("new_client", "Enter a name, or choose an app.")

    @property
    def existing_client(self) -> Client | None:
        """Return the chosen app, also of a form with errors."""
        return self._clients.get(self.data.get("client", self.initial["client"]))


@require_http_methods(["GET", "HEAD", "POST"])
@owner_required
@transaction.atomic
def give_access(request: HttpRequest) -> HttpResponse:
    """Show the form, or issue grants and show their tokens. Submitting it twice gives access once."""
    data = request.POST if request.method == "POST" else None
    is_allowed = request.POST.get("decision") == "allow"
    if is_allowed:
        lock_sources(current_owner())
        if find_approved_package(request.POST.get("form_token", "")) is not None:
            messages.error(request, ALREADY_GIVEN)
            return redirect("connected-apps")
    clients = Client.unscoped.order_by("display_name", "client_id")
    app = AppForm(data, clients=list(clients), chosen=request.GET.get("client", ""))
    selection = DraftForms(all_grantable(readable_connections(current_owner())), data)
    reviewed = ReviewedForms(request, selection, "give access")
    error = _find_error(app, reviewed) if is_allowed else ""
    if is_allowed and not error:
        try:
            return _issue(request, app, reviewed)
        except ApiException as refusal:
            error = refusal.message
    return _page(request, app, reviewed, error)


def _find_error(app: AppForm, reviewed: ReviewedForms) -> str:
    if not app.is_valid():
        return HAS_ERRORS
    return reviewed.find_error(nothing_selected=NOTHING_SELECTED, changed=REVIEW_CHANGED)


@transaction.atomic
def _issue(request: HttpRequest, app: AppForm, reviewed: ReviewedForms) -> HttpResponse:
    """Issue the grants and show their tokens. Raises ApiException, and then stores nothing."""
    now = timezone.now()
    client = app.existing_client or register_client(
        app.cleaned_data["new_client"], owner_id=current_owner(), now=now
    )
    reviewed.forms.terms.purpose_description = app.cleaned_data["purpose"]
    package = reviewed.issue(client, now)
    return tokens_page(request, package, issue_tokens(package, app.cleaned_data["tokens"]))


def _page(request: HttpRequest, app: AppForm, reviewed: ReviewedForms, error: str) -> HttpResponse:
    context = {
        **reviewed.context(error=error),
        "here": "connected-apps",
        "app": app,
        "changes": _additions(app.existing_client, reviewed.forms),
    }
    status = 422 if error else 200
    return render(request, "owner/grants/give.html", context, status=status)


def _additions(client: Client | None, selection: DraftForms) -> list[StreamDifference] | None:
    """Return what a known app could read in addition; None for a new app."""
    if client is None or selection.is_empty:
        return None
    rows = with_grant_state(timezone.now()).filter(package__client=client)
    grants = [grant for grant in rows if state_of(grant) in CURRENT_STATES]
    before = [Gate(grant_scope(grant, owner_id=current_owner())) for grant in grants]
    selected = [(source.source.source.pk, source.terms) for source in selection.selected]
    return compare_additions(before, Gate(preview_scope(selected, owner_id=current_owner())))


NOTHING_LEFT = "Nothing would be left. To remove all access, disconnect the app instead."
SUMMARY_CHANGED = "Your changes updated the summary. Check it, then choose Narrow access."


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
        error = reviewed.find_error(nothing_selected=NOTHING_LEFT, changed=SUMMARY_CHANGED)
        if not error:
            try:
                _narrow(grant, forms)
            except ApiException as refusal:
                error = refusal.message
            else:
                name = grant.package.client.display_name
                messages.success(request, f"{name} can now read less.")
                return redirect("connected-apps")
    return _narrow_form(request, grant, reviewed, error)


def _narrow(grant: Grant, forms: DraftForms) -> None:
    now = timezone.now()
    [narrowed] = forms.requests(now)
    narrow_grant(
        grant.pk,
        narrowed.streams,
        connection_ids=narrowed.connection_ids,
        expires_at=narrowed.expires_at,
        now=now,
    )


def _narrow_form(
    request: HttpRequest, grant: Grant, reviewed: ReviewedForms, error: str
) -> HttpResponse:
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
    [source] = forms.selected
    after = preview_scope([(source.source.source.pk, source.terms)], owner_id=current_owner())
    return compare_gates([Gate(grant_scope(grant, owner_id=current_owner()))], Gate(after))


def _grant_or_404(request: HttpRequest) -> Grant:
    rows = with_grant_state(timezone.now()).filter(package__owner_id=current_owner())
    grant = rows.filter(pk=request.GET.get("grant", "")).first()
    if grant is None or state_of(grant) not in CURRENT_STATES:
        raise Http404
    return grant
