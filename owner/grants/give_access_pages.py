"""Giving access, in three pages: who and from where; what and how long; is that right?

Nothing is kept between the pages but what they carry themselves, so any of them can be left,
reloaded or gone back to. Only the last button writes. The review page carries a signed approval id,
which is unique among packages: submitting that page twice, even at the same moment, gives access once.
"""

import secrets
from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib import messages
from django.core import signing
from django.db import transaction
from django.forms.boundfield import BoundWidget
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from typing_extensions import override

from evidence import limits
from evidence.access.gate import Gate
from evidence.access.grant_states import State, grants_with_state, in_state
from evidence.access.grants import approved_before, hold_sources, issue, register_client
from evidence.access.owner_scope import held_scope, tried_scope
from evidence.access.quotas import set_limits, set_share
from evidence.errors import Refusal
from evidence.models.accounts import Client
from evidence.models.connections import Connection
from evidence.models.grants import Package
from owner.form_fields import offer, printable
from owner.formatting import when
from owner.grants.draft import Draft, source_draft, with_view_ticked
from owner.grants.grant_pages import Minted, mint, shown_once
from owner.grants.grantable_sources import readable_connections, whole_offers
from owner.grants.preview import Difference, gains, previews
from owner.grants.term_forms import GivingForm
from owner.site import owner, page


class WhoForm(forms.Form):
    """The client, known or new, and the connections."""

    client = forms.ChoiceField(label="Known client", required=False)
    new_client = forms.CharField(
        label="New client",
        required=False,
        max_length=limits.LABEL_MAX_CHARS,
        help_text="Name it so that you will know it again, such as “Claude on my laptop”.",
    )
    connections = forms.MultipleChoiceField(
        label="Which of your connections may it read?",
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": "Tick at least one connection."},
    )

    def __init__(
        self, data: Any = None, *, clients: Sequence[Client], connections: Sequence[Connection]
    ) -> None:
        super().__init__(data)
        self._clients = {client.pk: client for client in clients}
        self._connections = connections
        named = [(client.pk, client.display_name) for client in clients]
        offer(self, "client", [("", "A new client"), *named])
        offer(self, "connections", [(each.pk, each.display_name) for each in connections])

    def clean_new_client(self) -> str:
        name = printable(self.cleaned_data["new_client"].strip())
        if any(client.display_name == name for client in self._clients.values()):
            raise forms.ValidationError("There is a client of that name; choose it in the list.")
        return name

    @override
    def clean(self) -> None:
        if self.errors:
            return
        known, new = self.cleaned_data["client"], self.cleaned_data["new_client"]
        if known and new:
            self.add_error("new_client", "Choose a known client or name a new one, not both.")
        if not known and not new:
            self.add_error("new_client", "Give the new client a name, or choose a known one.")

    @property
    def groups(self) -> list[tuple[str, list[BoundWidget]]]:
        """The boxes of the connections, under the names of their sources."""
        together: dict[str, list[BoundWidget]] = {}
        for box, connection in zip(self["connections"], self._connections, strict=True):
            together.setdefault(connection.source.display_name, []).append(box)
        return list(together.items())

    @property
    def known_client(self) -> Client | None:
        return self._clients.get(self.cleaned_data["client"])

    @property
    def client_name(self) -> str:
        known = self.known_client
        name: str = self.cleaned_data["new_client"] if known is None else known.display_name
        return name


APPROVAL = "approval"
ALREADY_GIVEN = (
    "Access was already given with this form. If you did not copy the token, open the grant and choose"
    " “Make another token”."
)
_approvals = signing.Signer(salt="pdpp/give-access")


class AlreadyGivenError(Exception):
    """The same review page was submitted before."""


def who(request: HttpRequest) -> HttpResponse:
    """First page: the client and the connections."""
    asked = "next" in request.GET
    form = _who_form(request.GET if asked else None)
    if asked and form.is_valid():
        return redirect(_url("what", request.GET))
    if not asked:
        form.initial = request.GET.dict()
    return page(request, "grant_who", title="Give access", context={"form": form})


def what(request: HttpRequest) -> HttpResponse:
    """Second page, and the third, which shows the answers to the second in words."""
    approval = _approval(request)
    # Checked before the form: once access was given, the new client's name is taken.
    if approval is not None and approved_before(approval) is not None:
        return _already_given(request)
    chosen = _who_form(request.GET)
    if not chosen.is_valid():
        return redirect(_url("add", request.GET))
    connections = [
        each
        for each in readable_connections(owner().pk)
        if each.pk in chosen.cleaned_data["connections"]
    ]
    data = request.POST if request.method == "POST" else None
    draft = _draft(connections, data)
    if data is None:
        return _what_page(request, chosen, draft)
    if "pick" in data:
        picked = with_view_ticked(data, data["pick"], forms=draft.streams)
        return _what_page(request, chosen, _draft(connections, picked))
    if not draft.check() or "change" in data:
        return _what_page(request, chosen, draft)
    if approval is not None:
        return _issued(request, chosen, draft, approval)
    return _review_page(request, chosen, draft)


