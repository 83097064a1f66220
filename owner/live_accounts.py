"""Live accounts: connect one or sign in at its provider (OAuth), choose what it reads, and see how it does."""

import base64
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import orjson
from cryptography.exceptions import InvalidTag
from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from django.views.decorators.debug import sensitive_post_parameters

from evidence.access import crypto
from evidence.api.authentication import public_url
from evidence.errors import InvalidRequest
from evidence.models.connections import Connection
from evidence.models.owners import current_owner
from evidence.write.connections import set_paused
from evidence.write.sealed_values import SealedError
from importers.core.source import (
    Container,
    FieldKind,
    InstalledSource,
    ProblemCode,
    SourceError,
    SourceField,
)
from importers.models import SourceAccount
from importers.registry import find_source, installed_sources
from importers.sources import account_store, accounts, oauth, status
from importers.sources.account_store import DAILY_LIMIT
from importers.sources.accounts import AccountDetails
from importers.sources.sync_batch import answer_deletions
from owner.form_fields import (
    FIELD,
    OwnAddressesField,
    add_addresses,
    known_addresses,
    names_senders,
    set_choices,
)
from owner.permissions import owner_posts, owner_reads, owner_required
from owner.text import escape_invisible

DRAFT_SECONDS = 1_800
"""Time to choose folders. Until then the password is in the page, encrypted for this owner."""

PURPOSE = "account draft"
NEW = ""


