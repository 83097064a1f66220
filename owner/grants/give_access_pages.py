"""Give access: choose a client and connections, then run the grant wizard and show the tokens.

Each page carries all earlier answers, so nothing is stored until the last button is pressed. The
review page carries a signed approval id, unique among packages: submitting it twice gives access once.
"""

from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib import messages
from django.db import transaction
from django.forms.boundfield import BoundWidget
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from typing_extensions import override

from evidence import limits
from evidence.access.gate import Gate
from evidence.access.grant_states import GrantState, filter_state, with_grant_state
from evidence.access.grants import find_approved_package, issue, lock_sources, register_client
from evidence.access.owner_scope import grant_scope, preview_scope
from evidence.access.quotas import set_quotas, set_tripwire_share
from evidence.errors import ApiException
from evidence.models.accounts import Client
from evidence.models.connections import Connection
from evidence.models.grants import Package
from owner.form_fields import APPROVAL, new_approval, read_approval, set_choices, validate_printable
from owner.grants.draft import Draft, select_view, source_draft
from owner.grants.grant_pages import IssuedTokens, issue_tokens, tokens_page
from owner.grants.grantable_sources import all_grantable, readable_connections
from owner.grants.preview import StreamDifference, compare_additions, preview_sources
from owner.grants.term_forms import GiveAccessForm
from owner.site import owner, page
from owner.text import format_time


class ClientForm(forms.Form):
    """The client, existing or new, and the connections."""

    client = forms.ChoiceField(label="Existing client", required=False)
    new_client = forms.CharField(
        label="New client",
        required=False,
        max_length=limits.LABEL_MAX_CHARS,
        help_text="A name that you will recognize, such as “Claude on my laptop”.",
    )
    connections = forms.MultipleChoiceField(
        label="Which of your connections may it read?",
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": "Select at least one connection."},
    )

    def __init__(
        self, data: Any = None, *, clients: Sequence[Client], connections: Sequence[Connection]
    ) -> None:
        super().__init__(data)
        self._clients = {client.pk: client for client in clients}
        self._connections = connections
        client_choices = [(client.pk, client.display_name) for client in clients]
        set_choices(self, "client", [("", "A new client"), *client_choices])
        set_choices(self, "connections", [(row.pk, row.label) for row in connections])

    def clean_new_client(self) -> str:
        name = validate_printable(self.cleaned_data["new_client"].strip())
        if any(client.display_name == name for client in self._clients.values()):
            raise forms.ValidationError("A client with this name exists. Choose it in the list.")
        return name

    @override
    def clean(self) -> None:
        if self.errors:
            return
        existing, new = self.cleaned_data["client"], self.cleaned_data["new_client"]
        if existing and new:
            self.add_error("new_client", "Choose an existing client or enter a new name, not both.")
        if not existing and not new:
            self.add_error("new_client", "Enter a name, or choose an existing client.")

    @property
    def groups(self) -> list[tuple[str, list[BoundWidget]]]:
        """Return the checkboxes of the connections, grouped by source name."""
        groups: dict[str, list[BoundWidget]] = {}
        for box, connection in zip(self["connections"], self._connections, strict=True):
            groups.setdefault(connection.source.display_name, []).append(box)
        return list(groups.items())

    @property
    def existing_client(self) -> Client | None:
        return self._clients.get(self.cleaned_data["client"])

    @property
    def client_name(self) -> str:
        client = self.existing_client
        name: str = self.cleaned_data["new_client"] if client is None else client.display_name
        return name


ALREADY_GIVEN = (
    "Access was already given with this form. If you did not copy the token, open the grant and choose"
    " “Create another token”."
)


class AlreadyGivenError(Exception):
    """The same review page was submitted before."""


def choose_client(request: HttpRequest) -> HttpResponse:
    """Show the first page: the client and the connections."""
    is_submitted = "next" in request.GET
    form = _client_form(request.GET if is_submitted else None)
    if is_submitted and form.is_valid():
        return redirect(_url("scope", request.GET))
    if not is_submitted:
        form.initial = request.GET.dict()
    return page(request, "give_access_client", title="Give access", context={"form": form})


def choose_scope(request: HttpRequest) -> HttpResponse:
    """Show the second page (scope and terms) or the third (review), or issue the grants."""
    approval = _approval(request)
    # Check this first: a client created by the first submission would fail the form's validation.
    if approval is not None and find_approved_package(approval) is not None:
        return _already_given(request)
    client_form = _client_form(request.GET)
    if not client_form.is_valid():
        return redirect(_url("add", request.GET))
    connections = [
        row
        for row in readable_connections(owner().pk)
        if row.pk in client_form.cleaned_data["connections"]
    ]
    data = request.POST if request.method == "POST" else None
    draft = _draft(connections, data)
    if data is None:
        return _scope_page(request, client_form, draft)
    if "pick" in data:
        picked = select_view(data, data["pick"], forms=draft.streams)
        return _scope_page(request, client_form, _draft(connections, picked))
    if not draft.check() or "change" in data:
        return _scope_page(request, client_form, draft)
    if approval is not None:
        return _issue_grants(request, client_form, draft, approval)
    return _review_page(request, client_form, draft)


