"""Give, narrow and widen access: the consent form for an app without a sign-in of its own, and for less.

An app without a sign-in gets tokens. Narrowing is limited to what the grant allows now. An app's request
for more is answered on a page of its own.
"""

import hmac
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from typing_extensions import override

from evidence import limits
from evidence.access.gate import Gate
from evidence.access.grant_lifecycle import (
    Answer,
    answer_request,
    describe_request,
    find_request,
    narrow_grant,
    requested_grant,
    temporary_grant,
    widened_terms,
)
from evidence.access.grant_states import (
    CURRENT_STATES,
    connection_labels,
    state_of,
    terms_of,
    with_grant_state,
)
from evidence.access.grant_terms import serialize_terms
from evidence.access.grant_text import field_label, format_day
from evidence.access.grants import (
    find_approved_package,
    lock_packages,
    lock_sources,
    register_client,
)
from evidence.access.owner_scope import grant_scope, preview_scope
from evidence.access.record_counts import count_records
from evidence.errors import ApiException
from evidence.models.clients import Client
from evidence.models.grants import Grant, PermissionRequest
from evidence.models.owners import current_owner
from owner.form_fields import set_choices, validate_printable
from owner.grants.grant_forms import NEVER, DraftForms, TokensForm
from owner.grants.grant_pages import issue_tokens, tokens_page
from owner.grants.grantable_sources import all_grantable, narrowable, readable_connections
from owner.grants.preview import (
    StreamDifference,
    compare_additions,
    compare_gates,
    describe_extent,
    newest_samples,
)
from owner.grants.wizard import HAS_ERRORS, ReviewedForms, review_signature
from owner.permissions import owner_required
from owner.text import describe_terms, format_time

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
    response, error = None, HAS_ERRORS
    if not is_allowed or app.is_valid():
        response, error = reviewed.decide(
            lambda: _issue(request, app, reviewed),
            nothing_selected=NOTHING_SELECTED,
            changed=REVIEW_CHANGED,
        )
    return response or _page(request, app, reviewed, error)


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


@owner_required
def narrow_page(request: HttpRequest) -> HttpResponse:
    """Show the form and its counts, or replace the grant with a narrower one."""
    grant = _grant_or_404(request)
    source = narrowable(grant, owner_id=current_owner())
    if source is None or not source.bounds:
        messages.error(request, "This grant gives access to nothing, so it cannot be narrowed.")
        return redirect("connected-apps")
    data = request.POST if request.method == "POST" else None
    end = grant.expires_at
    expires = NEVER if end is None else ""
    forms = DraftForms([source], data, latest_expiry=end, selected=True, expires=expires)
    reviewed = ReviewedForms(request, forms, ["narrow", grant.pk])
    narrowed, error = reviewed.decide(
        lambda: _narrow(grant, forms), nothing_selected=NOTHING_LEFT, changed=SUMMARY_CHANGED
    )
    if narrowed is not None:
        messages.success(request, f"{grant.package.client.display_name} can now read less.")
        return redirect("connected-apps")
    return _narrow_form(request, grant, reviewed, error)


def _narrow(grant: Grant, forms: DraftForms) -> Grant:
    now = timezone.now()
    [narrowed] = forms.requests(now)
    return narrow_grant(
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
        "change_of_end": _change_of_end(grant, reviewed.forms),
    }
    status = 422 if error else 200
    return render(request, "owner/grants/narrow.html", context, status=status)


def _change_of_end(grant: Grant, forms: DraftForms) -> str:
    """Return how the end of the grant would change; empty if it would not."""
    end = forms.terms.expires_at(timezone.now()) if forms.terms.is_valid() else grant.expires_at
    if end is None or end == grant.expires_at:
        return ""
    now = (
        "it does not expire"
        if grant.expires_at is None
        else f"it expires on {format_day(grant.expires_at)}"
    )
    return f"Access will expire on {format_day(end)}. Currently, {now}."


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


ACCESS_CHANGED = "The access changed meanwhile. Check the request again, then answer it."
OUTCOMES = {
    Answer.ONCE: "{} can now read {} once.",
    Answer.HOUR: "{} can now read {} for an hour.",
    Answer.ALWAYS: "{} can now read {}.",
    Answer.DECLINED: "{} stays without {}. It cannot ask for this again for a day.",
}


@owner_required
def permission_page(request: HttpRequest, token: str) -> HttpResponse:
    """Show what the app asks for. A POST stores the answer; opening the page changes nothing."""
    asked = find_request(token, owner_id=current_owner())
    if asked is None:
        raise Http404
    if request.method != "POST":
        return _request_page(request, asked)
    answer = request.POST.get("answer", "")
    if answer not in Answer.values:
        return _request_page(request, asked, error="Choose one of the answers.")
    with transaction.atomic():
        lock_sources(current_owner())
        lock_packages(pk=asked.grant.package_id)
        offer = _offer(asked)
        signature = request.POST.get("review_signature", "")
        if answer != Answer.DECLINED and offer is not None:
            expected = _signature(request, asked, offer)
            if not hmac.compare_digest(signature.encode(), expected.encode()):
                return _request_page(request, asked, error=ACCESS_CHANGED)
        if offer is None or not answer_request(asked.pk, answer, now=timezone.now()):
            return redirect(request.path)
    name = asked.grant.package.client.display_name
    messages.success(request, OUTCOMES[Answer(answer)].format(name, describe_request(asked)))
    return redirect("home")


def _request_page(
    request: HttpRequest, asked: PermissionRequest, *, error: str = ""
) -> HttpResponse:
    context = {
        "here": "home",
        "asked": asked,
        "name": asked.grant.package.client.display_name,
        "what": describe_request(asked),
        "error": error,
    }
    if offer := _offer(asked):
        labels, grant = connection_labels(current_owner()), offer["grant"]
        context |= {
            "offer": offer,
            "now": [
                describe_terms(terms, stream=stream, labels=labels)
                for terms, stream in terms_of(grant)
            ],
            "expires": format_time(grant.expires_at, never=""),
            "review_signature": _signature(request, asked, offer),
        }
    status = 422 if error else 200 if offer is not None or asked.answered_at else 410
    return render(request, "owner/grants/permission.html", context, status=status)


def _offer(asked: PermissionRequest) -> dict[str, Any] | None:
    """Return what an answer would add to a grant, or None if it cannot be answered any more."""
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
    samples = newest_samples(visible)
    for sample in samples:
        sample["values"] = [value for value in sample["values"] if value.name in added]
    return {
        "grant": grant,
        "differences": compare_gates([Gate(grant_scope(grant, owner_id=current_owner()))], after),
        "count": count_records(visible),
        "extent": describe_extent(visible),
        "ignores_time": all(term.time is None for term in terms if term.name == asked.stream)
        and any(term.time is not None for term in terms),
        "samples": samples,
        "hidden_fields": [labels[name] for name in hidden],
        "replaces": temporary_grant(grant, asked.stream, now),
        "terms": [
            grant.pk,
            grant.source.current_declaration_id,
            *serialize_terms(terms, time_fields={}),
        ],
    }


def _signature(request: HttpRequest, asked: PermissionRequest, offer: Mapping[str, Any]) -> str:
    subject = ["permission", asked.pk, offer["terms"]]
    return review_signature([], subject=subject, form_token="", user_pk=request.user.pk)
