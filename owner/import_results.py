"""Show what became of an import: a bar by source and account, and receipts by reason."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal

from django.db.models import Count

from importers.core.receipt_texts import RECEIPT_TEXTS
from importers.core.results import ReceiptCode
from importers.models import ImportReceipt, ImportRun
from importers.runs.import_totals import ImportTotals, format_sum
from owner.records.record_urls import stream_url
from owner.text import escape_invisible

PLACES_SHOWN = 50
MAX_GROUPS = 60
_LABELS = {
    "new": "new",
    "changed": "changed",
    "unchanged": "unchanged",
    "left": "not imported",
}


@dataclass(frozen=True, slots=True)
class BarPart:
    """A part of a bar that is 100 units long. ``kind`` is its style."""

    kind: str
    x: float
    width: float
    text: str


@dataclass(frozen=True, slots=True)
class AccountResult:
    """What became of the items of one stream, account and currency."""

    name: str
    stream: str
    url: str
    bar: list[BarPart]
    first: str
    last: str
    sum: str


@dataclass(frozen=True, slots=True)
class ReceiptGroup:
    """The receipts of one reason; ``places`` are the first of them, each with file and detail."""

    problem: str
    next_step: str
    count: int
    is_imported: bool
    places: list[str] = field(default_factory=list)

    @property
    def hidden(self) -> int:
        return self.count - len(self.places)


def bar_parts(**counts: int) -> list[BarPart]:
    """Return the parts of a bar by kind; each that is not empty is at least one unit long."""
    total = sum(counts.values())
    parts, x = [], 0.0
    for kind, count in counts.items():
        if count:
            width = max(1.0, round(100 * count / total, 2))
            parts.append(BarPart(kind, round(x, 2), width, f"{count:,} {_LABELS[kind]}"))
            x += width
    return parts


def run_bar(run: ImportRun) -> list[BarPart]:
    return bar_parts(
        new=run.created, changed=run.updated, unchanged=run.unchanged, left=run.left_out
    )


def account_results(run: ImportRun) -> Iterator[AccountResult]:
    totals = ImportTotals({})
    totals.load(run.totals)
    for (stream, account, currency), total in sorted(totals.totals.items()):
        unchanged = total.items - total.new - total.changed - total.refused
        yield AccountResult(
            name=escape_invisible(totals.names.get(account, account)),
            stream=stream.replace("_", " "),
            url=stream_url(run.connection_id, stream),
            bar=bar_parts(
                new=total.new, changed=total.changed, unchanged=unchanged, left=total.refused
            ),
            first=total.first,
            last=total.last,
            sum="" if total.sum is None else format_sum(Decimal(total.sum), currency),
        )


def receipt_groups(run_id: str) -> list[ReceiptGroup]:
    """Return the receipts of a run by reason: those not imported first, frequent ones first."""
    receipts = ImportReceipt.unscoped.filter(run_id=run_id)
    counts = receipts.values("code").annotate(count=Count("pk")).order_by("-count", "code")
    groups = []
    for row in counts[:MAX_GROUPS]:
        text = RECEIPT_TEXTS[ReceiptCode(row["code"])]
        first = receipts.filter(code=row["code"]).order_by("pk")[:PLACES_SHOWN]
        places = [escape_invisible(_place(each)) for each in first]
        next_step = text.page_step or text.next_step
        groups.append(ReceiptGroup(text.problem, next_step, row["count"], text.is_imported, places))
    return sorted(groups, key=lambda group: group.is_imported)


def _place(receipt: ImportReceipt) -> str:
    place = ", ".join(filter(None, (receipt.file, receipt.place)))
    return f"{place}: {receipt.detail}" if receipt.detail else place
