"""Preview an export before anything is written, dry-run an import, and format reports."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from evidence.errors import InvalidRequest
from evidence.models.imports import ImportReceipt, ImportRun
from importers.core.export_files import Export, ExportFile, fingerprint, open_export
from importers.core.importer import YEARS_AHEAD, ChoiceNeeded, Importer, ImportRequest, Options
from importers.core.results import RECEIPT_TEXTS, Issue, ReceiptCode
from importers.registry import IMPORTERS
from importers.runs.record_feed import AttachmentSpool, RecordFeed, pending_receipts
from importers.runs.seen_keys import KeySet
from importers.runs.store import (
    ImportTarget,
    PendingReceipt,
    find_target,
    list_receipts,
    load_options,
)


@dataclass(frozen=True, slots=True)
class ExportPart:
    """The files of one importer. ``missing_option`` asks what the owner must decide first."""

    importer: Importer
    files: tuple[ExportFile, ...]
    target: ImportTarget
    options: Options
    missing_option: ChoiceNeeded | None = None

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.files)


@dataclass(frozen=True, slots=True)
class ExportPreview:
    """The parts of an export, and its ``skipped`` files with the reasons."""

    label: str
    parts: tuple[ExportPart, ...]
    skipped: tuple[tuple[str, Issue], ...]


def preview_export(
    path: Path, *, request: ImportRequest, owner_id: str, now: datetime
) -> ExportPreview:
    """Find the importers and targets of an export. Writes nothing.

    Raises ``UnreadableError`` when the export cannot be opened, and ``InvalidRequest`` for an unknown
    importer or connection.
    """
    export = open_export(path)
    options = replace(request.options, horizon_year=now.year + YEARS_AHEAD)
    claimed, unclaimed = _claim_files(export, only=_find_importer(request.kind))
    parts = [
        _part(importer, files, options=options, request=request, owner_id=owner_id)
        for importer, files in claimed
    ]
    skipped = [
        (file.name, Issue(ReceiptCode.NOT_RECOGNISED if file.size else ReceiptCode.EMPTY))
        for file in unclaimed
    ]
    return ExportPreview(export.name, tuple(parts), (*export.unreadable, *skipped))


def _find_importer(name: str | None) -> Importer | None:
    if name is None:
        return None
    importer = next((importer for importer in IMPORTERS if importer.name == name), None)
    if importer is None:
        names = ", ".join(importer.name for importer in IMPORTERS)
        raise InvalidRequest(message=f"The format is one of {names}; got {name!r}.", param="as")
    return importer


def _claim_files(
    export: Export, *, only: Importer | None
) -> tuple[list[tuple[Importer, list[ExportFile]]], list[ExportFile]]:
    """Return the files that each importer claims, and the files that none claims.

    An importer that the owner chose takes a single file without recognizing it.
    """
    unclaimed = list(export.files)
    claimed = []
    for importer in IMPORTERS if only is None else (only,):
        files = importer.claim(unclaimed)
        if only is not None and not files and len(unclaimed) == 1:
            files = unclaimed
        if files:
            claimed.append((importer, files))
            claimed_ids = set(map(id, files))
            unclaimed = [file for file in unclaimed if id(file) not in claimed_ids]
    return claimed, unclaimed


def _part(
    importer: Importer,
    files: Iterable[ExportFile],
    *,
    options: Options,
    request: ImportRequest,
    owner_id: str,
) -> ExportPart:
    target = find_target(
        importer, name=request.connection, owner_id=owner_id, languages=request.languages
    )
    files = tuple(files)
    options = load_options(target, options)
    try:
        return ExportPart(importer, files, target, importer.prepare(files, options))
    except ChoiceNeeded as missing_option:
        return ExportPart(importer, files, target, options, missing_option)


MAX_SKIPPED_SHOWN = 5
MAX_RECEIPTS_SHOWN = 20


def format_size(count: int) -> str:
    """Return a size in bytes as text such as ``12.3 MB``."""
    amount = float(count)
    for unit in ("bytes", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} bytes" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


def preview_lines(preview: ExportPreview) -> Iterator[str]:
    """Describe an export before it is imported."""
    for part in preview.parts:
        yield f"{preview.label}: {describe_part(part)}"
    if not preview.parts:
        yield f"{preview.label}: no importable files"
    for name, issue in preview.skipped[:MAX_SKIPPED_SHOWN]:
        yield f"  skipped: {name}: {RECEIPT_TEXTS[issue.code].problem}"
    if len(preview.skipped) > MAX_SKIPPED_SHOWN:
        yield f"  skipped: {len(preview.skipped) - MAX_SKIPPED_SHOWN:,} more"


def describe_part(part: ExportPart) -> str:
    importer, options = part.importer, part.options
    files = "1 file" if len(part.files) == 1 else f"{len(part.files):,} files"
    connection = part.target.connection_id or "a new connection"
    zone = f", local times in {options.zone}" if importer.has_local_times else ""
    years = f"{options.first_year} to {options.horizon_year}"
    recurring = f", repeating events from {years}" if importer.has_recurring_events else ""
    return (
        f"{importer.title}, {files}, {format_size(part.size)},"
        f" into {part.target.name} ({connection}){zone}{recurring}"
    )


def result_lines(run: ImportRun) -> Iterator[str]:
    """Report the counts of a run and its first receipts."""
    yield (
        f"  {run.created:,} new, {run.updated:,} changed, {run.unchanged:,} unchanged,"
        f" {run.doubles:,} duplicates skipped, {run.files:,} attachments saved"
    )
    if run.left_out or run.remarked:
        yield f"  {run.left_out:,} not imported, {run.remarked:,} imported with warnings:"
    for receipt in list_receipts(run.run_id, limit=MAX_RECEIPTS_SHOWN):
        yield f"    {receipt_line(receipt)}"
    hidden = run.left_out + run.remarked - MAX_RECEIPTS_SHOWN
    if hidden > 0:
        yield f"    and {hidden:,} more; --report FILE writes all of them"


def receipt_line(receipt: ImportReceipt) -> str:
    """Describe a receipt: file, location, problem and next step."""
    text = RECEIPT_TEXTS[ReceiptCode(receipt.code)]
    location = ", ".join(filter(None, (receipt.file, receipt.place)))
    detail = f" ({receipt.detail})" if receipt.detail else ""
    return f"{location}: {text.problem}{detail} {text.next_step}"


MAX_DRY_RUN_RECEIPTS = 10_000


@dataclass(slots=True)
class DryRunResult:
    """What an import would store; ``record_counts`` is by stream."""

    record_counts: Counter[str] = field(default_factory=Counter)
    duplicates: int = 0
    receipts: list[PendingReceipt] = field(default_factory=list)


def dry_run(part: ExportPart) -> DryRunResult:
    """Parse a part completely without writing anything."""
    result, spool = DryRunResult(), AttachmentSpool()
    feed = RecordFeed(
        part.importer.read(part.files, part.options),
        connection_id="",
        skip=0,
        seen=KeySet(),
        spool=spool,
    )
    try:
        while feed.has_more:
            for _ in feed.lines():
                _count_items(result, feed, spool)
            _count_items(result, feed, spool)
    finally:
        spool.close()
    return result


def _count_items(result: DryRunResult, feed: RecordFeed, spool: AttachmentSpool) -> None:
    spool.take(up_to=feed.line)
    spool.truncate()
    for item in feed.finished_items(up_to=feed.line):
        result.record_counts.update(item.streams)
        result.duplicates += item.duplicates
        result.receipts += pending_receipts(item)[: MAX_DRY_RUN_RECEIPTS - len(result.receipts)]
