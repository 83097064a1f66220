"""``manage.py ingest``: store records from JSON lines."""

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

import orjson
from django.core.management.base import CommandError, CommandParser
from django.utils import timezone
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from typing_extensions import override

from evidence.errors import ApiException
from evidence.management import argument_types
from evidence.management.owner_command import OwnerCommand
from evidence.models.owners import current_owner
from evidence.write.connections import connection_ids, create_connection
from evidence.write.declaration_store import declare
from evidence.write.ingest import IngestResult, ingest_lines
from evidence.write.ndjson import CODE_MESSAGES, Receipt, read_lines
from evidence.write.reindex import maintenance_thread

RECORDS_FILE = "records.jsonl"


def needs_set_up(folder: Path) -> bool:
    """Return whether the folder lists connections that do not exist here."""
    existing = connection_ids()
    return any(entry["connection_id"] not in existing for entry in _connections(folder))


def set_up(folder: Path, *, owner_id: str, now: datetime) -> None:
    """Publish the declarations of a folder, and create its missing connections."""
    for file in sorted(folder.glob("manifests/*.json")):
        declare(file.read_bytes(), owner_id=owner_id, now=now)
    existing = connection_ids()
    for entry in _connections(folder):
        if entry["connection_id"] not in existing:
            create_connection(
                entry["connector_key"],
                display_name=entry["display_name"],
                owner_id=owner_id,
                languages=entry.get("languages", []),
                connection_id=entry["connection_id"],
                now=now,
            )


def _connections(folder: Path) -> list[dict[str, Any]]:
    file = folder / "connections.json"
    connections: list[dict[str, Any]] = orjson.loads(file.read_bytes()) if file.exists() else []
    return connections


MIB = 1024 * 1024
DEFAULT_MAX_LINE_MIB = 16
MAX_RECEIPTS_SHOWN = 20
GC_THRESHOLD = 200_000
SWITCH_INTERVAL_SECONDS = 0.0005


class Command(OwnerCommand):
    """Stores valid lines; exits with status 1 if any line is rejected."""

    help = "Store records: JSON lines of {connection_id, stream, key, data, emitted_at, op}."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "source",
            metavar="FILE|DIR|-",
            help="A file, a folder that contains records.jsonl, or - for standard input.",
        )
        parser.add_argument(
            "--set-up",
            action="store_true",
            help="First publish DIR/manifests/*.json and create the connections of"
            " DIR/connections.json.",
        )
        parser.add_argument(
            "--replace",
            action="store_true",
            help="Allow lines to replace and delete records of append-only streams.",
        )
        parser.add_argument(
            "--receipts",
            type=Path,
            metavar="PATH",
            help="Write a JSON line for every line that was rejected or adjusted.",
        )
        parser.add_argument(
            "--longest",
            type=argument_types.count,
            default=DEFAULT_MAX_LINE_MIB,
            metavar="MIB",
            help="Maximum length of a line in MiB (default: %(default)s). Memory use grows with it.",
        )

    @override
    def handle(self, *args: Any, source: str, **options: Any) -> None:
        now = timezone.now()
        owner_id = current_owner()
        try:
            if options["set_up"]:
                set_up(Path(source), owner_id=owner_id, now=now)
            result = self._ingest(source, owner_id, now, options)
        except ApiException as error:
            raise CommandError(f"{error.message} Earlier batches stay stored.") from error
        except OSError as error:
            raise CommandError(f"{error.filename}: {error.strerror}") from error
        except KeyboardInterrupt:
            raise CommandError("Stopped. Run the command again to store the rest.") from None
        self._report(result)
        if Path(source).is_dir() and needs_set_up(Path(source)):
            self.stderr.write("Some connections do not exist; --set-up creates them.")
        if result.rejected:
            raise CommandError(f"{result.rejected:,} lines were rejected.")

    def _ingest(
        self, source: str, owner_id: str, now: datetime, options: dict[str, Any]
    ) -> IngestResult:
        with ExitStack() as stack:
            stack.enter_context(_tuned_interpreter())
            executor = stack.enter_context(maintenance_thread())
            stream = stack.enter_context(_open(source))
            on_receipt = stack.enter_context(_receipts(options["receipts"]))
            on_progress = stack.enter_context(_progress(_size(source)))
            return ingest_lines(
                read_lines(stream, max_bytes=options["longest"] * MIB),
                owner_id=owner_id,
                now=now,
                replace=options["replace"],
                on_receipt=on_receipt,
                on_progress=on_progress,
                executor=executor,
            )

    def _report(self, result: IngestResult) -> None:
        self.stdout.write(
            f"{result.lines:,} lines: {result.created:,} created, {result.updated:,} updated,"
            f" {result.deleted:,} deleted, {result.unchanged:,} unchanged,"
            f" {result.by_code.total():,} not stored"
        )
        for code, count in sorted(result.by_code.items()):
            self.stdout.write(f"  {count:,} {code}: {CODE_MESSAGES[code]}")
        if result.times_not_used:
            self.stdout.write(
                f"  {result.times_not_used:,} values are not the times that their fields declare"
            )
        if result.duplicates:
            self.stdout.write(f"  {result.duplicates:,} lines replaced an earlier line's record")
        for receipt in result.receipts[:MAX_RECEIPTS_SHOWN]:
            self.stderr.write(f"line {receipt.line}: {receipt.code} {_location(receipt)}".rstrip())


def _location(receipt: Receipt) -> str:
    return " ".join(filter(None, (receipt.path, receipt.reason)))


def _file(source: str) -> Path:
    path = Path(source)
    return path / RECORDS_FILE if path.is_dir() else path


def _size(source: str) -> int | None:
    """Return the bytes to read, or None for a pipe."""
    if source == "-" or not _file(source).is_file():
        return None
    return _file(source).stat().st_size


@contextmanager
def _tuned_interpreter() -> Iterator[None]:
    """Tune a process that only imports: fewer garbage collections, faster thread switches.

    Records contain no reference cycles, and the database thread must not wait for the one that
    prepares batches.
    """
    threshold, interval = gc.get_threshold(), sys.getswitchinterval()
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
        gc.set_threshold(*threshold)
        gc.unfreeze()


@contextmanager
def _open(source: str) -> Iterator[BinaryIO]:
    if source == "-":
        yield sys.stdin.buffer
        return
    with _file(source).open("rb") as stream:
        yield stream


@contextmanager
def _receipts(path: Path | None) -> Iterator[Callable[[Receipt], object] | None]:
    if path is None:
        yield None
        return
    with path.open("wb") as file:
        yield lambda receipt: file.write(orjson.dumps(receipt) + b"\n")


@contextmanager
def _progress(size: int | None) -> Iterator[Callable[[IngestResult], object]]:
    columns = (BarColumn(), TextColumn("{task.fields[lines]:,} lines"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=size, lines=0)
        yield lambda result: progress.update(task, completed=result.size, lines=result.lines)
