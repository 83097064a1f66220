"""Live accounts: connect one, see how it does, sync it now, pause it, and remove its password."""

import base64
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import orjson
from cryptography.exceptions import InvalidTag
from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from evidence.access import crypto
from evidence.errors import InvalidRequest
from evidence.models.connections import Connection
from evidence.models.source_accounts import SourceAccount
from evidence.storing import source_accounts
from evidence.storing.connections import set_paused
from importers.core.source import (
    PROBLEM_TEXTS,
    Container,
    FieldKind,
    InstalledSource,
    SourceError,
    SourceField,
)
from importers.sources import accounts, status
from importers.sources.accounts import AccountDetails
from importers.sources.registry import find_source, installed_sources
from owner.form_fields import set_choices
from owner.permissions import owner_required
from owner.site import owner
from owner.text import escape_invisible

DRAFT_SECONDS = 1_800
"""Time to choose folders. Until then the password is in the page, encrypted for this owner."""

PURPOSE = "account draft"
NEW = ""


@require_safe
@owner_required
def account_list(request: HttpRequest) -> HttpResponse:
    now = timezone.now()
    cards = [_card(each, now) for each in source_accounts.list_accounts(owner().pk)]
    context = {"here": "accounts", "accounts": cards, "sources": installed_sources()}
    return render(request, "owner/live_accounts/list.html", context)


