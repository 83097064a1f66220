"""Choose what a live account reads, at first and later."""

import base64
import time
from collections.abc import Sequence
from typing import Any

import orjson
from cryptography.exceptions import InvalidTag
from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from evidence.access import crypto
from evidence.models.connections import Connection
from evidence.models.owners import current_owner
from evidence.write.sealed_values import SealedError
from importers.core.source import Container, InstalledSource, SourceError
from importers.models import SourceAccount
from importers.sources import account_store, accounts, outcome, status
from importers.sources.accounts import AccountDetails
from importers.sources.registry import find_source
from owner.form_fields import set_choices
from owner.own_addresses import FIELD, OwnAddressesField, names_senders
from owner.permissions import owner_required
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
        named = [(each.name, escape_invisible(_container_label(each))) for each in found]
        set_choices(self, "containers", named)
        self.initial.setdefault("containers", [each.name for each in found if each.is_usual])
        if connections is None or not names_senders(source.declaration):
            del self.fields[FIELD]
        if connections is None:
            del self.fields["connection"]
            return
        choices = [(each.connection_id, each.display_name) for each in connections]
        set_choices(self, "connection", [(NEW, "A new connection"), *choices])


def _container_label(each: Container) -> str:
    title = "Inbox" if each.title.lower() == "inbox" else each.title
    return f"{title} ({each.items:,})" if each.items else title


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


@require_http_methods(["GET", "HEAD", "POST"])
@owner_required
def account_choices(request: HttpRequest, connection_id: str) -> HttpResponse:
    """Change what an account reads."""
    account = account_store.find_account(connection_id, owner_id=current_owner())
    source = find_source(account.source_name) if account is not None else None
    if account is None or source is None:
        raise Http404
    found = _draft_of(request, source) or _sign_in(request, account, source)
    if found is None:
        return redirect("account", connection_id)
    data = request.POST if "draft" in request.POST else None
    initial = {
        "containers": account.settings["containers"],
        "is_mirror": account.is_mirror,
        outcome.SETTING: account.settings.get(outcome.SETTING),
    }
    form = ChoiceForm(found, None, source, data, initial=initial)
    if data is not None and form.is_valid():
        chosen = {"is_mirror": False, **form.cleaned_data}
        accounts.change_account(account, source, found=found, **chosen, now=timezone.now())
        messages.success(request, "Saved. The account is read within a few seconds.")
        return redirect("account", connection_id)
    # The password is not needed to save.
    draft = seal_draft(AccountDetails(source, account.settings, {}), found)
    context = {"here": "accounts", "source": source, "form": form, "account": account}
    return render(request, "owner/live_accounts/choose.html", context | {"draft": draft})


def _draft_of(request: HttpRequest, source: InstalledSource) -> list[Container] | None:
    draft = open_draft(request.POST.get("draft", ""))
    return draft[1] if draft is not None and draft[0].source == source else None


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
