"""Live accounts: connect one, see how it does, sync it now, pause it, and remove its password."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from evidence.errors import InvalidRequest
from evidence.models.owners import current_owner
from evidence.write.connections import set_paused
from importers.core.source import (
    Container,
    FieldKind,
    InstalledSource,
    ProblemCode,
    SourceError,
    SourceField,
)
from importers.models import SourceAccount
from importers.sources import account_store, accounts, oauth, outcome, status
from importers.sources.accounts import AccountDetails
from importers.sources.registry import find_source, installed_sources
from importers.sources.sync_batch import answer_deletions
from owner.account_choices import ChoiceForm, open_draft, seal_draft
from owner.form_fields import set_choices
from owner.own_addresses import FIELD, add_addresses, known_addresses
from owner.permissions import owner_required
from owner.text import escape_invisible


@require_safe
@owner_required
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


@require_http_methods(["GET", "HEAD", "POST"])
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
    initial = {outcome.SETTING: accounts.suggested_limit(details.settings), FIELD: "\n".join(own)}
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
                daily_megabytes=chosen[outcome.SETTING],
                owner_id=current_owner(),
                now=timezone.now(),
            )
        except InvalidRequest as refusal:
            form.add_error(None, refusal.message)
        else:
            add_addresses(account.connection_id, chosen.get(FIELD, ()), now=timezone.now())
            other = _choose_companion(request, details)
            return other or redirect("account", account.connection_id)
    context = {"here": "accounts", "source": source, "form": form}
    context["draft"] = seal_draft(details, found)
    return render(request, "owner/live_accounts/choose.html", context)


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
    context = {"here": "accounts", "source": source, "form": form}
    context["draft"] = seal_draft(companion, found)
    return render(request, "owner/live_accounts/choose.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@owner_required
def account_page(request: HttpRequest, connection_id: str) -> HttpResponse:
    """Show an account, and do what its buttons say."""
    account = account_store.find_account(connection_id, owner_id=current_owner())
    if account is None:
        raise Http404
    if request.method == "POST":
        action = ACTIONS.get(request.POST.get("action", ""))
        if action is not None:
            messages.success(request, action(account, request.POST.dict(), timezone.now()))
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
        "containers": [escape_invisible(titles.get(each, each)) for each in containers],
        "is_mirror": account.is_mirror,
        "is_paused": status.is_paused(account),
        "has_password": account.credential is not None,
        "signs_in": oauth.SETTING in account.settings,
        "last": account.succeeded_at,
        "next": status.next_run(account, now=now),
        "problem": problem and escape_invisible(problem),
        "question": question and escape_invisible(question),
        "through": (account.held_deletions or {}).get("through"),
        "daily_megabytes": account.settings.get(outcome.SETTING),
        "result": result,
        "skipped": skipped and escape_invisible(skipped),
        "moved_to": _moved_to(account),
    }


def _moved_to(account: SourceAccount) -> str:
    """Return the server to which that of the account leads, if the owner is to allow it."""
    problem = account.problem or {}
    return str(problem.get("detail", "")) if problem.get("code") == ProblemCode.MOVED else ""


Action = Callable[[SourceAccount, Mapping[str, str], datetime], str]


def _sync_now(account: SourceAccount, _values: Mapping[str, str], now: datetime) -> str:
    account_store.sync_now(account.connection_id, now=now)
    return "The account is read within a few seconds."


def _pause(account: SourceAccount, _values: Mapping[str, str], now: datetime) -> str:
    set_paused(account.connection_id, is_paused=True, now=now)
    return "Paused: nothing new is read. Apps can still read what is stored."


def _resume(account: SourceAccount, _values: Mapping[str, str], now: datetime) -> str:
    set_paused(account.connection_id, is_paused=False, now=now)
    account_store.sync_now(account.connection_id, now=now)
    return "Resumed."


def _allow_host(account: SourceAccount, values: Mapping[str, str], now: datetime) -> str:
    if not values.get("host") or values["host"] != _moved_to(account):
        return "The account has changed. Look at it again."
    try:
        accounts.confirm_host(account, values["host"], now=now)
    except InvalidRequest as refusal:
        return refusal.message
    return "Allowed. The account is read within a few seconds."


def _forget(account: SourceAccount, _values: Mapping[str, str], now: datetime) -> str:
    account_store.set_credential(account.connection_id, None, now=now)
    return "Access to the account is removed here. End it at your provider too. The records stay."


def _replace(account: SourceAccount, values: Mapping[str, str], now: datetime) -> str:
    source = find_source(account.source_name)
    if source is None:
        return "The package of this source is not installed."
    try:
        accounts.replace_password(account, source, values, now=now)
    except InvalidRequest as refusal:
        return refusal.message
    return "The new password is saved."


def _answer(account: SourceAccount, values: Mapping[str, str], now: datetime) -> str:
    """Delete, or keep, what the page asked about."""
    through, is_agreed = values.get("through", ""), values["action"] == "delete"
    if not through.isdecimal():
        return "Nothing was changed."
    answer_deletions(account, through=int(through), is_agreed=is_agreed, now=now)
    return "They are deleted with the next run." if is_agreed else "The records stay."


ACTIONS: dict[str, Action] = {
    "delete": _answer,
    "keep": _answer,
    "sync": _sync_now,
    "pause": _pause,
    "resume": _resume,
    "forget": _forget,
    "allow": _allow_host,
    "replace": _replace,
}


def form_texts(values: Mapping[str, Any]) -> dict[str, str]:
    texts = {name: "yes" if value is True else str(value or "") for name, value in values.items()}
    return texts | {"hosts": " ".join(values.get("hosts", ()))}