class ChoiceForm(forms.Form):
    """Which folders to read, and where the records go; without ``connections``, they exist."""

    containers = forms.MultipleChoiceField(
        widget=forms.CheckboxSelectMultiple, error_messages={"required": "Choose one or more."}
    )
    connection = forms.ChoiceField(
        label="Add to",
        required=False,
        help_text="Choose the connection of an earlier import, and nothing is stored twice.",
    )
    own_addresses = OwnAddressesField()
    is_mirror = forms.BooleanField(
        label="Delete here what is deleted there",
        required=False,
        help_text="Only what this account brought, never what you imported.",
    )
    daily_megabytes = forms.IntegerField(
        label="Megabytes a day",
        required=False,
        min_value=1,
        help_text="Read at most this much a day. Left empty, there is no limit.",
    )

    def __init__(
        self,
        found: Sequence[Container],
        connections: Sequence[Connection] | None,
        source: InstalledSource,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.fields["containers"].label = source.container_title or "Contents"
        if not source.has_deletions:
            del self.fields["is_mirror"]
        named = []
        for each in found:
            title = escape_invisible(status.container_title(each.title))
            label = f"{title} ({each.items:,})" if each.items else title
            named.append((each.name, label))
        set_choices(self, "containers", named)
        self.initial.setdefault("containers", [each.name for each in found if each.is_usual])
        if connections is None or not names_senders(source.declaration):
            del self.fields[FIELD]
        if connections is None:
            del self.fields["connection"]
            return
        choices = [(each.connection_id, each.display_name) for each in connections]
        set_choices(self, "connection", [(NEW, "A new connection"), *choices])


def seal_draft(details: AccountDetails, found: Sequence[Container]) -> str:
    content = {
        "source": details.source.name,
        "settings": details.settings,
        "credential": details.credential,
        "containers": [[each.name, each.title, each.is_usual, each.items] for each in found],
        "until": time.time() + DRAFT_SECONDS,
    }
    sealed = crypto.encrypt(orjson.dumps(content), purpose=PURPOSE, bound_to=current_owner())
    return base64.urlsafe_b64encode(sealed).decode()


def open_draft(sealed: str) -> tuple[AccountDetails, list[Container]] | None:
    try:
        data = base64.urlsafe_b64decode(sealed)
        content = orjson.loads(crypto.decrypt(data, purpose=PURPOSE, bound_to=current_owner()))
    except (InvalidTag, ValueError):
        return None
    source = find_source(content["source"])
    if source is None or content["until"] < time.time():
        return None
    found = [Container(*each) for each in content["containers"]]
    return AccountDetails(source, content["settings"], content["credential"]), found


@owner_required
def account_choices(request: HttpRequest, connection_id: str) -> HttpResponse:
    """Change what an account reads."""
    account = account_store.find_account(connection_id, owner_id=current_owner())
    source = find_source(account.source_name) if account is not None else None
    if account is None or source is None:
        raise Http404
    draft = open_draft(request.POST.get("draft", ""))
    known = draft[1] if draft is not None and draft[0].source == source else None
    found = known or _sign_in(request, account, source)
    if found is None:
        return redirect("account", connection_id)
    data = request.POST if "draft" in request.POST else None
    initial = {
        "containers": account.settings["containers"],
        "is_mirror": account.is_mirror,
        DAILY_LIMIT: account.settings.get(DAILY_LIMIT),
    }
    form = ChoiceForm(found, None, source, data, initial=initial)
    if data is not None and form.is_valid():
        chosen = {"is_mirror": False, **form.cleaned_data}
        accounts.change_account(account, source, found=found, **chosen, now=timezone.now())
        messages.success(request, "Saved. The account is read within a few seconds.")
        return redirect("account", connection_id)
    # The password is not needed to save.
    details = AccountDetails(source, account.settings, {})
    return _choices_page(request, details, found, form, account=account)


def _choices_page(
    request: HttpRequest,
    details: AccountDetails,
    found: Sequence[Container],
    form: ChoiceForm,
    *,
    account: SourceAccount | None = None,
) -> HttpResponse:
    context = {"here": "accounts", "source": details.source, "form": form, "account": account}
    context["draft"] = seal_draft(details, found)
    return render(request, "owner/live_accounts/choose.html", context)


def _sign_in(
    request: HttpRequest, account: SourceAccount, source: InstalledSource
) -> list[Container] | None:
    """Return what the account has, or None after a message for the owner."""
    try:
        details = accounts.account_details(account, source)
        return accounts.list_containers(details, now=timezone.now())
    except SealedError:
        messages.error(request, "Enter the password or sign in again first.")
    except SourceError as error:
        messages.error(request, escape_invisible(status.explain(error)))
    return None


@owner_reads
def account_list(request: HttpRequest) -> HttpResponse:
    now = timezone.now()
    cards = [_card(each, now) for each in account_store.list_accounts(current_owner())]
    context = {"here": "accounts", "accounts": cards, "sources": installed_sources()}
    return render(request, "owner/live_accounts/list.html", context)


class DetailsForm(forms.Form):
    """What a source needs, from its manifest."""

    allows_private = forms.BooleanField(
        label="The server is in my own network",
        required=False,
        help_text="Allows private addresses, such as 192.168.1.10.",
    )

    hosts = forms.MultipleChoiceField(
        label="Other servers that may get the password or link",
        required=False,
        widget=forms.CheckboxSelectMultiple,
    )

    def __init__(self, source: InstalledSource, data: Any, offered: Sequence[str] = ()) -> None:
        super().__init__(data)
        for each in source.fields:
            self.fields[each.name] = _form_field(source, each)
        self.order_fields([each.name for each in source.fields])
        hosts = [*(data.getlist("hosts") if data else ()), *offered]
        if hosts:
            set_choices(self, "hosts", [(each, escape_invisible(each)) for each in hosts])
        else:
            del self.fields["hosts"]


def _form_field(source: InstalledSource, each: SourceField) -> forms.Field:
    is_found = each.kind is FieldKind.HOST or (each.kind is FieldKind.URL and source.discovery)
    is_secret = each.kind is FieldKind.SECRET
    kind = forms.PasswordInput if is_secret else forms.TextInput
    return forms.CharField(
        label=each.label,
        help_text=each.hint,
        initial=each.default,
        required=not is_found and not each.is_optional,
        strip=not is_secret,
        max_length=accounts.MAX_CHARS,
        widget=kind(attrs={"autocomplete": "new-password" if is_secret else "off"}),
    )


@owner_required
def connect_account(request: HttpRequest, name: str) -> HttpResponse:
    """Ask for the account, sign in, ask what to read, and start."""
    source = find_source(name)
    if source is None:
        raise Http404
    if "draft" in request.POST:
        return choose(request, source, open_draft(request.POST["draft"]))
    form = DetailsForm(source, request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            details = accounts.parse_details(source, form_texts(form.cleaned_data))
            found = accounts.list_containers(details, now=timezone.now())
        except InvalidRequest as refusal:
            form.add_error(refusal.param if refusal.param in form.fields else None, refusal.message)
        except SourceError as error:
            if error.code is ProblemCode.MOVED and error.detail:
                form = DetailsForm(source, request.POST, [error.detail])
                form.full_clean()
            form.add_error(None, escape_invisible(status.explain(error)))
        else:
            return choose(request, source, (details, found))
    context = {"here": "accounts", "source": source, "form": form, "providers": oauth.PROVIDERS}
    return render(request, "owner/live_accounts/connect.html", context)


def choose(
    request: HttpRequest,
    source: InstalledSource,
    draft: tuple[AccountDetails, Sequence[Container]] | None,
) -> HttpResponse:
    """Ask what to read of an account that signed in, and where the records go; then start."""
    if draft is None or draft[0].source != source:
        messages.error(request, "This page is too old. Enter the account again.")
        return redirect("account-connect", source.name)
    details, found = draft
    connections = accounts.candidates(source, owner_id=current_owner())
    data = request.POST if "draft" in request.POST else None
    user = str(details.settings.get("user", ""))
    own = dict.fromkeys([*([user.lower()] if "@" in user else []), *known_addresses()])
    initial = {DAILY_LIMIT: accounts.suggested_limit(details.settings), FIELD: "\n".join(own)}
    form = ChoiceForm(found, connections, source, data, initial=initial)
    if data is not None and form.is_valid():
        chosen = form.cleaned_data
        try:
            account = accounts.connect_account(
                details,
                containers=chosen["containers"],
                found=found,
                connection_id=chosen["connection"] or None,
                is_mirror=chosen.get("is_mirror", False),
                daily_megabytes=chosen[DAILY_LIMIT],
                owner_id=current_owner(),
                now=timezone.now(),
            )
        except InvalidRequest as refusal:
            form.add_error(None, refusal.message)
        else:
            add_addresses(account.connection_id, chosen.get(FIELD, ()), now=timezone.now())
            other = _choose_companion(request, details)
            return other or redirect("account", account.connection_id)
    return _choices_page(request, details, found, form)


def _choose_companion(request: HttpRequest, details: AccountDetails) -> HttpResponse | None:
    """Offer what else the same account has, such as contacts, or return None."""
    try:
        companion = accounts.companion_details(details)
        found = accounts.list_containers(companion, now=timezone.now()) if companion else []
    except (InvalidRequest, SourceError):
        return None
    if companion is None or not found:
        return None
    source = companion.source
    messages.success(
        request, f"Connected. The account also has {source.label.lower()}: start, or cancel."
    )
    form = ChoiceForm(found, accounts.candidates(source, owner_id=current_owner()), source)
    return _choices_page(request, companion, found, form)


@owner_required
def account_page(request: HttpRequest, connection_id: str) -> HttpResponse:
    """Show an account, and do what its buttons say."""
    account = account_store.find_account(connection_id, owner_id=current_owner())
    if account is None:
        raise Http404
    if request.method == "POST":
        if said := _act(account, request.POST.dict(), timezone.now()):
            messages.success(request, said)
        return redirect("account", connection_id)
    source = find_source(account.source_name)
    secrets = [each for each in source.fields if each.kind.is_secret] if source else []
    context = {
        "here": "accounts",
        "account": _card(account, timezone.now()),
        "secrets": secrets,
        "notes": [escape_invisible(each) for each in account.last_run.get("notes", [])],
    }
    return render(request, "owner/live_accounts/account.html", context)


def _card(account: SourceAccount, now: datetime) -> dict[str, Any]:
    problem, result = status.problem_line(account), status.result_line(account)
    question, skipped = status.question(account), status.skipped_line(account)
    containers, titles = (account.settings.get(name, {}) for name in ("containers", "titles"))
    return {
        "connection_id": account.connection_id,
        "name": account.connection.display_name,
        "source": account.connection.source.display_name,
        "server": str(account.settings.get("host", "")),
        "containers": [
            escape_invisible(status.container_title(titles.get(each, each))) for each in containers
        ],
        "is_mirror": account.is_mirror,
        "is_paused": status.is_paused(account),
        "has_password": account.credential is not None,
        "signs_in": oauth.SETTING in account.settings,
        "last": account.succeeded_at,
        "next": status.next_run(account, now=now),
        "problem": problem and escape_invisible(problem),
        "question": question and escape_invisible(question),
        "through": (account.held_deletions or {}).get("through"),
        "daily_megabytes": account.settings.get(DAILY_LIMIT),
        "result": result,
        "skipped": skipped and escape_invisible(skipped),
        "moved_to": _moved_to(account),
    }


def _moved_to(account: SourceAccount) -> str:
    """Return the server to which that of the account leads, if the owner is to allow it."""
    problem = account.problem or {}
    return str(problem.get("detail", "")) if problem.get("code") == ProblemCode.MOVED else ""


def _act(account: SourceAccount, values: Mapping[str, str], now: datetime) -> str:
    """Do what a button says, and return what came of it; empty for an unknown button."""
    pk = account.connection_id
    match values.get("action"):
        case "sync":
            account_store.set_due(pk, now)
            return "The account is read within a few seconds."
        case "pause":
            set_paused(pk, is_paused=True, now=now)
            return "Paused: nothing new is read. Apps can still read what is stored."
        case "resume":
            set_paused(pk, is_paused=False, now=now)
            account_store.set_due(pk, now)
            return "Resumed."
        case "forget":
            account_store.set_credential(pk, None, now=now)
            return "Access to the account is removed here. End it at your provider too. The records stay."
        case "allow" | "replace":
            return _change_access(account, values, now)
        case "delete" | "keep" if values.get("through", "").isdecimal():
            is_agreed = values["action"] == "delete"
            answer_deletions(account, through=int(values["through"]), is_agreed=is_agreed, now=now)
            return "They are deleted with the next run." if is_agreed else "The records stay."
        case "delete" | "keep":
            return "Nothing was changed."
    return ""


def _change_access(account: SourceAccount, values: Mapping[str, str], now: datetime) -> str:
    """Allow the server to which the account moved, or replace its password."""
    source, host = find_source(account.source_name), values.get("host")
    try:
        if values["action"] == "replace":
            if source is None:
                return "The package of this source is not installed."
            accounts.replace_password(account, source, values, now=now)
            return "The new password is saved."
        if not host or host != _moved_to(account):
            return "The account has changed. Look at it again."
        accounts.confirm_host(account, host, now=now)
    except InvalidRequest as refusal:
        return refusal.message
    return "Allowed. The account is read within a few seconds."


def form_texts(values: Mapping[str, Any]) -> dict[str, str]:
    texts = {name: "yes" if value is True else str(value or "") for name, value in values.items()}
    return texts | {"hosts": " ".join(values.get("hosts", ()))}


SESSION_KEY = "account_sign_in"
"""The sign-in that this session began last: the account, the state and the PKCE verifier, sealed."""

ENTERED_KEY = "account_sign_in_entered"
"""What the owner entered for a sign-in that failed, without its secrets, sealed."""

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
@owner_required
def sign_in_form(request: HttpRequest, name: str, provider: str) -> HttpResponse:
    """Ask for the account and the owner's client at the provider."""
    source, chosen = find_source(name), oauth.PROVIDERS.get(provider)
    if source is None or not source.signs_in or chosen is None:
        raise Http404
    form = ProviderForm(source, chosen, request.POST or None)
    draft = open_draft(request.session.pop(ENTERED_KEY, ""))
    if draft is not None and draft[0].source == source:
        form.initial = draft[0].settings | draft[0].settings[oauth.SETTING]
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
@owner_posts
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


@owner_reads
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
        return _start(request, details, begun)
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
        return _start(request, details, begun)
    if not begun["connection_id"]:
        return choose(request, details.source, (details, found))
    account = account_store.find_account(begun["connection_id"], owner_id=current_owner())
    if account is None:
        raise Http404
    account_store.set_credential(account.connection_id, credential, now=timezone.now())
    messages.success(request, "Signed in. The account is read within a few seconds.")
    return redirect("account", account.connection_id)


def _start(request: HttpRequest, details: AccountDetails, begun: Mapping[str, str]) -> HttpResponse:
    """Return to the page where the sign-in began, with what was entered there."""
    if begun["connection_id"]:
        return redirect("account", begun["connection_id"])
    provider = details.settings[oauth.SETTING]["provider"]
    request.session[ENTERED_KEY] = seal_draft(replace(details, credential={}), ())
    return redirect("account-sign-in", details.source.name, provider)


def _redirect_uri(request: HttpRequest) -> str:
    return public_url(request.get_host()) + reverse("account-signed-in")