def _draft(connections: list[Connection], data: QueryDict | None) -> Draft[GivingForm]:
    offers = whole_offers(connections)
    return Draft(
        [source_draft(each, each.connections, data) for each in offers], terms=GivingForm(data)
    )


def _issued(
    request: HttpRequest, chosen: WhoForm, draft: Draft[GivingForm], approval: str
) -> HttpResponse:
    try:
        package, minted = _given(chosen, draft, approval)
    except AlreadyGivenError:
        return _already_given(request)
    except Refusal as refusal:
        draft.error = refusal.message
        return _what_page(request, chosen, draft)
    return shown_once(request, package, minted)


@transaction.atomic
def _given(chosen: WhoForm, draft: Draft[GivingForm], approval: str) -> tuple[Package, Minted]:
    """The new package and its tokens. Raises ``AlreadyGivenError`` and ``Refusal``."""
    now = timezone.now()
    hold_sources(owner().pk)
    if approved_before(approval) is not None:
        raise AlreadyGivenError
    client = chosen.known_client or register_client(
        chosen.client_name, owner_id=owner().pk, now=now
    )
    package, grants = issue(draft.requests(now), client=client, now=now, approval=approval)
    for grant in grants:
        set_limits(grant.pk, draft.terms.limits, now=now)
        set_share(grant.pk, draft.terms.cleaned_data["share"])
    return package, mint(package, draft.terms.cleaned_data["tokens"])


def _already_given(request: HttpRequest) -> HttpResponse:
    messages.error(request, ALREADY_GIVEN)
    return redirect("admin:evidence_grant_changelist")


def _what_page(request: HttpRequest, chosen: WhoForm, draft: Draft[GivingForm]) -> HttpResponse:
    context = {
        "draft": draft,
        "client_name": chosen.client_name,
        "back": _url("add", request.GET, without="next"),
    }
    return page(request, "grant_what", title="Give access", context=context)


def _review_page(request: HttpRequest, chosen: WhoForm, draft: Draft[GivingForm]) -> HttpResponse:
    ours = {"csrfmiddlewaretoken", "review", "issue", "change", "pick", APPROVAL}
    answers = [
        (name, value)
        for name, values in request.POST.lists()
        if name not in ours
        for value in values
    ]
    context = {
        "draft": draft,
        "client_name": chosen.client_name,
        "is_new": chosen.known_client is None,
        "previews": [*previews(draft.sources).values()],
        "gains": _gains(chosen, draft),
        "tokens": draft.terms.tokens_in_words,
        "limits": draft.terms.limits_in_words,
        "ends": when(draft.terms.ends_at(timezone.now())),
        "answers": answers,
        "approval": _approvals.sign(secrets.token_urlsafe(16)),
    }
    return page(request, "grant_review", title="Is this right?", context=context)


def _gains(chosen: WhoForm, draft: Draft[GivingForm]) -> list[Difference] | None:
    """What a known client would read more than it does; None for a new one, to which all is more."""
    if chosen.known_client is None:
        return None
    rows = grants_with_state(timezone.now()).filter(package__client=chosen.known_client)
    held = [*in_state(rows, State.ACTIVE), *in_state(rows, State.PAUSED)]
    before = [Gate(held_scope(each, owner_id=owner().pk)) for each in held]
    wanted = [(each.offer.source.pk, each.terms) for each in draft.sources]
    return gains(before, Gate(tried_scope(wanted, owner_id=owner().pk)))


def _approval(request: HttpRequest) -> str | None:
    """The approval id of the review page whose last button was pressed; None for any other POST."""
    if "issue" not in request.POST:
        return None
    try:
        return _approvals.unsign(request.POST.get(APPROVAL, ""))
    except signing.BadSignature:
        return None


def _who_form(data: QueryDict | None) -> WhoForm:
    clients = Client.unscoped.filter(owner=owner()).order_by("display_name", "client_id")
    return WhoForm(data, clients=list(clients), connections=readable_connections(owner().pk))


def _url(view: str, answers: QueryDict, *, without: str = "") -> str:
    carried = answers.copy()
    carried.pop(without, None)
    return f"{reverse(f'admin:evidence_grant_{view}')}?{carried.urlencode()}"
