"""Backups: the recovery key, the schedule and its folder, the copies, and drills."""

import tempfile
from pathlib import Path
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.debug import sensitive_post_parameters

from evidence.models.owners import current_owner
from operations import jobs
from operations.backup import schedule
from operations.backup.keys import BackupError, RecoveryKey, fingerprint, open_file_key
from operations.backup.models import BackupCopy
from owner.accounts.proxy_sign_in import confirmation_url, is_confirmed_recently
from owner.permissions import owner_required
from owner.site import owner

HOURS = [("", "Never"), *((str(hour), f"{hour:02}:00") for hour in range(24))]
MAX_KEPT = 400
MAX_CHARS = 1_000
LATEST = 60


@owner_required
def backups_page(request: HttpRequest) -> HttpResponse:
    """Show the plan and the copies; a button makes a backup now."""
    plan = schedule.get_plan(current_owner())
    folder = schedule.folder_of(plan)
    can_back_up = bool(plan.recipient and folder)
    if request.method == "POST":
        if can_back_up:
            schedule.back_up_now(current_owner(), now=timezone.now())
            jobs.notify()
            messages.success(request, "Backup requested. This page shows when it is done.")
        else:
            messages.error(request, "Create a recovery key and choose a folder first.")
        return redirect("backups")
    copies = schedule.list_copies(current_owner())
    is_due = plan.due_at is not None and plan.due_at <= timezone.now()
    is_administrator = owner().is_administrator
    context = {
        "here": "backups",
        "plan": plan,
        "fingerprint": fingerprint(plan.recipient),
        "folder": folder if is_administrator or not folder else "the administrator's",
        "shows_folders": is_administrator,
        "can_back_up": can_back_up,
        "is_own_alone": schedule.only_owner(plan) is not None,
        "is_due": is_due,
        "is_busy": is_due or any(copy.drill_key is not None for copy in copies),
        "latest": schedule.latest(plan, copies),
        "notices": schedule.notices(plan, copies, now=timezone.now()),
        "copies": [
            {
                "copy": copy,
                "is_missing": not Path(copy.folder, copy.name).is_file(),
                "is_waiting": copy.drill_key is not None,
            }
            for copy in copies[:LATEST]
        ],
    }
    return render(request, "owner/backups/list.html", context)


@owner_required
def recovery_key_page(request: HttpRequest) -> HttpResponse:
    """Create a recovery key in a session that was confirmed just now, and show its words this once."""
    if not is_confirmed_recently(request):
        return redirect(confirmation_url(request.path))
    plan = schedule.get_plan(current_owner())
    context: dict[str, Any] = {"here": "backups", "is_replacement": bool(plan.recipient)}
    if request.method != "POST":
        return render(request, "owner/backups/key.html", context)
    key = RecoveryKey.generate()
    schedule.save_key(current_owner(), key.recipient, now=timezone.now())
    context["key"] = key
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
        help_text="For example a mounted disk: /mnt/backups. Other owners' backups go there too.",
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
            raise ValidationError(str(schedule.folder_error(error, folder))) from None
        return str(Path(folder))


@owner_required
def schedule_page(request: HttpRequest) -> HttpResponse:
    plan = schedule.get_plan(current_owner())
    initial = {name: getattr(plan, name) for name in ScheduleForm.base_fields}
    form = ScheduleForm(request.POST or None, initial=initial)
    is_administrator = owner().is_administrator
    if not (is_administrator and schedule.has_others(plan)):
        del form.fields["covers_everyone"]
    if not is_administrator:  # a folder of the server is the administrator's
        del form.fields["folder"]
    if request.method == "POST" and form.is_valid():
        schedule.save_schedule(current_owner(), form.cleaned_data, now=timezone.now())
        messages.success(request, "The schedule is saved.")
        return redirect("backups")
    return render(request, "owner/backups/form.html", {"here": "backups", "form": form})


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
        self.file_key = ""

    def clean_words(self) -> str:
        words: str = self.cleaned_data["words"]
        try:
            key = RecoveryKey.parse(
                words, fits=lambda key: key.fingerprint == self.copy.fingerprint
            )
            self.file_key = open_file_key(bytes(self.copy.sealed), key)
        except BackupError as error:
            raise ValidationError(str(error)) from None
        return words


@sensitive_post_parameters()
@owner_required
def drill_page(request: HttpRequest, number: int) -> HttpResponse:
    """Ask for the words, and have a background job restore the copy into a scratch database."""
    copy = BackupCopy.unscoped.filter(pk=number).first()
    if copy is None:
        raise Http404
    form = DrillForm(request.POST or None, copy=copy)
    if request.method == "POST" and form.is_valid():
        schedule.request_drill(copy, form.file_key)
        jobs.notify()
        messages.success(request, "Drill requested. This page shows its result.")
        return redirect("backups")
    context = {"here": "backups", "form": form, "copy": copy}
    return render(request, "owner/backups/drill.html", context)
