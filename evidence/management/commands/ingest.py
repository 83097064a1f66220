"""``manage.py ingest FILE|DIR|-``: records from a file, an export's folder or standard input."""

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

import orjson
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from typing_extensions import override

from evidence.errors import Refusal
from evidence.management import argument_types
from evidence.models.accounts import the_owner
from evidence.storing.connections import connect, connection_ids
from evidence.storing.declaration_store import declare
from evidence.storing.ingest import Outcome, ingest_lines
from evidence.storing.ndjson import read_lines
from evidence.storing.receipts import MEANINGS, Receipt
from evidence.storing.reindex import a_thread_beside

RECORDS = "records.jsonl"


def needs_set_up(folder: Path) -> bool:
    """Whether the folder names connections that are not here."""
    known = connection_ids()
    return any(each["connection_id"] not in known for each in _connections(folder))


def set_up(folder: Path, *, owner_id: str, now: datetime) -> None:
    """Declares and connects what the folder brings and is not here yet."""
    for file in sorted(folder.glob("manifests/*.json")):
        declare(file.read_bytes(), owner_id=owner_id, now=now)
    known = connection_ids()
    for each in _connections(folder):
        if each["connection_id"] not in known:
            connect(
                each["connector_key"],
                display_name=each["display_name"],
                owner_id=owner_id,
                languages=each.get("languages", []),
                connection_id=each["connection_id"],
                now=now,
            )


def _connections(folder: Path) -> list[dict[str, Any]]:
    file = folder / "connections.json"
    listed: list[dict[str, Any]] = orjson.loads(file.read_bytes()) if file.exists() else []
    return listed


MIB = 1024 * 1024
LONGEST_MIB = 16
RECEIPTS_SHOWN = 20
OBJECTS_BETWEEN_COLLECTIONS = 200_000
SWITCH_SECONDS = 0.0005


class Command(BaseCommand):
    """Reads lines that say which connection and stream they belong to.

    Exits with 1 when lines were refused; all the others are stored then.
    """

    help = "Store records: JSON lines of {connection_id, stream, key, data, emitted_at, op}."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "source",
            metavar="FILE|DIR|-",
            help="A file, a folder with records.jsonl in it, or - for standard input.",
        )
        parser.add_argument(
            "--set-up",
            action="store_true",
            help="First declare DIR/manifests/*.json and connect what DIR/connections.json lists.",
        )
        parser.add_argument(
            "--replace",
            action="store_true",
            help="Let records of append-only streams be replaced and deleted.",
        )
        parser.add_argument(
            "--receipts",
            type=Path,
            metavar="PATH",
            help="Write a JSON line for every line that was refused or needs a remark.",
        )
        parser.add_argument(
            "--longest",
            type=argument_types.count,
            default=LONGEST_MIB,
            metavar="MIB",
            help="The longest line to read, in MiB (default: %(default)s). Memory grows with it.",
        )

    @override
    def handle(self, *args: Any, source: str, **options: Any) -> None:
        now = timezone.now()
        owner_id = the_owner(now).owner_id
        try:
            if options["set_up"]:
                set_up(Path(source), owner_id=owner_id, now=now)
            outcome = self._ingest(source, owner_id, now, options)
        except Refusal as refusal:
            raise CommandError(f"{refusal.message} What was stored before stays.") from refusal
        except OSError as error:
            raise CommandError(f"{error.filename}: {error.strerror}") from error
        except KeyboardInterrupt:
            raise CommandError(
                "Stopped. What was stored stays; run it again for the rest."
            ) from None
        self._report(outcome)
        if Path(source).is_dir() and needs_set_up(Path(source)):
            self.stderr.write("Some of its connections are not here; --set-up makes them.")
        if outcome.refused:
            raise CommandError(f"{outcome.refused:,} lines were refused.")

    def _ingest(
        self, source: str, owner_id: str, now: datetime, options: dict[str, Any]
    ) -> Outcome:
        with ExitStack() as stack:
            stack.enter_context(_to_ourselves())
            beside = stack.enter_context(a_thread_beside())
            stream = stack.enter_context(_opened(source))
            on_receipt = stack.enter_context(_receipts(options["receipts"]))
            on_progress = stack.enter_context(_progress(_size(source)))
            return ingest_lines(
                read_lines(stream, longest=options["longest"] * MIB),
                owner_id=owner_id,
                now=now,
                replace=options["replace"],
                on_receipt=on_receipt,
                on_progress=on_progress,
                beside=beside,
            )

    def _report(self, outcome: Outcome) -> None:
        self.stdout.write(
            f"{outcome.lines:,} lines: {outcome.created:,} created, {outcome.updated:,} updated,"
            f" {outcome.deleted:,} deleted, {outcome.unchanged:,} unchanged,"
            f" {outcome.by_code.total():,} not stored"
        )
        for code, count in sorted(outcome.by_code.items()):
            self.stdout.write(f"  {count:,} {code}: {MEANINGS[code]}")
        if outcome.duplicates:
            self.stdout.write(f"  {outcome.duplicates:,} lines replaced an earlier line's record")
        for receipt in outcome.receipts[:RECEIPTS_SHOWN]:
            self.stderr.write(f"line {receipt.line}: {receipt.code} {_where(receipt)}".rstrip())


def _where(receipt: Receipt) -> str:
    return " ".join(filter(None, (receipt.path, receipt.reason)))


def _file(source: str) -> Path:
    path = Path(source)
    return path / RECORDS if path.is_dir() else path


def _size(source: str) -> int | None:
    """Bytes to read, where that is known: pipes have no size."""
    if source == "-" or not _file(source).is_file():
        return None
    return _file(source).stat().st_size


@contextmanager
def _to_ourselves() -> Iterator[None]:
    """For a process that does nothing else: what it allocates is no garbage and has no cycles, and
    whoever has an answer of the database is not kept waiting by whoever prepares records."""
    threshold, interval = gc.get_threshold(), sys.getswitchinterval()
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
        gc.set_threshold(*threshold)
        gc.unfreeze()


@contextmanager
def _opened(source: str) -> Iterator[BinaryIO]:
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
def _progress(size: int | None) -> Iterator[Callable[[Outcome], object]]:
    columns = (BarColumn(), TextColumn("{task.fields[lines]:,} lines"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=size, lines=0)
        yield lambda so_far: progress.update(task, completed=so_far.size, lines=so_far.lines)
