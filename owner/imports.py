"""Imports: an export is sent, looked at, confirmed and watched; then a bar and receipts show the result."""

from collections.abc import Callable, Iterator, Mapping
from datetime import date
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any, cast

import orjson
from django import forms
from django.conf import settings
from django.contrib import messages
from django.core.files.uploadedfile import UploadedFile
from django.db.models import Count
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from typing_extensions import override

from evidence.access.grant_text import format_day
from evidence.declarations.declaration import parse_declaration
from evidence.errors import InvalidRequest
from evidence.models.owners import current_owner
from importers.core import sandbox
from importers.core.importer import DATE_ORDERS, FileSample, parse_import_request
from importers.core.results import ReceiptCode, UnreadableError
from importers.models import ImportReceipt, ImportRun
from importers.registry import installed_importers
from importers.runs import uploads
from importers.runs.preview import (
    ExportPart,
    ExportPreview,
    describe_part,
    dry_run,
    issue_text,
    preview_export,
)
from importers.runs.record_feed import ImportTotals, Total, format_sum
from importers.runs.store import ensure_connection, find_run, latest_runs
from importers.runs.uploads import Upload, answer, dismiss, find_waiting, list_waiting, locate
from operations import jobs
from owner.form_fields import (
    FIELD,
    OwnAddressesField,
    add_addresses,
    known_addresses,
    names_senders,
)
from owner.permissions import owner_required
from owner.preferences import base_language
from owner.records.periods import zone_name
from owner.records.record_summaries import stream_url
from owner.site import owner, page
from owner.text import count_of, escape_invisible, format_time, one_line, pluralize

COLUMN_PREFIX = "column_"
COLUMN_LABELS = {
    "date": "Date", "amount": "Amount", "debit": "Money out", "credit": "Money in",
    "direction": "In or out", "currency": "Currency", "counterparty": "Name of the other side",
    "counterparty_account": "Account of the other side", "memo": "Purpose",
    "account": "Your account", "kind": "Kind", "category": "Category", "reference": "Reference",
    "status": "Status", "fee": "Fee", "balance": "Balance",
}  # fmt: skip
MAIN_COLUMNS = frozenset({"date", "amount", "counterparty", "memo"})
"""Columns whose menus are always shown; of the others, those that were recognized or chosen."""


class FilesInput(forms.FileInput):
    allow_multiple_selected = True


class FilesField(forms.FileField):
    """One file or several, cleaned to a list."""

    @override
    def clean(self, data: Any, initial: Any = None) -> Any:
        files = data if isinstance(data, list) else [data]
        return [super(FilesField, self).clean(each, initial) for each in files or [None]]


class SendForm(forms.Form):
    file = FilesField(
        label="Files",
        widget=FilesInput(attrs={"multiple": True}),
        help_text="As you downloaded them: a zip archive, a mailbox (.mbox), a calendar (.ics),"
        " contacts (.vcf), a bank statement, a chat, export.xml, a text or a PDF.",
    )


