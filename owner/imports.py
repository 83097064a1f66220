"""Imports: an export is sent, looked at, confirmed, and its progress is watched."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.admin import register
from django.core.files.uploadedfile import UploadedFile
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from typing_extensions import override

from evidence.errors import InvalidRequest
from evidence.models.owners import current_owner
from importers.core.importer import FileSample, parse_import_request
from importers.core.receipt_texts import RECEIPT_TEXTS
from importers.core.results import UnreadableError
from importers.models import ImportRun
from importers.runs import report_lines, uploads
from importers.runs.preview import ExportPreview, preview_export
from importers.runs.store import ensure_connection, find_run, latest_runs
from importers.runs.uploads import Upload, answer, dismiss, find_waiting, list_waiting, locate
from operations import jobs
from owner.import_forms import COLUMN_LABELS, SendForm, WishForm
from owner.import_results import (
    AccountResult,
    BarPart,
    account_results,
    receipt_groups,
    run_bar,
)
from owner.own_addresses import FIELD, add_addresses, names_senders
from owner.site import OwnerAdmin, owner_site, page
from owner.text import escape_invisible, format_time, pluralize

LEFT_SHOWN = 20
STATES = {
    ImportRun.Status.RUNNING: "Going on",
    ImportRun.Status.FINISHED: "Finished",
    ImportRun.Status.STOPPED: "Stopped; it continues where it stopped",
}


@dataclass(frozen=True, slots=True)
class PartLines:
    """``question`` and ``evidence`` where the owner has to choose."""

    text: str
    question: str = ""
    evidence: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RunLines:
    run_id: str
    label: str
    connection: str
    began: str
    text: str
    percent: int
    bar: list[BarPart]
    accounts: list[AccountResult] = field(default_factory=list)


def part_lines(found: ExportPreview) -> list[PartLines]:
    lines = []
    for part in found.parts:
        text = escape_invisible(report_lines.describe_part(part))
        if part.missing_option is None:
            lines.append(PartLines(text))
        else:
            shown = [escape_invisible(line) for line in part.missing_option.evidence]
            lines.append(PartLines(text, part.missing_option.question, shown))
    return lines


def table_lines(sample: FileSample) -> dict[str, Any]:
    """Return the first rows of a table; each column has its name and what it is read as."""
    labels = {column: COLUMN_LABELS.get(name, "") for name, column in sample.columns.items()}
    return {
        "file": escape_invisible(sample.file),
        "columns": [(escape_invisible(name), labels.get(name, "")) for name in sample.header],
        "rows": [[escape_invisible(cell) for cell in cells] for cells in sample.rows],
    }


def left_lines(found: ExportPreview) -> list[str]:
    return [
        escape_invisible(f"{name}: {report_lines.issue_text(issue, on_page=True)}")
        for name, issue in found.skipped[:LEFT_SHOWN]
    ]


def run_lines(run: ImportRun, *, with_accounts: bool = False) -> RunLines:
    percent = 100 if not run.bytes_total else min(100, run.bytes_done * 100 // run.bytes_total)
    counts = (
        (run.updated, "changed"),
        (run.unchanged, "unchanged"),
        (run.files, "file" if run.files == 1 else "files"),
        (run.left_out, "not imported"),
        (run.remarked, "with a remark"),
    )
    shown = [pluralize(run.created, "new record"), *(f"{n:,} {word}" for n, word in counts if n)]
    text = f"{STATES[ImportRun.Status(run.status)]}: {', '.join(shown)}"
    return RunLines(
        run_id=run.run_id,
        label=escape_invisible(run.label),
        connection=run.connection.display_name,
        began=format_time(run.started_at),
        text=text,
        percent=100 if run.status == ImportRun.Status.FINISHED else percent,
        bar=run_bar(run),
        accounts=list(account_results(run)) if with_accounts else [],
    )


LATEST = 20
REFRESH_SECONDS = 3


@register(ImportRun, site=owner_site)
class ImportAdmin(OwnerAdmin[ImportRun]):
    @override
    def get_urls(self) -> list[URLPattern]:
        ours: list[tuple[str, Callable[..., HttpResponse], str]] = [
            ("", send, "importrun_changelist"),
            ("slice/", add_slice, "import_slice"),
            ("upload/<path:object_id>/progress/", progress, "import_progress"),
            ("upload/<path:object_id>/", look, "import_upload"),
            ("waiting/<path:object_id>/", answer_question, "import_waiting"),
            ("<path:object_id>/change/", report, "importrun_change"),
        ]
        return [
            path(route, self.admin_site.admin_view(view), name=f"importers_{name}")
            for route, view, name in ours
        ]


def send(request: HttpRequest) -> HttpResponse:
    """Show the upload form and the recent imports."""
    form = SendForm(request.POST or None, request.FILES or None)
    if request.method == "POST" and form.is_valid():
        received = [_receive(file) for file in form.cleaned_data["file"]]
        if len(received) == 1:
            return redirect(_address(received[0]))
        return redirect("admin:importers_importrun_changelist")
    runs = [run_lines(run) for run in latest_runs(current_owner(), limit=LATEST)]
    sent = [
        {"name": escape_invisible(each.state.name), "url": _address(each)}
        for each in uploads.list_received(_root())
    ]
    context = {"form": form, "runs": runs, "sent": sent, "waiting": _waiting_rows()}
    return _page(request, "send", title="Import an export", context=context)


def _receive(file: "UploadedFile[Any]") -> Upload:
    upload = uploads.create_upload(_root(), name=file.name or "", size=file.size or 0)
    upload.write_chunk(file, offset=0)
    upload.save(phase="received")
    return upload


def _waiting_rows() -> list[dict[str, Any]]:
    """Return the exports in a watched folder whose owner was asked."""
    return [
        {
            "name": escape_invisible(Path(each.path).name),
            "question": escape_invisible(each.question),
            "asked": format_time(each.asked_at),
            "is_due": each.is_due,
            "url": reverse("admin:importers_import_waiting", args=[each.waiting_id]),
        }
        for each in list_waiting(current_owner())
    ]


def add_slice(request: HttpRequest) -> HttpResponse:
    """The next bytes of a file; scripts send large ones so. Answers where the rest goes."""
    if request.method != "POST":
        return redirect(reverse("admin:importers_importrun_changelist"))
    said = request.GET
    try:
        size, offset = int(said.get("size", "")), int(said.get("offset", ""))
        known = uploads.find_upload(_root(), said.get("upload", ""))
        upload = known or uploads.create_upload(_root(), name=said.get("name", ""), size=size)
        received = upload.write_chunk(request, offset=offset)  # type: ignore[arg-type] # it can be read
    except (ValueError, InvalidRequest) as error:
        return JsonResponse({"error": str(error)}, status=400)
    except (
        OSError
    ) as error:  # no room; what came before stays, and the same slice may be sent again
        return JsonResponse({"error": error.strerror or "It was cut off."}, status=507)
    if received == size and upload.state.phase == "receiving":
        upload.save(phase="received")
    return JsonResponse(
        {"upload": upload.upload_id, "received": received, "next": _address(upload)}
    )


def look(request: HttpRequest, object_id: str) -> HttpResponse:
    """What was sent, with what can be said about it; once confirmed, how far it is."""
    upload = _upload(object_id)
    if upload.state.phase != "received":
        return _watch(request, upload)

    def start(values: dict[str, str]) -> str:
        upload.save(phase="wanted", wish=values)
        jobs.notify()
        return _address(upload)

    return _preview(request, upload.path, start)


def answer_question(request: HttpRequest, object_id: str) -> HttpResponse:
    """The same for an export in a watched folder, which the background worker then imports."""
    waiting = find_waiting(object_id, owner_id=current_owner())
    if waiting is None:
        raise Http404
    if "dismiss" in request.POST:
        dismiss(waiting)
        messages.success(request, "Dismissed. What the question is about is not imported.")
        return redirect("admin:importers_importrun_changelist")

    def start(values: dict[str, str]) -> str:
        answer(waiting, values)
        messages.success(request, "Answered. The import starts shortly.")
        return reverse("admin:importers_importrun_changelist")

    return _preview(request, locate(waiting), start, question=escape_invisible(waiting.question))


def _preview(
    request: HttpRequest,
    export: Path,
    start: Callable[[dict[str, str]], str],
    *,
    question: str = "",
) -> HttpResponse:
    """Show what an export is. ``start`` gets the form values, and returns the next address.

    ``question`` is about an export in a watched folder.
    """
    words = request.POST if request.method == "POST" else None
    form = WishForm(words)
    context: dict[str, Any] = {"form": form, "waiting_question": question}
    title = escape_invisible(export.name)
    try:
        found = _find_parts(export, form.wish() if words and form.is_valid() else {})
    except InvalidRequest as refusal:
        if words and refusal.param in form.fields:
            form.add_error(refusal.param, refusal.message)
        else:
            context["refusal"] = refusal.message
        return _page(request, "preview", title=title, context=context)
    except UnreadableError as error:
        context["refusal"] = RECEIPT_TEXTS[error.issue.code].problem
        return _page(request, "preview", title=title, context=context)
    is_ready = bool(found.parts) and all(part.missing_option is None for part in found.parts)
    senders = [part for part in found.parts if names_senders(part.importer.declaration)]
    context["form"] = form = WishForm(words, samples=found.samples, asks_addresses=bool(senders))
    if words is not None and form.is_valid() and is_ready and "start" in words:
        if addresses := form.cleaned_data.get(FIELD):
            now = timezone.now()
            for part in senders:
                add_addresses(ensure_connection(part.target, now=now), addresses, now=now)
        return redirect(start(form.wish()))
    context |= {
        "parts": part_lines(found),
        "left": left_lines(found),
        "tables": [table_lines(each) for each in found.samples if each.header],
    }
    return _page(request, "preview", title=title, context=context)


def _find_parts(export: Path, wish: Mapping[str, str]) -> ExportPreview:
    request, now = parse_import_request(wish), timezone.now()
    return preview_export(
        export, request=request, owner_id=current_owner(), now=now, with_samples=True
    )


def _watch(request: HttpRequest, upload: Upload) -> HttpResponse:
    state = upload.state
    context = {
        "upload": state,
        "runs": _runs(upload),
        "is_going_on": state.phase == "wanted",
        "progress_url": reverse("admin:importers_import_progress", args=[upload.upload_id]),
        "seconds": REFRESH_SECONDS,
    }
    return _page(request, "progress", title=state.name, context=context)


def progress(request: HttpRequest, object_id: str) -> HttpResponse:
    """The same for scripts."""
    upload = _upload(object_id)
    runs = [{"text": run.text, "percent": run.percent} for run in _runs(upload)]
    return JsonResponse({"is_going_on": upload.state.phase == "wanted", "runs": runs})


def report(request: HttpRequest, object_id: str) -> HttpResponse:
    """Show what became of a run: by account, and its receipts by reason."""
    run = find_run(object_id, owner_id=current_owner())
    if run is None:
        raise Http404
    context = {"run": run_lines(run, with_accounts=True), "groups": receipt_groups(run.run_id)}
    return _page(request, "report", title=run.label, context=context)


def _page(
    request: HttpRequest, name: str, *, title: str, context: Mapping[str, Any]
) -> HttpResponse:
    return page(request, f"imports/{name}", title=title, context={"here": "import", **context})


def _runs(upload: Upload) -> list[RunLines]:
    found = (find_run(run_id, owner_id=current_owner()) for run_id in upload.state.runs)
    return [run_lines(run, with_accounts=True) for run in found if run is not None]


def _upload(object_id: str) -> Upload:
    upload = uploads.find_upload(_root(), object_id)
    if upload is None:
        raise Http404
    return upload


def _address(upload: Upload) -> str:
    return reverse("admin:importers_import_upload", args=[upload.upload_id])


def _root() -> Any:
    return uploads.root_of(settings.PDPP_VAR / "imports", current_owner())