def _draft(connections: list[Connection], data: QueryDict | None) -> Draft[GiveAccessForm]:
    sources = all_grantable(connections)
    return Draft(
        [source_draft(source, source.connections, data) for source in sources],
        terms=GiveAccessForm(data),
    )


def _issue_grants(
    request: HttpRequest, client_form: ClientForm, draft: Draft[GiveAccessForm], approval: str
) -> HttpResponse:
    try:
        package, tokens = _issue_once(client_form, draft, approval)
    except AlreadyGivenError:
        return _already_given(request)
    except ApiException as error:
        draft.error = error.message
        return _scope_page(request, client_form, draft)
    return tokens_page(request, package, tokens)


@transaction.atomic
def _issue_once(
    client_form: ClientForm, draft: Draft[GiveAccessForm], approval: str
) -> tuple[Package, IssuedTokens]:
    """Return the new package and its tokens. Raises AlreadyGivenError or ApiException."""
    now = timezone.now()
    lock_sources(owner().pk)
    if find_approved_package(approval) is not None:
        raise AlreadyGivenError
    client = client_form.existing_client or register_client(
        client_form.client_name, owner_id=owner().pk, now=now
    )
    package, grants = issue(draft.requests(now), client=client, now=now, approval=approval)
    for grant in grants:
        set_quotas(grant.pk, draft.terms.limits, now=now)
        set_tripwire_share(grant.pk, draft.terms.cleaned_data["share"])
    return package, issue_tokens(package, draft.terms.cleaned_data["tokens"])


def _already_given(request: HttpRequest) -> HttpResponse:
    messages.error(request, ALREADY_GIVEN)
    return redirect("admin:evidence_grant_changelist")


def _scope_page(
    request: HttpRequest, client_form: ClientForm, draft: Draft[GiveAccessForm]
) -> HttpResponse:
    context = {
        "draft": draft,
        "client_name": client_form.client_name,
        "back": _url("add", request.GET, without="next"),
    }
    return page(request, "give_access_scope", title="Give access", context=context)


def _review_page(
    request: HttpRequest, client_form: ClientForm, draft: Draft[GiveAccessForm]
) -> HttpResponse:
    own_fields = {"csrfmiddlewaretoken", "review", "issue", "change", "pick", APPROVAL}
    posted = [
        (name, value)
        for name, values in request.POST.lists()
        if name not in own_fields
        for value in values
    ]
    context = {
        "draft": draft,
        "client_name": client_form.client_name,
        "is_new": client_form.existing_client is None,
        "previews": [*preview_sources(draft.sources).values()],
        "additions": _additions(client_form, draft),
        "tokens": draft.terms.tokens_text,
        "limits": draft.terms.limits_text,
        "expires": format_time(draft.terms.expires_at(timezone.now())),
        "posted": posted,
        "approval": new_approval(),
    }
    return page(request, "grant_review", title="Review access", context=context)


def _additions(
    client_form: ClientForm, draft: Draft[GiveAccessForm]
) -> list[StreamDifference] | None:
    """Return what an existing client could read in addition; None for a new client."""
    if client_form.existing_client is None:
        return None
    rows = with_grant_state(timezone.now()).filter(package__client=client_form.existing_client)
    grants = [*filter_state(rows, GrantState.ACTIVE), *filter_state(rows, GrantState.PAUSED)]
    before = [Gate(grant_scope(grant, owner_id=owner().pk)) for grant in grants]
    selected = [(source.source.source.pk, source.terms) for source in draft.sources]
    return compare_additions(before, Gate(preview_scope(selected, owner_id=owner().pk)))


def _approval(request: HttpRequest) -> str | None:
    """Return the approval id if the final button of the review page was pressed, else None."""
    return read_approval(request) if "issue" in request.POST else None


def _client_form(data: QueryDict | None) -> ClientForm:
    clients = Client.unscoped.filter(owner=owner()).order_by("display_name", "client_id")
    return ClientForm(data, clients=list(clients), connections=readable_connections(owner().pk))


def _url(view: str, data: QueryDict, *, without: str = "") -> str:
    parameters = data.copy()
    parameters.pop(without, None)
    return f"{reverse(f'admin:evidence_grant_{view}')}?{parameters.urlencode()}"