class WishForm(forms.Form):
    connection = forms.CharField(
        label="Connection",
        required=False,
        help_text="Its name, such as Work mail. A new name creates a new connection. Leave empty for one"
        " of this kind.",
    )
    kind = forms.ChoiceField(
        label="Kind",
        required=False,
        choices=[
            ("", "As recognized"),
            *((kind.name, kind.title) for kind in installed_importers()),
        ],
    )
    timezone = forms.CharField(
        label="Time zone",
        required=False,
        initial=zone_name,
        help_text="For times without a zone, such as Europe/Berlin.",
    )
    date_order = forms.ChoiceField(
        label="Dates such as 03/04/2026",
        required=False,
        choices=[
            ("", "As the export shows"),
            *zip(
                DATE_ORDERS,
                ("Day first", "Month first", "Year first", "Year of the era Reiwa first"),
                strict=True,
            ),
        ],
    )
    languages = forms.CharField(
        label="Languages",
        required=False,
        initial=lambda: base_language(owner().language),
        help_text="Of the texts, for a new connection: en, de.",
    )
    own_addresses = OwnAddressesField(initial=lambda: "\n".join(known_addresses()))
    account = forms.CharField(
        label="Account",
        required=False,
        help_text="Of a bank statement that does not name it, such as Savings.",
    )
    decimal = forms.ChoiceField(
        label="Amounts such as 1,234",
        required=False,
        choices=[
            ("", "As the export shows"),
            ("comma", "A comma before the cents"),
            ("point", "A point before the cents"),
        ],
    )
    signs = forms.ChoiceField(
        label="Amounts without a minus sign",
        required=False,
        choices=[
            ("", "As the export shows"),
            ("as-written", "They are money in"),
            ("inverted", "They are purchases with a card"),
        ],
    )

    def __init__(
        self, data: Mapping[str, str] | None = None, *, found: ExportPreview | None = None
    ) -> None:
        """Ask only what the export needs, and show what its values mean in each choice."""
        super().__init__(data)
        samples = () if found is None else found.samples
        for name in [] if found is None else _unneeded(found):
            if not self.data.get(name):
                del self.fields[name]
        for name in {"date_order", "decimal"} & self.fields.keys():
            menu = cast("forms.ChoiceField", self.fields[name])
            texts = next((each.readings[name] for each in samples if each.readings.get(name)), {})
            if texts:
                menu.widget = forms.RadioSelect()
            menu.choices = [
                (value, f"{label}: {escape_invisible(texts[value])}" if value in texts else label)
                for value, label in cast("list[tuple[str, str]]", menu.choices)
                if value != "reiwa" or value in texts
            ]
        detected = dict.fromkeys(each.language for each in samples if each.language)
        if detected and "languages" in self.fields:
            self.fields["languages"].initial = ", ".join(detected)
        headers = list(dict.fromkeys(filter(None, (n for each in samples for n in each.header))))
        read = {name: column for each in reversed(samples) for name, column in each.columns.items()}
        chosen = {name for name in COLUMN_LABELS if self.data.get(COLUMN_PREFIX + name)}
        self._shown_columns = MAIN_COLUMNS | set(read) | chosen
        for name, label in COLUMN_LABELS.items() if headers else ():
            recognized = escape_invisible(read[name]) if name in read else "none"
            self.fields[COLUMN_PREFIX + name] = forms.ChoiceField(
                label=label,
                required=False,
                choices=[
                    ("", f"As recognized: {recognized}"),
                    *((column, escape_invisible(column)) for column in headers),
                ],
            )

    @property
    def column_menus(self) -> list[forms.BoundField]:
        return [each for each in self if self._column(each) in self._shown_columns]

    @property
    def folded_menus(self) -> list[forms.BoundField]:
        return [each for each in self if self._column(each) not in {"", *self._shown_columns}]

    def _column(self, menu: forms.BoundField) -> str:
        """Return the column that a menu is for; empty for another field."""
        return menu.name.removeprefix(COLUMN_PREFIX) if menu.name.startswith(COLUMN_PREFIX) else ""

    @property
    def other_fields(self) -> list[forms.BoundField]:
        return [each for each in self if not self._column(each)]

    def wish(self) -> dict[str, str]:
        """Return the values for ``parse_import_request``; the menus need not be known yet."""
        names = self.base_fields.keys() - {FIELD}
        known = {name: str(self.cleaned_data.get(name, "")) for name in names}
        known["timezone"] = known["timezone"] or zone_name()
        chosen = {name: self.data.get(COLUMN_PREFIX + name) for name in COLUMN_LABELS}
        lines = (
            f"{name}={' '.join(column.splitlines())}" for name, column in chosen.items() if column
        )
        return known | {"columns": "\n".join(lines)}