class DetailsForm(forms.Form):
    """What a source needs, from its manifest."""

    allows_private = forms.BooleanField(
        label="The server is in my own network",
        required=False,
        help_text="Allows private addresses, such as 192.168.1.10.",
    )

    def __init__(self, source: InstalledSource, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for each in source.fields:
            self.fields[each.name] = _form_field(each)
        self.order_fields([each.name for each in source.fields])


def _form_field(each: SourceField) -> forms.Field:
    is_secret = each.kind is FieldKind.SECRET
    kind = forms.PasswordInput if is_secret else forms.TextInput
    return forms.CharField(
        label=each.label,
        help_text=each.hint,
        initial=each.default,
        required=each.kind is not FieldKind.HOST and not each.is_optional,
        strip=not is_secret,
        max_length=accounts.MAX_CHARS,
        widget=kind(attrs={"autocomplete": "new-password" if is_secret else "off"}),
    )


class ChoiceForm(forms.Form):
    """Which folders to read, and where the records go."""

    containers = forms.MultipleChoiceField(
        widget=forms.CheckboxSelectMultiple, error_messages={"required": "Choose one or more."}
    )
    connection = forms.ChoiceField(
        label="Add to",
        required=False,
        help_text="Choose the connection of an earlier import, and nothing is stored twice.",
    )
    is_mirror = forms.BooleanField(
        label="Delete here what is deleted there",
        required=False,
        help_text="Only what this account brought, never what you imported.",
    )

    def __init__(
        self,
        found: Sequence[Container],
        connections: Sequence[Connection],
        source: InstalledSource,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.fields["containers"].label = source.container_title or "Contents"
        if not source.has_deletions:
            del self.fields["is_mirror"]
        named = [(each.name, escape_invisible(_container_label(each))) for each in found]
        set_choices(self, "containers", named)
        self.initial.setdefault("containers", [each.name for each in found if each.is_usual])
        choices = [(each.connection_id, each.display_name) for each in connections]
        set_choices(self, "connection", [(NEW, "A new connection"), *choices])


def _container_label(each: Container) -> str:
    return f"{each.title} ({each.items:,})" if each.items else each.title


@require_http_methods(["GET", "HEAD", "POST"])
@owner_required
def connect_account(request: HttpRequest, name: str) -> HttpResponse:
    """Ask for the account, sign in, ask what to read, and start."""
    source = find_source(name)
    if source is None:
        raise Http404
    if "draft" in request.POST:
        return _choose(request, source, _open_draft(request.POST["draft"]))
    form = DetailsForm(source, request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            details = accounts.parse_details(source, _texts(form.cleaned_data))
            found = accounts.list_containers(details, now=timezone.now())
        except InvalidRequest as refusal:
            form.add_error(refusal.param if refusal.param in form.fields else None, refusal.message)
        except SourceError as error:
            form.add_error(None, _explain(error))
        else:
            return _choose(request, source, (details, found))
    context = {"here": "accounts", "source": source, "form": form}
    return render(request, "owner/live_accounts/connect.html", context)


def _choose(
    request: HttpRequest,
    source: InstalledSource,
    draft: tuple[AccountDetails, Sequence[Container]] | None,
) -> HttpResponse:
    if draft is None or draft[0].source != source:
        messages.error(request, "This page is too old. Enter the account again.")
        return redirect("account-connect", source.name)
    details, found = draft
    connections = accounts.candidates(source, owner_id=owner().pk)
    data = request.POST if "draft" in request.POST else None
    form = ChoiceForm(found, connections, source, data)
    if data is not None and form.is_valid():
        chosen = form.cleaned_data
        try:
            account = accounts.connect_account(
                details,
                containers=chosen["containers"],
                connection_id=chosen["connection"] or None,
                is_mirror=chosen.get("is_mirror", False),
                owner_id=owner().pk,
                now=timezone.now(),
            )
        except InvalidRequest as refusal:
            form.add_error(None, refusal.message)
        else:
            return redirect("account", account.connection_id)
    context = {"here": "accounts", "source": source, "form": form}
    context["draft"] = _seal_draft(details, found)
    return render(request, "owner/live_accounts/choose.html", context)


def _seal_draft(details: AccountDetails, found: Sequence[Container]) -> str:
    content = {
        "source": details.source.name,
        "settings": details.settings,
        "credential": details.credential,
        "containers": [[each.name, each.title, each.is_usual, each.items] for each in found],
        "until": time.time() + DRAFT_SECONDS,
    }
    sealed = crypto.encrypt(orjson.dumps(content), purpose=PURPOSE, bound_to=owner().pk)
    return base64.urlsafe_b64encode(sealed).decode()


def _open_draft(sealed: str) -> tuple[AccountDetails, list[Container]] | None:
    try:
        data = base64.urlsafe_b64decode(sealed)
        content = orjson.loads(crypto.decrypt(data, purpose=PURPOSE, bound_to=owner().pk))
    except (InvalidTag, ValueError):
        return None
    source = find_source(content["source"])
    if source is None or content["until"] < time.time():
        return None
    found = [Container(*each) for each in content["containers"]]
    return AccountDetails(source, content["settings"], content["credential"]), found


@require_http_methods(["GET", "HEAD", "POST"])
@owner_required
def account_page(request: HttpRequest, connection_id: str) -> HttpResponse:
    """Show an account, and do what its buttons say."""
    account = source_accounts.find_account(connection_id, owner_id=owner().pk)
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
    return {
        "connection_id": account.connection_id,
        "name": account.connection.display_name,
        "source": account.connection.source.display_name,
        "server": str(account.settings.get("host", "")),
        "containers": [escape_invisible(each) for each in account.settings.get("containers", ())],
        "is_mirror": account.is_mirror,
        "is_paused": status.is_paused(account),
        "has_password": account.credential is not None,
        "last": account.succeeded_at,
        "next": status.next_run(account, now=now),
        "problem": problem and escape_invisible(problem),
        "result": result,
    }


Action = Callable[[SourceAccount, Mapping[str, str], datetime], str]


def _sync_now(account: SourceAccount, _values: Mapping[str, str], now: datetime) -> str:
    source_accounts.sync_now(account.connection_id, now=now)
    return "The account is read within a few seconds."


def _pause(account: SourceAccount, _values: Mapping[str, str], now: datetime) -> str:
    set_paused(account.connection_id, is_paused=True, now=now)
    return "Paused: nothing new is read. Apps can still read what is stored."


def _resume(account: SourceAccount, _values: Mapping[str, str], now: datetime) -> str:
    set_paused(account.connection_id, is_paused=False, now=now)
    source_accounts.sync_now(account.connection_id, now=now)
    return "Resumed."


def _forget(account: SourceAccount, _values: Mapping[str, str], now: datetime) -> str:
    source_accounts.set_credential(account.connection_id, None, now=now)
    return "The password is removed here. End it at your provider too. The records stay."


def _replace(account: SourceAccount, values: Mapping[str, str], now: datetime) -> str:
    source = find_source(account.source_name)
    if source is None:
        return "The package of this source is not installed."
    try:
        accounts.replace_password(account, source, values, now=now)
    except InvalidRequest as refusal:
        return refusal.message
    return "The new password is saved."


ACTIONS: dict[str, Action] = {
    "sync": _sync_now,
    "pause": _pause,
    "resume": _resume,
    "forget": _forget,
    "replace": _replace,
}


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: "yes" if value is True else str(value or "") for name, value in values.items()}


def _explain(error: SourceError) -> str:
    text = PROBLEM_TEXTS[error.code]
    detail = f" ({escape_invisible(error.detail)})" if error.detail else ""
    return f"{text.problem}{detail} {text.next_step}"
