"""Backups: the recovery key, the schedule and its places, the copies, and drills."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods
from typing_extensions import override

from evidence.models.owners import current_owner
from importers.core.source_http import parse_url
from operations import jobs
from operations.backup import plans, schedule
from operations.backup.errors import BackupError
from operations.backup.keys import RecoveryKey, fingerprint
from operations.backup.models import BackupCopy, BackupPlan
from operations.backup.schedule import folder_error, is_folder
from operations.backup.store import Store, open_store
from owner.accounts import step_up
from owner.permissions import owner_required
from owner.site import owner

HOURS = [("", "Never"), *((str(hour), f"{hour:02}:00") for hour in range(24))]
MAX_KEPT = 400
MAX_CHARS = 1_000
LATEST = 60


@require_http_methods(["GET", "HEAD", "POST"])
@owner_required
def backups_page(request: HttpRequest) -> HttpResponse:
    """Show the plan and the copies; a button makes a backup now."""
    plan = plans.get_plan(current_owner())
    if request.method == "POST":
        if not has_place(plan):
            messages.error(request, "Create a recovery key and choose a folder or a store first.")
        else:
            plans.back_up_now(current_owner(), now=timezone.now())
            jobs.notify()
            messages.success(request, "A backup starts within a few seconds.")
        return redirect("backups")
    copies = plans.list_copies(current_owner())
    context = {
        "here": "backups",
        "plan": plan,
        "fingerprint": fingerprint(bytes(plan.public_key)) if plan.public_key else "",
        "has_place": has_place(plan),
        "is_due": plan.due_at is not None and plan.due_at <= timezone.now(),
        "latest": schedule.latest(copies),
        "notices": schedule.notices(plan, copies, now=timezone.now()),
        "copies": [_card(copy) for copy in copies[:LATEST]],
    }
    return render(request, "owner/backups/list.html", context)


def has_place(plan: BackupPlan) -> bool:
    """Return whether a backup can be made."""
    return plan.public_key is not None and bool(plan.folder or plan.store)


def _card(copy: BackupCopy) -> dict[str, Any]:
    return {
        "copy": copy,
        "is_missing": is_folder(copy) and not Path(copy.place, copy.name).is_file(),
        "is_waiting": copy.drill_secret is not None,
    }


@require_http_methods(["GET", "HEAD", "POST"])
@owner_required
def recovery_key_page(request: HttpRequest) -> HttpResponse:
    """Create a recovery key in a session that was confirmed just now, and show its words this once."""
    if not step_up.is_recent(request):
        return redirect(step_up.url(request.path))
    plan = plans.get_plan(current_owner())
    context = {"here": "backups", "is_replacement": plan.public_key is not None}
    if request.method != "POST":
        return render(request, "owner/backups/key.html", context)
    key = RecoveryKey.generate()
    plans.save_key(current_owner(), key.public_key, now=timezone.now())
    context |= {"words": key.words, "fingerprint": fingerprint(key.public_key)}
    return render(request, "owner/backups/words.html", context)


class ScheduleForm(forms.Form):
    """When to back up, what and how much to keep, and the folder."""

    covers_everyone = forms.BooleanField(
        label="Back up all owners",
        required=False,
        help_text="One file then restores the whole installation, with accounts and keys.",
    )
    folder = forms.CharField(
        label="Folder on the server",
        required=False,
        max_length=MAX_CHARS,
        help_text="For example a mounted disk: /mnt/backups. Empty for no folder.",
    )
    hour = forms.TypedChoiceField(
        label="Back up every day at", choices=HOURS, coerce=int, empty_value=None, required=False
    )
    daily = forms.IntegerField(label="Keep daily backups", min_value=1, max_value=MAX_KEPT)
    weekly = forms.IntegerField(label="Keep weekly backups", min_value=0, max_value=MAX_KEPT)
    monthly = forms.IntegerField(label="Keep monthly backups", min_value=0, max_value=MAX_KEPT)

    def clean_folder(self) -> str:
        folder: str = self.cleaned_data["folder"]
        if not folder:
            return folder
        if not folder.startswith("/"):
            raise ValidationError("Enter the full path, beginning with /.")
        try:
            tempfile.TemporaryFile(dir=folder).close()
        except OSError as error:
            raise ValidationError(folder_error(error, folder).text) from None
        return str(Path(folder))


@require_http_methods(["GET", "HEAD", "POST"])
@owner_required
def schedule_page(request: HttpRequest) -> HttpResponse:
    plan = plans.get_plan(current_owner())
    initial = {name: getattr(plan, name) for name in ScheduleForm.base_fields}
    form = ScheduleForm(request.POST or None, initial=initial)
    is_administrator = owner().is_administrator
    if not (is_administrator and plans.has_others(plan)):
        del form.fields["covers_everyone"]
    if not is_administrator:  # a folder of the server is the administrator's
        del form.fields["folder"]
    if request.method == "POST" and form.is_valid():
        plans.save_schedule(current_owner(), form.cleaned_data, now=timezone.now())
        messages.success(request, "The schedule is saved.")
        return redirect("backups")
    context = {"here": "backups", "form": form, "title": "Schedule and folder", "plan": plan}
    return render(request, "owner/backups/form.html", context)


class StoreForm(forms.Form):
    """A bucket of a store that speaks the protocol of Amazon S3."""

    url = forms.CharField(
        label="Address",
        max_length=MAX_CHARS,
        help_text="For example https://s3.eu-central-1.amazonaws.com",
    )
    region = forms.CharField(label="Region", max_length=100, initial="us-east-1")
    bucket = forms.CharField(max_length=100)
    folder = forms.CharField(label="Folder in the bucket", required=False, max_length=MAX_CHARS)
    access_key = forms.CharField(
        max_length=MAX_CHARS, widget=forms.TextInput({"autocomplete": "off"})
    )
    secret = forms.CharField(
        label="Secret key",
        required=False,
        max_length=MAX_CHARS,
        widget=forms.PasswordInput({"autocomplete": "new-password"}),
        help_text="Encrypted on this server. Leave it empty to keep the stored one.",
    )
    allows_private = forms.BooleanField(
        label="The store is in my own network",
        required=False,
        help_text="Allows private addresses, and http without encryption.",
    )

    def __init__(self, data: Any, *, plan: BackupPlan) -> None:
        super().__init__(data, initial=plan.store or {})
        self.plan = plan

    def clean_url(self) -> str:
        try:
            url, _ = parse_url(self.cleaned_data["url"].rstrip("/"))
        except ValueError:
            raise ValidationError("Enter an address that begins with https://.") from None
        return url

    def clean_folder(self) -> str:
        folder = str(self.cleaned_data["folder"]).strip("/")
        return f"{folder}/" if folder else ""

    @override
    def clean(self) -> dict[str, Any]:
        """Write and delete a small object, so that a mistake shows now."""
        values: dict[str, Any] = super().clean() or {}
        if self.errors:
            return values
        try:
            if values["secret"]:
                Store(self.store(values), values["secret"]).check()
            else:
                self.plan.store = self.store(values)
                open_store(self.plan).check()
        except BackupError as error:
            raise ValidationError(error.text) from None
        return values

    def store(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in values.items() if name != "secret"}


@sensitive_post_parameters("secret")
@require_http_methods(["GET", "HEAD", "POST"])
@owner_required
def store_page(request: HttpRequest) -> HttpResponse:
    plan = plans.get_plan(current_owner())
    if "remove" in request.POST:
        plans.save_store(current_owner(), None, None)
        messages.success(request, "The store is removed. The backups in it stay.")
        return redirect("backups")
    form = StoreForm(request.POST or None, plan=plan)
    if request.method == "POST" and form.is_valid():
        values = form.cleaned_data
        plans.save_store(current_owner(), form.store(values), values["secret"] or None)
        messages.success(request, "The store works and is saved.")
        return redirect("backups")
    context = {"here": "backups", "form": form, "title": "Store", "can_remove": bool(plan.store)}
    return render(request, "owner/backups/form.html", context)


class DrillForm(forms.Form):
    """The words of the recovery key that a copy needs."""

    words = forms.CharField(
        label="The 12 words",
        max_length=MAX_CHARS,
        widget=forms.Textarea(
            {"rows": 3, "autocomplete": "off", "autocapitalize": "none", "spellcheck": "false"}
        ),
    )

    def __init__(self, data: Any, *, copy: BackupCopy) -> None:
        super().__init__(data)
        self.copy = copy
        self.secret = b""

    def clean_words(self) -> str:
        words: str = self.cleaned_data["words"]
        try:
            key = RecoveryKey.parse(words, expected=self.copy.fingerprint)
            self.secret = key.open(bytes(self.copy.sealed))
        except BackupError as error:
            raise ValidationError(error.text) from None
        return words


@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
@owner_required
def drill_page(request: HttpRequest, number: int) -> HttpResponse:
    """Ask for the words, and have a background job restore the copy into a scratch database."""
    copy = plans.find_copy(number, owner_id=current_owner())
    if copy is None:
        raise Http404
    form = DrillForm(request.POST or None, copy=copy)
    if request.method == "POST" and form.is_valid():
        plans.request_drill(copy, form.secret)
        jobs.notify()
        messages.success(
            request, "The drill starts within a few seconds. This page shows its result."
        )
        return redirect("backups")
    context = {"here": "backups", "form": form, "copy": copy}
    return render(request, "owner/backups/drill.html", context)
