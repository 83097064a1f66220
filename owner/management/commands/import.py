"""``manage.py import PATH…``: an export as it was downloaded, into the store."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.db import DatabaseError
from django.utils import timezone
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from typing_extensions import override

from evidence.errors import ApiException
from evidence.management.owner_command import OwnerCommand
from evidence.models.owners import current_owner
from importers.core.importer import (
    DATE_ORDERS,
    DECIMALS,
    SIGNS,
    ChoiceNeeded,
    ImportRequest,
    parse_import_request,
)
from importers.core.results import UnreadableError
from importers.models import ImportRun
from importers.registry import installed_importers
from importers.runs.preview import (
    MAX_RECEIPTS_SHOWN,
    ExportPart,
    ExportPreview,
    dry_run,
    issue_text,
    preview_export,
    preview_lines,
    receipt_line,
    result_lines,
    unknown_tables,
)
from importers.runs.record_feed import total_lines
from importers.runs.runner import ImportWorker, OnProgress, import_part
from importers.runs.store import list_receipts
from importers.runs.uploads import list_waiting, settle

WATCH_SECONDS = 10
GOES_ON = "What was stored stays; the same command goes on from here."
KINDS_HELP = ", ".join(kind.name for kind in installed_importers())
DATE_ORDER_HELP = "How 03/04/2026 is read, where the export leaves it open; remembered."
DECIMAL_HELP = "The mark before the cents of a bank statement, where the file leaves it open."
SIGNS_HELP = "Whether amounts without a minus sign arrive, or are purchases with a card (inverted)."
TEXTS = (
    ("--connection", "NAME", "The name or id of the connection it belongs to."),
    (
        "--timezone",
        "ZONE",
        "Where times without a zone are meant, such as Europe/Berlin (default: UTC).",
    ),
    ("--account", "NAME", "The account of a bank statement that does not name it."),
)
LISTS = (
    ("--language", "CODE", "A language of its texts, for a new connection; may be repeated."),
    (
        "--column",
        "OURS=THEIRS",
        "Which column of a CSV file is the date, the amount, …; remembered. May be repeated.",
    ),
)
PATHS = (
    ("--watch", "DIR", "Go on importing whatever is put into this folder, until it is stopped."),
    ("--report", "FILE", "Write every receipt to a text file."),
)


class Command(OwnerCommand):
    """Says what an export is before it writes anything. Exits with 1 when something needs the
    owner: a choice, or files that cannot be opened. Items that were left out have receipts."""

    _is_incomplete = False
    help = "Import exports: mail, calendars, contacts, chats, bank statements, health, documents."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("paths", nargs="*", type=Path, metavar="PATH")
        parser.add_argument("--as", dest="kind", metavar="KIND", help=f"One of {KINDS_HELP}.")
        parser.add_argument(
            "--dry-run", action="store_true", help="Read everything, write nothing."
        )
        parser.add_argument(
            "--list-waiting", action="store_true", help="List the watched exports with a question."
        )
        parser.add_argument("--date-order", choices=DATE_ORDERS, help=DATE_ORDER_HELP)
        parser.add_argument("--decimal", choices=tuple(DECIMALS), help=DECIMAL_HELP)
        parser.add_argument("--signs", choices=SIGNS, help=SIGNS_HELP)
        for flag, metavar, meaning in TEXTS:
            parser.add_argument(flag, metavar=metavar, help=meaning)
        for flag, metavar, meaning in LISTS:
            parser.add_argument(flag, metavar=metavar, action="append", default=[], help=meaning)
        for flag, metavar, meaning in PATHS:
            parser.add_argument(flag, metavar=metavar, type=Path, help=meaning)

    @override
    def handle(self, *args: Any, paths: list[Path], **options: Any) -> None:
        watch: Path | None = options["watch"]
        if options["list_waiting"]:
            self._list_waiting()
            return
        if not paths and watch is None:
            raise CommandError("Name what to import, or a folder to --watch.")
        if watch is not None and not watch.is_dir():
            raise CommandError(f"--watch: {watch} is no folder. Make it first, or name another.")
        with _report(options["report"]) as report:
            self._all(paths, options, report)

    def _list_waiting(self) -> None:
        found = list_waiting(current_owner())
        for each in found:
            self.stdout.write(f"{each.path}: {each.question}")
            if each.is_due:
                self.stdout.write("  Answered; the background worker imports it next.")
            else:
                self.stdout.write(f"  Answer on the import page, or import it with {each.flag}")
        if not found:
            self.stdout.write("Nothing waits for an answer.")

    def _all(self, paths: list[Path], options: dict[str, Any], report: IO[str] | None) -> None:
        now = timezone.now()
        try:
            wish = parse_import_request(_wish_values(options))
            surveys = [self._survey(path, wish, now) for path in paths]
            runs = [run for each in surveys for run in self._import(each, options, now)]
            if options["watch"] is not None:
                self._watch(options["watch"])
        except ApiException as refusal:
            raise CommandError(f"{refusal.message} What was stored before stays.") from refusal
        except DatabaseError as error:
            raise CommandError(f"The database failed. {GOES_ON}") from error
        except OSError as error:
            raise CommandError(f"{error.strerror}. {GOES_ON}") from error
        except KeyboardInterrupt:
            raise CommandError(f"Stopped. {GOES_ON}") from None
        if report is not None:
            _write_report(report, runs)
        open_questions = sum(
            part.missing_option is not None for each in surveys for part in each.parts
        )
        is_unsure = open_questions or any(map(unknown_tables, surveys))
        if not (self._is_incomplete or is_unsure or options["dry_run"]):
            for path in paths:
                settle(path, owner_id=current_owner(), values=_wish_values(options))
        if self._is_incomplete or open_questions or not all(each.parts for each in surveys):
            raise CommandError("Not everything could be imported; see above.")

    def _survey(self, path: Path, wish: ImportRequest, now: datetime) -> ExportPreview:
        try:
            found = preview_export(path, request=wish, owner_id=current_owner(), now=now)
        except UnreadableError as error:
            meaning = error.issue.code.text
            raise CommandError(f"{path}: {meaning.problem} {meaning.next_step}") from error
        for line in preview_lines(found):
            self.stdout.write(line)
        for part in found.parts:
            if part.missing_option is not None:
                self._ask(part.missing_option)
        return found

    def _ask(self, needed: ChoiceNeeded) -> None:
        self.stderr.write(f"  {needed.question}")
        for line in needed.evidence:
            self.stderr.write(f"    {line}")
        self.stderr.write(f"  Say which with {needed.flag}")

    def _import(
        self, found: ExportPreview, options: dict[str, Any], now: datetime
    ) -> Iterator[ImportRun]:
        ready = [part for part in found.parts if part.missing_option is None]
        for number, part in enumerate(ready):
            if options["dry_run"]:
                self._try(part)
                continue
            try:
                with _progress(part) as on_progress:
                    run = import_part(
                        part,
                        label=found.label,
                        skipped=found.skipped if number == 0 else (),
                        workspace=settings.PDPP_VAR / "imports",
                        now=now,
                        on_progress=on_progress,
                    )
            except ChoiceNeeded as needed:  # asked because of another part of this import
                self._ask(needed)
                self._is_incomplete = True
                continue
            self.stdout.write(f"{part.importer.name}:")
            for line in result_lines(run):
                self.stdout.write(line)
            yield run

    def _watch(self, folder: Path) -> None:
        self.stdout.write(f"Watching {folder}; Ctrl-C ends it.")
        workspace = settings.PDPP_VAR / "imports"
        imports = ImportWorker(workspace, watch=folder, seconds=0, only=current_owner())
        while True:
            list(imports.job())
            time.sleep(WATCH_SECONDS)

    def _try(self, part: ExportPart) -> None:
        tried = dry_run(part)
        self.stdout.write(f"{part.importer.name}: nothing was written")
        for line in total_lines(tried.totals.to_json(), source=part.target.name):
            self.stdout.write(f"  {line}")
        for said in tried.receipts[:MAX_RECEIPTS_SHOWN]:
            where = ", ".join(filter(None, (said.file, said.location)))
            self.stdout.write(f"    {where}: {issue_text(said.issue)}")


def _wish_values(options: dict[str, Any]) -> dict[str, str]:
    return {
        "kind": options["kind"] or "",
        "connection": options["connection"] or "",
        "languages": ",".join(options["language"]),
        "timezone": options["timezone"] or "",
        "date_order": options["date_order"] or "",
        "decimal": options["decimal"] or "",
        "signs": options["signs"] or "",
        "account": options["account"] or "",
        "columns": "\n".join(options["column"]),
    }


@contextmanager
def _progress(part: ExportPart) -> Iterator[OnProgress]:
    columns = (BarColumn(), TextColumn("{task.fields[items]:,} items"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=part.files.size, items=0)
        yield lambda run: progress.update(task, completed=run.bytes_done, items=run.items_done)


@contextmanager
def _report(path: Path | None) -> Iterator[IO[str] | None]:
    """Opened before anything is imported: what came of it shall not be lost at the end."""
    if path is None:
        yield None
        return
    try:
        report = path.open("w", encoding="utf-8")
    except OSError as error:
        raise CommandError(f"--report: {error.filename}: {error.strerror}.") from error
    with report:
        yield report


def _write_report(report: IO[str], runs: list[ImportRun]) -> None:
    for run in runs:
        report.write(f"{run.kind} of {run.label}\n")
        report.writelines(f"{line}\n" for line in result_lines(run) if line[2] != " ")
        report.writelines(f"- {receipt_line(each)}\n" for each in list_receipts(run.run_id))
