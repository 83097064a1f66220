"""Preview an export before anything is written, dry-run an import, and describe both in lines."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

from evidence.errors import InvalidRequest
from importers.core import sandbox
from importers.core.importer import (
    EXTRA_PACKAGE,
    YEARS_AHEAD,
    ChoiceNeeded,
    FileSample,
    ImportRequest,
    InstalledImporter,
    Options,
)
from importers.core.readers import KeySet
from importers.core.results import Issue, ReceiptCode
from importers.core.sandbox import ClaimedFiles, Claims, SandboxError, Session, parse_issue
from importers.models import ImportReceipt, ImportRun
from importers.registry import OWN_PACKAGE, installed_importers
from importers.runs.record_feed import (
    AttachmentSpool,
    ImportTotals,
    RecordFeed,
    pending_receipts,
    total_lines,
)
from importers.runs.store import (
    ImportTarget,
    PendingReceipt,
    answers_to_save,
    find_doubt,
    find_target,
    list_receipts,
    load_options,
)

MAX_TABLES_NAMED = 3
MAX_DRY_RUN_RECEIPTS = 10_000
MAX_SKIPPED_SHOWN = 5
MAX_RECEIPTS_SHOWN = 20


@dataclass(frozen=True, slots=True)
class ExportPart:
    """The files of one importer. ``missing_option`` asks what the owner must decide first.

    ``given`` are the options of the owner, and ``answers`` what the owner answered, by the name under
    which it is remembered.
    """

    importer: InstalledImporter
    files: ClaimedFiles
    target: ImportTarget
    options: Options
    missing_option: ChoiceNeeded | None = None
    answers: Mapping[str, Any] = field(default_factory=dict)
    given: Options = field(default_factory=Options)


@dataclass(frozen=True, slots=True)
class ExportPreview:
    """The parts of an export, its ``skipped`` files with the reasons, and samples for its owner."""

    label: str
    parts: tuple[ExportPart, ...]
    skipped: tuple[tuple[str, Issue], ...]
    samples: tuple[FileSample, ...] = ()


def preview_export(
    path: Path, *, request: ImportRequest, owner_id: str, now: datetime, with_samples: bool = False
) -> ExportPreview:
    """Ask one package after another which files it reads, and find their targets. Writes nothing.

    Raises ``UnreadableError`` when the export cannot be opened, and ``InvalidRequest`` for an unknown
    importer or connection.
    """
    only = _find_importer(request.kind)
    given = replace(request.options, horizon_year=now.year + YEARS_AHEAD)
    installed = installed_importers()
    find = partial(
        find_target, name=request.connection, owner_id=owner_id, languages=request.languages
    )
    lacks_extra = only is None and EXTRA_PACKAGE not in {each.package for each in installed}
    claims: Claims | None = None
    parts: list[ExportPart] = []
    failed: list[str] = []
    samples: list[FileSample] = []
    for package, group in groupby(installed if only is None else (only,), attrgetter("package")):
        importers = tuple(group)
        try:
            with sandbox.open_session(importers[0], path) as session:
                claims = sandbox.claim(
                    session,
                    importers,
                    claimed=[each for part in parts for each in part.files.ranges],
                    is_chosen=only is not None,
                    lacks_extra=lacks_extra and package == OWN_PACKAGE,
                )
                failed += claims.failed
                for importer in importers:
                    if files := claims.files.get(importer.name):
                        part = ExportPart(importer, files, find(importer), given, given=given)
                        part = _prepare_part(session, part)
                        parts.append(part)
                        if with_samples:
                            samples += sandbox.sample(session, importer, files, part.options)
        except SandboxError as error:
            failed.append(f"{package}: {error}")
    failures = [(path.name, Issue(ReceiptCode.UNREADABLE, detail)) for detail in failed]
    if claims is None:
        return ExportPreview(path.name, (), tuple(failures))
    skipped = (*claims.unreadable, *failures, *_unread(claims, parts))
    read = tuple(part for part in parts if len(part.options.unclaimed) < len(part.files))
    return ExportPreview(claims.export_name, read, skipped, tuple(samples))


def _unread(claims: Claims, parts: Iterable[ExportPart]) -> Iterator[tuple[str, Issue]]:
    """Yield the files that no importer claims, and then those that their importer declines."""
    for name, size in claims.unclaimed:
        yield name, Issue(ReceiptCode.NOT_RECOGNISED if size else ReceiptCode.EMPTY)
    for part in parts:
        for name, *issue in part.options.unclaimed:
            yield name, parse_issue(issue)


def _prepare_part(session: Session, part: ExportPart) -> ExportPart:
    """Return the part with the options that its connection and its importer complete."""
    part = replace(part, options=load_options(part.target, part.given))
    try:
        prepared = sandbox.prepare(session, part.importer, part.files, part.options)
    except ChoiceNeeded as missing_option:
        return replace(part, missing_option=missing_option)
    if doubt := find_doubt(part.target, prepared):
        return replace(part, missing_option=doubt)
    answers = answers_to_save(part.importer, given=part.given, prepared=prepared)
    return replace(part, options=prepared, answers=answers)


def refresh_part(part: ExportPart, connection_id: str) -> ExportPart:
    """Prepare a part again if the parts before it have stored what its importer looks at."""
    target = replace(part.target, connection_id=connection_id)
    options = load_options(target, part.given)
    if (options.stored, options.twins) == (part.options.stored, part.options.twins):
        return part
    with sandbox.open_session(part.importer, part.files.export) as session:
        return _prepare_part(session, replace(part, target=target))


def _find_importer(name: str | None) -> InstalledImporter | None:
    if name is None:
        return None
    importers = installed_importers()
    importer = next((importer for importer in importers if importer.name == name), None)
    if importer is None:
        names = ", ".join(importer.name for importer in importers)
        raise InvalidRequest(message=f"The format is one of {names}; got {name!r}.", param="as")
    return importer


def unknown_tables(preview: ExportPreview) -> ChoiceNeeded | None:
    """Return what to ask about tables that no importer recognizes, without their columns."""
    names = [name for name, issue in preview.skipped if issue.code is ReceiptCode.UNKNOWN_COLUMNS]
    if not names:
        return None
    first = ", ".join(names[:MAX_TABLES_NAMED])
    more = f" and {len(names) - MAX_TABLES_NAMED:,} more" if names[MAX_TABLES_NAMED:] else ""
    question = (
        f"Not recognized as a bank statement: {first}{more}. If the rows are bookings, choose the"
        " columns of the date and the amount. If not, dismiss this."
    )
    return ChoiceNeeded(question, evidence=[], flag="--column date=NAME --column amount=NAME")


@dataclass(slots=True)
class DryRunResult:
    """What an import would store."""

    totals: ImportTotals
    receipts: list[PendingReceipt] = field(default_factory=list)


def dry_run(part: ExportPart) -> DryRunResult:
    """Parse a part completely without writing anything."""
    result = DryRunResult(ImportTotals.of(part.importer.declaration))
    spool = AttachmentSpool()
    feed = RecordFeed(
        sandbox.read(part.importer, part.files, part.options, skip=0),
        connection_id="",
        seen=KeySet(),
        spool=spool,
        totals=result.totals,
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
        result.totals.add(item.summaries)
        result.receipts += pending_receipts(item)[: MAX_DRY_RUN_RECEIPTS - len(result.receipts)]


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
        yield f"  skipped: {name}: {issue_text(issue)}"
    if len(preview.skipped) > MAX_SKIPPED_SHOWN:
        yield f"  skipped: {len(preview.skipped) - MAX_SKIPPED_SHOWN:,} more"


def issue_text(issue: Issue, *, on_page: bool = False) -> str:
    """Describe a problem with its detail and the next step, on a page or on the command line."""
    text = issue.code.text
    detail = f" ({issue.detail})" if issue.detail else ""
    next_step = (on_page and text.page_step) or text.next_step
    return f"{text.problem}{detail} {next_step}"


def describe_part(part: ExportPart) -> str:
    importer, options = part.importer, part.options
    count = len(part.files) - len(options.unclaimed)
    files = "1 file" if count == 1 else f"{count:,} files"
    connection = part.target.connection_id or "a new connection"
    zone = f", local times in {options.zone}" if importer.has_local_times else ""
    years = f"{options.first_year} to {options.horizon_year}"
    recurring = f", repeating events from {years}" if importer.series_stream else ""
    text = (
        f"{importer.title}, {files}, {format_size(part.files.size)},"
        f" into {part.target.name} ({connection}){zone}{recurring}"
    )
    return f"{text}. {importer.proof}" if importer.proof else text


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
    for line in total_lines(run.totals, source=run.connection.display_name):
        yield f"  {line}"


def receipt_line(receipt: ImportReceipt) -> str:
    """Describe a receipt: file, location, problem and next step."""
    location = ", ".join(filter(None, (receipt.file, receipt.place)))
    return f"{location}: {issue_text(Issue(ReceiptCode(receipt.code), receipt.detail))}"
