"""What an export is and what became of it, for people."""

from collections.abc import Iterator

from evidence.importing.codes import MEANINGS, Code
from evidence.importing.runs import receipts_of
from evidence.importing.surveying import Part, Survey
from evidence.models.imports import ImportReceipt, ImportRun

LEFT_SHOWN = 5
RECEIPTS_SHOWN = 20


def size(count: int) -> str:
    """``12.3 MB``."""
    amount = float(count)
    for unit in ("bytes", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} bytes" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


def surveyed(survey: Survey) -> Iterator[str]:
    """What is there, before anything is written."""
    for each in survey.parts:
        yield f"{survey.label}: {part(each)}"
    if not survey.parts:
        yield f"{survey.label}: nothing that can be imported"
    for name, remark in survey.left[:LEFT_SHOWN]:
        yield f"  not read: {name}: {MEANINGS[remark.code].sentence}"
    if len(survey.left) > LEFT_SHOWN:
        yield f"  not read: {len(survey.left) - LEFT_SHOWN:,} more"


def part(found: Part) -> str:
    files = "1 file" if len(found.entries) == 1 else f"{len(found.entries):,} files"
    known = found.target.connection_id
    where = f"into {found.target.name} ({known or 'a new connection'})"
    zone = f", times without a zone in {found.options.zone}" if found.kind.has_local_times else ""
    years = f"{found.options.first_year} to {found.options.horizon_year}"
    series = f", repeating events from {years}" if found.kind.has_series else ""
    return f"{found.kind.title}, {files}, {size(found.size)}, {where}{zone}{series}"


def finished(run: ImportRun) -> Iterator[str]:
    """The counts, then the first receipts."""
    yield (
        f"  {run.created:,} new, {run.updated:,} changed, {run.unchanged:,} as they were,"
        f" {run.doubles:,} doubles left out, {run.files:,} files kept"
    )
    if run.left_out or run.remarked:
        yield f"  {run.left_out:,} not imported, {run.remarked:,} imported with a remark:"
    for receipt in receipts_of(run.run_id, most=RECEIPTS_SHOWN):
        yield f"    {receipt_line(receipt)}"
    more = run.left_out + run.remarked - RECEIPTS_SHOWN
    if more > 0:
        yield f"    and {more:,} more; --report FILE writes all of them"


def receipt_line(receipt: ImportReceipt) -> str:
    """File, place, reason, what to do."""
    meaning = MEANINGS[Code(receipt.code)]
    where = ", ".join(filter(None, (receipt.file, receipt.place)))
    detail = f" ({receipt.detail})" if receipt.detail else ""
    return f"{where}: {meaning.sentence}{detail} {meaning.next_step}"
