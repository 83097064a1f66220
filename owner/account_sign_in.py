"""Sign in to an account at its provider (OAuth): the form, the redirect, and signing in again."""

import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from evidence.api.authentication import public_url
from evidence.errors import InvalidRequest
from evidence.models.owners import current_owner
from evidence.write.sealed_values import SealedError
from importers.core.source import FieldKind, InstalledSource, SourceError
from importers.sources import account_store, accounts, oauth, status
from importers.sources.accounts import AccountDetails
from importers.sources.registry import find_source
from owner.live_accounts import DetailsForm, choose, form_texts, open_draft, seal_draft
from owner.permissions import owner_required
from owner.text import escape_invisible

SESSION_KEY = "account_sign_in"
"""The sign-in that this session began last: the account, the state and the PKCE verifier, sealed."""

MAX_CODE_CHARS = 4_096
TOO_OLD = (
    "This sign-in is too old, was used already, or began in another browser. Start again here."
)
REFUSALS = {
    "access_denied": "The sign-in was declined at the provider. Nothing was connected or changed.",
    "temporarily_unavailable": "The provider cannot sign you in at the moment. Try again later.",
    "server_error": "The provider cannot sign you in at the moment. Try again later.",
}
REFUSED = (
    "The provider refused the request. Check the client ID, the scope and the redirect URI there."
)


class ProviderForm(DetailsForm):
    """What a source and a provider need to sign in. A known provider has its own addresses."""

    client_id = forms.CharField(label="Client ID", max_length=accounts.MAX_CHARS)
    client_secret = forms.CharField(
        label="Client secret",
        required=False,
        max_length=accounts.MAX_CHARS,
        help_text="Empty if the provider gave none.",
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )
    authorization_url = forms.CharField(label="Authorization address", max_length=1_000)
    token_url = forms.CharField(label="Token address", max_length=1_000)
    scope = forms.CharField(
        label="Scope", max_length=1_000, help_text="With offline_access, where the provider has it."
    )

    def __init__(self, source: InstalledSource, provider: oauth.SignInProvider, data: Any) -> None:
        super().__init__(source, data)
        hidden = {each.name for each in source.fields if each.kind is FieldKind.SECRET} | {"hosts"}
        if provider.host:
            hidden |= {"host", "port", "allows_private"}
            hidden |= {"authorization_url", "token_url", "scope"}
        for name in hidden & self.fields.keys():
            del self.fields[name]


@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
@owner_required
def sign_in_form(request: HttpRequest, name: str, provider: str) -> HttpResponse:
    """Ask for the account and the owner's client at the provider."""
    source, chosen = find_source(name), oauth.PROVIDERS.get(provider)
    if source is None or not source.signs_in or chosen is None:
        raise Http404
    form = ProviderForm(source, chosen, request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            details = accounts.parse_sign_in(source, provider, form_texts(form.cleaned_data))
        except InvalidRequest as refusal:
            form.add_error(refusal.param if refusal.param in form.fields else None, refusal.message)
        else:
            return _continue_page(request, details)
    context = {"here": "accounts", "source": source, "form": form, "provider": chosen.title}
    context["redirect_uri"] = _redirect_uri(request)
    return render(request, "owner/live_accounts/connect.html", context)


@sensitive_post_parameters()
@require_POST
@owner_required
def sign_in_again(request: HttpRequest, connection_id: str) -> HttpResponse:
    """Renew the sign-in of an account, with another client secret if the owner enters one."""
    account = account_store.find_account(connection_id, owner_id=current_owner())
    source = find_source(account.source_name) if account is not None else None
    if account is None or source is None or oauth.SETTING not in account.settings:
        raise Http404
    secret = request.POST.get("client_secret", "").strip()[: accounts.MAX_CHARS]
    if not secret:
        with suppress(SealedError):
            secret = account_store.open_credential(account).get("client_secret", "")
    details = AccountDetails(source, account.settings, {"client_secret": secret})
    return _continue_page(request, details, connection_id=connection_id)


def _continue_page(
    request: HttpRequest, details: AccountDetails, *, connection_id: str = ""
) -> HttpResponse:
    """Show the link to the provider. A redirect of a form would break the policy of the pages."""
    state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(64)
    pending = {"state": state, "verifier": verifier, "connection_id": connection_id}
    begun = replace(details, credential={**details.credential, **pending})
    request.session[SESSION_KEY] = seal_draft(begun, ())
    address = oauth.authorization_url(
        details.settings, redirect_uri=_redirect_uri(request), state=state, verifier=verifier
    )
    context = {
        "here": "accounts",
        "address": address,
        "host": urlsplit(address).hostname,
        "user": details.settings["user"],
        "redirect_uri": _redirect_uri(request),
    }
    return render(request, "owner/live_accounts/sign_in.html", context)


@require_GET
@owner_required
def signed_in(request: HttpRequest) -> HttpResponse:
    """Receive the owner from the provider, and store what its code is good for."""
    draft = open_draft(request.session.get(SESSION_KEY, ""))
    begun = draft[0].credential if draft is not None else {}
    if draft is None or not constant_time_compare(begun["state"], request.GET.get("state", "")):
        messages.error(request, TOO_OLD)
        return redirect("accounts")
    del request.session[SESSION_KEY]
    request.session.save()  # the state is used up, whatever follows
    details = draft[0]
    if "error" in request.GET:
        messages.error(request, REFUSALS.get(request.GET["error"], REFUSED))
        return _start(details, begun)
    try:
        credential = oauth.exchange_code(
            details.settings,
            begun.get("client_secret", ""),
            code=request.GET.get("code", "")[:MAX_CODE_CHARS],
            verifier=begun["verifier"],
            redirect_uri=_redirect_uri(request),
        )
        details = replace(details, credential=credential)
        found = accounts.list_containers(details, now=timezone.now())
    except SourceError as error:
        messages.error(request, escape_invisible(status.explain(error)))
        return _start(details, begun)
    if not begun["connection_id"]:
        return choose(request, details.source, (details, found))
    account = account_store.find_account(begun["connection_id"], owner_id=current_owner())
    if account is None:
        raise Http404
    account_store.set_credential(account.connection_id, credential, now=timezone.now())
    messages.success(request, "Signed in. The account is read within a few seconds.")
    return redirect("account", account.connection_id)


def _start(details: AccountDetails, begun: Mapping[str, str]) -> HttpResponse:
    """Return to the page where the sign-in began."""
    if begun["connection_id"]:
        return redirect("account", begun["connection_id"])
    provider = details.settings[oauth.SETTING]["provider"]
    return redirect("account-sign-in", details.source.name, provider)


def _redirect_uri(request: HttpRequest) -> str:
    return public_url(request.get_host()) + reverse("account-signed-in")