def _unneeded(found: ExportPreview) -> set[str]:
    """Return the fields that say nothing of an export, unless one of its questions names them."""
    asked = " ".join(part.missing_option.flag for part in found.parts if part.missing_option)
    has_table = any(each.header for each in found.samples)
    needed = {
        "account": has_table,
        "decimal": has_table,
        "signs": has_table,
        "date_order": has_table or any(each.readings.get("date_order") for each in found.samples),
        "timezone": any(part.importer.has_local_times for part in found.parts),
        "languages": not all(part.target.connection_id for part in found.parts),
        FIELD: any(names_senders(part.importer.declaration) for part in found.parts),
    }
    return {
        name
        for name, is_needed in needed.items()
        if not is_needed and f"--{name.replace('_', '-')}" not in asked
    }


PLACES_SHOWN = 50
MAX_GROUPS = 60


def bar_parts(**counts: int) -> list[dict[str, Any]]:
    """Return the parts of a bar that is 100 units long; each that is not empty is at least one."""
    total = sum(counts.values())
    parts, x = [], 0.0
    for kind, count in counts.items():
        if count:
            width = max(1.0, round(100 * count / total, 2))
            text = f"{count:,} {'not imported' if kind == 'left' else kind}"
            parts.append({"kind": kind, "x": round(x, 2), "width": width, "text": text})
            x += width
    return parts


def account_results(run: ImportRun) -> Iterator[dict[str, Any]]:
    """Yield what became of the items of each stream, account and currency."""
    totals = ImportTotals({})
    totals.load(run.totals)
    for (stream, account, currency), total in sorted(totals.totals.items()):
        unchanged = total.items - total.new - total.changed - total.refused
        yield {
            "name": escape_invisible(totals.names.get(account, account)),
            "stream": stream.replace("_", " "),
            "url": stream_url(run.connection_id, stream),
            "bar": bar_parts(
                new=total.new, changed=total.changed, unchanged=unchanged, left=total.refused
            ),
            "days": escape_invisible(days_of(total)),
            "sum": "" if total.sum is None else format_sum(Decimal(total.sum), currency),
        }


def receipt_groups(run_id: str) -> list[dict[str, Any]]:
    """Return the receipts of a run by reason: those not imported first, frequent ones first."""
    receipts = ImportReceipt.unscoped.filter(run_id=run_id)
    counts = receipts.values("code").annotate(count=Count("pk")).order_by("-count", "code")
    groups = []
    for row in counts[:MAX_GROUPS]:
        text = ReceiptCode(row["code"]).text
        places = []
        for each in receipts.filter(code=row["code"]).order_by("pk")[:PLACES_SHOWN]:
            place = ", ".join(filter(None, (each.file, each.place)))
            places.append(escape_invisible(f"{place}: {each.detail}" if each.detail else place))
        groups.append({
            "problem": text.problem,
            "next_step": text.page_step or text.next_step,
            "count": row["count"],
            "is_imported": text.is_imported,
            "places": places,
            "hidden": row["count"] - len(places),
        })  # fmt: skip
    return sorted(groups, key=lambda group: bool(group["is_imported"]))


LEFT_SHOWN = 20
COUNTED_BYTES = 5_000_000
"""Larger parts take too long to be counted before the page is shown."""
SAMPLE_SIZE = 5
STATES = {
    ImportRun.Status.RUNNING: "Importing",
    ImportRun.Status.FINISHED: "Finished",
    ImportRun.Status.STOPPED: "Stopped. Send the file again to continue",
}


def part_lines(found: ExportPreview) -> list[dict[str, Any]]:
    """Return each part: a question with its evidence where the owner has to choose, else its records."""
    lines: list[dict[str, Any]] = []
    for part in found.parts:
        text, missing = escape_invisible(describe_part(part)), part.missing_option
        if missing is None:
            lines.append({"text": text, "counts": part_counts(part), "titles": part_titles(part)})
        else:
            evidence = [escape_invisible(line) for line in missing.evidence]
            lines.append({"text": text, "question": missing.question, "evidence": evidence})
    return lines


