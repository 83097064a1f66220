"""Lines that describe an export before it is imported, and the result of its run."""

from collections.abc import Iterator

from importers.core.results import RECEIPT_TEXTS, Issue, ReceiptCode
from importers.models import ImportReceipt, ImportRun
from importers.runs.import_totals import total_lines
from importers.runs.preview import ExportPart, ExportPreview
from importers.runs.store import list_receipts

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
        yield f"  skipped: {name}: {issue_text(issue)}"
    if len(preview.skipped) > MAX_SKIPPED_SHOWN:
        yield f"  skipped: {len(preview.skipped) - MAX_SKIPPED_SHOWN:,} more"


def issue_text(issue: Issue, *, on_page: bool = False) -> str:
    """Describe a problem with its detail and the next step, on a page or on the command line."""
    text = RECEIPT_TEXTS[issue.code]
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
    recurring = f", repeating events from {years}" if importer.has_recurring_events else ""
    return (
        f"{importer.title}, {files}, {format_size(part.size)},"
        f" into {part.target.name} ({connection}){zone}{recurring}. {importer.proof}".rstrip(". ")
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
    for line in total_lines(run.totals, source=run.connection.display_name):
        yield f"  {line}"


def receipt_line(receipt: ImportReceipt) -> str:
    """Describe a receipt: file, location, problem and next step."""
    location = ", ".join(filter(None, (receipt.file, receipt.place)))
    return f"{location}: {issue_text(Issue(ReceiptCode(receipt.code), receipt.detail))}"
