"""What the pages about imports say, in sentences."""

from dataclasses import dataclass, field

from evidence.consent.plain_text import plain
from evidence.consent.wording import counted, when
from evidence.importing import reporting
from evidence.importing.codes import MEANINGS
from evidence.importing.runs import receipts_of
from evidence.importing.surveying import Survey
from evidence.models.imports import ImportRun

LEFT_SHOWN = 20
STATES = {
    ImportRun.Status.RUNNING: "Going on",
    ImportRun.Status.FINISHED: "Finished",
    ImportRun.Status.STOPPED: "Stopped; it goes on where it was",
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
    receipts: list[str] = field(default_factory=list)


def part_lines(found: Survey) -> list[PartLines]:
    lines = []
    for part in found.parts:
        text = plain(reporting.part(part))
        if part.needed is None:
            lines.append(PartLines(text))
        else:
            shown = [plain(line) for line in part.needed.evidence]
            lines.append(PartLines(text, part.needed.question, shown))
    return lines


def left_lines(found: Survey) -> list[str]:
    return [
        f"{plain(name)}: {MEANINGS[remark.code].sentence} {MEANINGS[remark.code].next_step}"
        for name, remark in found.left[:LEFT_SHOWN]
    ]


def run_lines(run: ImportRun, *, receipts: int = 0) -> RunLines:
    percent = 100 if not run.bytes_total else min(100, run.bytes_done * 100 // run.bytes_total)
    text = (
        f"{STATES[ImportRun.Status(run.status)]}: {counted(run.created, 'new record')},"
        f" {run.updated:,} changed, {run.unchanged:,} as they were, {counted(run.files, 'file')},"
        f" {run.left_out:,} not imported, {run.remarked:,} with a remark"
    )
    said = receipts_of(run.run_id, most=receipts) if receipts else ()
    return RunLines(
        run_id=run.run_id,
        label=plain(run.label),
        connection=run.connection.display_name,
        began=when(run.started_at),
        text=text,
        percent=100 if run.status == ImportRun.Status.FINISHED else percent,
        receipts=[plain(reporting.receipt_line(each)) for each in said],
    )