def part_counts(part: ExportPart) -> list[str]:
    """Return the records by stream and account with their dates and sums; none of a large part."""
    if part.files.size > COUNTED_BYTES:
        return []
    totals = dry_run(part).totals
    lines = []
    for (stream, account, currency), total in sorted(totals.totals.items()):
        dates = f", {days_of(total)}" if total.first else ""
        name = f" in {totals.names.get(account, account)}" if account else ""
        money = "" if total.sum is None else f", {format_sum(Decimal(total.sum), currency)}"
        lines.append(escape_invisible(f"{count_of(total.items, stream)}{name}{dates}{money}"))
    return lines


def days_of(total: Total) -> str:
    """Return ``13 January 2026 to 1 February 2026``, or one day; empty without days."""
    return " to ".join(_spoken(day) for day in dict.fromkeys((total.first, total.last)))


def _spoken(day: str) -> str:
    try:
        return format_day(date.fromisoformat(day))
    except ValueError:  # an importer wrote something else
        return day


def part_titles(part: ExportPart) -> list[str]:
    """Return the titles of the first records of a part that has no table."""
    streams = parse_declaration(orjson.loads(part.importer.declaration)).streams
    titles = []
    items = sandbox.read(part.importer, part.files, part.options, skip=0)
    for item in islice(items, SAMPLE_SIZE):
        for file in item.files:
            item.read(file.size)
        for record in item.records:
            data = orjson.loads(item.read(record.size))
            named = streams[record.stream].title_field if record.stream in streams else None
            titles += [one_line(data[named])] if named and data.get(named) else []
    items.close()  # type: ignore[attr-defined] # a generator, whose end stops the process
    return titles[:SAMPLE_SIZE]


def table_lines(sample: FileSample) -> dict[str, Any]:
    """Return the first rows of a table; each column has its name and what it is read as."""
    labels = {column: COLUMN_LABELS.get(name, "") for name, column in sample.columns.items()}
    return {
        "file": escape_invisible(sample.file),
        "columns": [(escape_invisible(name), labels.get(name, "")) for name in sample.header],
        "rows": [[escape_invisible(cell) for cell in cells] for cells in sample.rows],
    }


