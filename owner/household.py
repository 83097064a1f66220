"""The page Owners, for administrators: who keeps records on this server, invitations, limits, removal.

An administrator sees names, sizes and whether work goes on, and never a record, nor what a size is made
of by source or app.
"""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import wraps
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.core.paginator import Paginator
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache

from evidence.models.connections import Erasure
from evidence.models.grants import AccessToken, Collector, Package
from evidence.models.owners import (
    Owner,
    across_owners,
    acting_for,
    current_owner,
    present_owners,
)
from evidence.write.disk_usage import disk_usage
from evidence.write.erasure_orders import ErasureScope, create_erasure, unfinished_erasures
from importers.runs.store import stopped_runs
from importers.sources import status as account_status
from importers.sources.account_store import list_accounts
from operations.backup import schedule
from operations.erasure_text import format_counts
from owner.accounts import setup
from owner.form_fields import PlainForm, validate_printable
from owner.permissions import owner_required
from owner.site import owner
from owner.text import format_time, pluralize

FAILED_IMPORTS = timedelta(days=30)
RECEIPTS = 20
OWNERS_PER_PAGE = 25
GIB = 1024**3
LAST = "This is the last administrator. Make another owner administrator first."
BY = "an administrator of this server"


def administrator_required(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponseBase]:
    """Restrict a view to administrators; for other owners there is no such page."""

    @owner_required
    @wraps(view)
    def inner(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not owner().is_administrator:
            raise Http404
        return view(request, *args, **kwargs)

    return inner


class InviteForm(forms.Form):
    name = forms.CharField(
        label="User name",
        required=False,
        max_length=150,
        help_text="They can change it.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )

    def clean_name(self) -> str:
        return validate_printable(self.cleaned_data["name"])


class LimitForm(PlainForm[Owner]):
    """The disk limit in gigabytes; empty has no limit."""

    gigabytes = forms.DecimalField(
        label="Disk limit in GB",
        required=False,
        min_value=0,
        max_value=1_000_000,
        decimal_places=2,
        widget=forms.NumberInput(attrs={"placeholder": "none", "step": "any"}),
    )

    class Meta:
        model = Owner
        fields = ()

    def __init__(self, *args: Any, instance: Owner, **kwargs: Any) -> None:
        limit = instance.disk_limit_bytes
        initial = {} if limit is None else {"gigabytes": f"{limit / GIB:.6g}"}
        options = {"initial": initial, "auto_id": f"{instance.pk}_%s"}
        super().__init__(*args, instance=instance, **options, **kwargs)

    def limit(self) -> int | None:
        given = self.cleaned_data["gigabytes"]
        return None if given is None else int(given * GIB)


@administrator_required
def owners_page(request: HttpRequest) -> HttpResponse:
    """List the owners, invite one, or change the limit or role of one."""
    if request.method != "POST":
        return _page(request, InviteForm())
    action = request.POST.get("action", "")
    if action == "invite":
        return _invite(request)
    if action not in ("limit", "appoint", "dismiss"):
        raise Http404
    chosen = _owner_or_404(request.POST.get("owner", ""))
    return _change(request, chosen, action)


def _page(request: HttpRequest, form: InviteForm) -> HttpResponse:
    now = timezone.now()
    listed = Paginator(present_owners().select_related("user"), OWNERS_PER_PAGE)
    shown = listed.get_page(request.GET.get("page"))
    context = {
        "here": "owners",
        "owners": [_line(each, now) for each in shown],
        "shown": shown,
        "invitations": setup.open_invitations(now=now),
        "removed": list(_receipts()),
        "form": form,
    }
    return render(request, "owner/owners/list.html", context, status=422 if form.errors else 200)


def _line(each: Owner, now: datetime) -> dict[str, Any]:
    """Return one owner, as an administrator sees them."""
    with acting_for(each.owner_id):
        size, health = disk_usage().total, list(_health(each.owner_id, now))
    return {
        "owner_id": each.owner_id,
        "name": name_of(each),
        "is_administrator": each.is_administrator,
        "signed_in": "" if each.user is None else format_time(each.user.last_login),
        "size": size,
        "health": health,
        "form": LimitForm(instance=each),
    }


def name_of(each: Owner) -> str:
    """Return the user name of an owner, or the id of one who has no account yet."""
    return each.user.get_username() if each.user is not None else each.owner_id


def _health(owner_id: str, now: datetime) -> Iterator[str]:
    """Yield how many jobs of an owner need attention, by kind of job alone."""
    if runs := len(stopped_runs(owner_id, since=now - FAILED_IMPORTS)):
        yield f"{pluralize(runs, 'import')} stopped"
    accounts = [account_status.notice(each, now=now) for each in list_accounts(owner_id)]
    if troubled := sum(each is not None for each in accounts):
        yield f"{pluralize(troubled, 'live account')} with a problem"
    if schedule.get_plan(owner_id).problem is not None:
        yield "the last backup failed"
    if unfinished_erasures():
        yield "an erasure is not finished"


def _receipts() -> Iterator[dict[str, str]]:
    """Yield what was erased of owners who are gone, latest first."""
    with across_owners():
        rows = Erasure.unscoped.filter(of=ErasureScope.OWNER, owner__removed_at__isnull=False)
        erasures = list(rows.order_by("-wanted_at", "erasure_id")[:RECEIPTS])
    for each in erasures:
        yield {
            "id": each.erasure_id,
            "wanted": format_time(each.wanted_at),
            "finished": format_time(each.finished_at, never=""),
            "removed": ", ".join(format_counts(each.removed)) or "nothing yet",
        }


def _invite(request: HttpRequest) -> HttpResponse:
    form = InviteForm(request.POST)
    if not form.is_valid():
        return _page(request, form)
    link = setup.create_invitation(name=form.cleaned_data["name"], now=timezone.now())
    context = {"here": "owners", "link": setup.link_url(link)}
    return render(request, "owner/owners/invited.html", context)


def _change(request: HttpRequest, chosen: Owner, action: str) -> HttpResponse:
    rows = Owner.unscoped.filter(pk=chosen.pk)
    if action == "limit":
        form = LimitForm(request.POST, instance=chosen)
        if not form.is_valid():
            messages.error(request, "Enter the limit as a number of gigabytes, or leave it empty.")
            return redirect("owners")
        rows.update(disk_limit_bytes=form.limit())
        messages.success(request, f"The disk limit of {name_of(chosen)} is saved.")
        return redirect("owners")
    with transaction.atomic():
        _lock_owners()
        if action == "dismiss" and _is_only_administrator(chosen):
            messages.error(request, LAST)
            return redirect("owners")
        rows.update(is_administrator=action == "appoint")
    is_now = "is now" if action == "appoint" else "is no longer"
    messages.success(request, f"{name_of(chosen)} {is_now} an administrator.")
    return redirect("owners" if owner().is_administrator else "home")


@never_cache
@administrator_required
def remove_owner(request: HttpRequest, owner_id: str) -> HttpResponse:
    """Ask, then end an owner's sign-in and access of apps at once, and erase everything of theirs."""
    chosen = _owner_or_404(owner_id)
    name, error = name_of(chosen), ""
    if request.method == "POST":
        if request.POST.get("name", "").strip() == name:
            error = _remove(chosen)
            if not error:
                messages.success(request, f"{name} is removed. The records are being erased.")
                return redirect("owners" if chosen.pk != current_owner() else "login")
        else:
            error = f"Type “{name}” to go on."
    refusal = _refusal(chosen)
    context = {
        "here": "owners",
        "name": name,
        "error": error or refusal,
        "is_refused": bool(refusal),
    }
    status = 422 if error else 200
    return render(request, "owner/owners/remove.html", context, status=status)


@transaction.atomic
def _remove(chosen: Owner) -> str:
    """Order the erasure, and return an empty text, or why it is refused."""
    _lock_owners()
    if refusal := _refusal(chosen):
        return refusal
    now = timezone.now()
    with acting_for(chosen.owner_id):
        for rows in (Package.unscoped, AccessToken.unscoped, Collector.unscoped):
            rows.filter(revoked_at=None).update(revoked_at=now)
        create_erasure(ErasureScope.OWNER, owner_id=chosen.owner_id, by=BY, now=now)
    if chosen.user is not None:
        User.objects.filter(pk=chosen.user.pk).update(is_active=False)
    Owner.unscoped.filter(pk=chosen.pk).update(removed_at=now, is_administrator=False)
    return ""


def _refusal(chosen: Owner) -> str:
    return LAST if _is_only_administrator(chosen) else ""


def _is_only_administrator(chosen: Owner) -> bool:
    administrators = present_owners().filter(is_administrator=True)
    return list(administrators.values_list("pk", flat=True)) == [chosen.pk]


def _lock_owners() -> None:
    """Let two administrators not dismiss or remove each other at once."""
    list(Owner.unscoped.select_for_update().order_by("pk").values_list("pk"))


def _owner_or_404(owner_id: str) -> Owner:
    found = present_owners().select_related("user").filter(pk=owner_id.replace("\0", "")).first()
    if found is None:
        raise Http404
    return found