def run_lines(run: ImportRun, *, with_accounts: bool = False) -> dict[str, Any]:
    percent = 100 if not run.bytes_total else min(100, run.bytes_done * 100 // run.bytes_total)
    counts = (
        (run.updated, "changed"),
        (run.unchanged, "unchanged"),
        (run.files, "file" if run.files == 1 else "files"),
        (run.left_out, "not imported"),
        (run.remarked, "adjusted"),
    )
    shown = [pluralize(run.created, "new record"), *(f"{n:,} {word}" for n, word in counts if n)]
    return {
        "run_id": run.run_id,
        "label": escape_invisible(run.label),
        "connection": run.connection.display_name,
        "began": format_time(run.started_at),
        "text": f"{STATES[ImportRun.Status(run.status)]}: {', '.join(shown)}",
        "percent": 100 if run.status == ImportRun.Status.FINISHED else percent,
        "bar": bar_parts(
            new=run.created, changed=run.updated, unchanged=run.unchanged, left=run.left_out
        ),
        "accounts": list(account_results(run)) if with_accounts else [],
    }


LATEST = 20
REFRESH_SECONDS = 3


@owner_required
def send(request: HttpRequest) -> HttpResponse:
    """Show the upload form and the recent imports."""
    form = SendForm(request.POST or None, request.FILES or None)
    if request.method == "POST" and form.is_valid():
        received = [_receive(file) for file in form.cleaned_data["file"]]
        if len(received) == 1:
            return redirect(_address(received[0]))
        return redirect("imports")
    runs = [run_lines(run) for run in latest_runs(current_owner(), limit=LATEST)]
    sent = [
        {"name": escape_invisible(each.state.name), "url": _address(each)}
        for each in uploads.list_received(_root())
    ]
    context = {
        "form": form,
        "runs": runs,
        "sent": sent,
        "waiting": [
            {
                "name": escape_invisible(Path(each.path).name),
                "question": escape_invisible(each.question),
                "asked": format_time(each.asked_at),
                "is_due": each.is_due,
                "url": reverse("import-waiting", args=[each.waiting_id]),
            }
            for each in list_waiting(current_owner())
        ],
    }
    return _page(request, "send", title="Import an export", context=context)


def _receive(file: "UploadedFile[Any]") -> Upload:
    upload = uploads.create_upload(_root(), name=file.name or "", size=file.size or 0)
    upload.write_chunk(file, offset=0)
    upload.save(phase="received")
    return upload


@owner_required
def add_slice(request: HttpRequest) -> HttpResponse:
    """The next bytes of a file; scripts send large ones so. Answers where the rest goes."""
    if request.method != "POST":
        return redirect(reverse("imports"))
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


@owner_required
def look(request: HttpRequest, upload_id: str) -> HttpResponse:
    """What was sent, with what can be said about it; once confirmed, how far it is."""
    upload = uploads.find_upload(_root(), upload_id)
    if upload is None:
        raise Http404
    state = upload.state  # read once: the import may end while the page is made
    if state.phase != "received":
        found = (find_run(run_id, owner_id=current_owner()) for run_id in state.runs)
        context = {
            "upload": state,
            "runs": [run_lines(run, with_accounts=True) for run in found if run is not None],
            "is_going_on": state.phase == "wanted",
            "seconds": REFRESH_SECONDS,
        }
        return _page(request, "progress", title=state.name, context=context)

    def start(values: dict[str, str]) -> str:
        upload.save(phase="wanted", wish=values)
        jobs.notify()
        return _address(upload)

    return _preview(request, upload.path, start)


@owner_required
def answer_question(request: HttpRequest, waiting_id: str) -> HttpResponse:
    """The same for an export in a watched folder, which the background worker then imports."""
    waiting = find_waiting(waiting_id, owner_id=current_owner())
    if waiting is None:
        raise Http404
    if "dismiss" in request.POST:
        dismiss(waiting)
        messages.success(request, "Dismissed. What the question is about is not imported.")
        return redirect("imports")

    def start(values: dict[str, str]) -> str:
        answer(waiting, values)
        messages.success(request, "Answered. The import starts shortly.")
        return reverse("imports")

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
        context["refusal"] = error.issue.code.text.problem
        return _page(request, "preview", title=title, context=context)
    is_ready = bool(found.parts) and all(part.missing_option is None for part in found.parts)
    senders = [part for part in found.parts if names_senders(part.importer.declaration)]
    context["form"] = form = WishForm(words, found=found)
    if words is not None and form.is_valid() and is_ready and "start" in words:
        if addresses := form.cleaned_data.get(FIELD):
            now = timezone.now()
            for part in senders:
                add_addresses(ensure_connection(part.target, now=now), addresses, now=now)
        return redirect(start(form.wish()))
    context |= {
        "parts": part_lines(found),
        "left": [
            escape_invisible(f"{name}: {issue_text(issue, on_page=True)}")
            for name, issue in found.skipped[:LEFT_SHOWN]
        ],
        "tables": [table_lines(each) for each in found.samples if each.header],
    }
    return _page(request, "preview", title=title, context=context)


def _find_parts(export: Path, wish: Mapping[str, str]) -> ExportPreview:
    request, now = parse_import_request(wish), timezone.now()
    return preview_export(
        export, request=request, owner_id=current_owner(), now=now, with_samples=True
    )


@owner_required
def report(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show what became of a run: by account, and its receipts by reason."""
    run = find_run(run_id, owner_id=current_owner())
    if run is None:
        raise Http404
    context = {"run": run_lines(run, with_accounts=True), "groups": receipt_groups(run.run_id)}
    return _page(request, "report", title=run.label, context=context)


def _page(
    request: HttpRequest, name: str, *, title: str, context: Mapping[str, Any]
) -> HttpResponse:
    return page(request, f"imports/{name}", title=title, context={"here": "import", **context})


def _address(upload: Upload) -> str:
    return reverse("import-upload", args=[upload.upload_id])


def _root() -> Any:
    return uploads.root_of(settings.PDPP_VAR / "imports", current_owner())
