"""Count what an export has by stream, account and currency, to compare with the original."""

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import astuple, dataclass, field
from decimal import Decimal
from functools import cache
from typing import Any, NamedTuple

import orjson

from evidence.declarations.declaration import BLOB_REFERENCE
from importers.bank.amounts import EXPONENTS

MAX_LINES = 500
_DATE_CHARS = 10
Key = tuple[str, str, str]
"""Stream, account and currency."""


class RecordSummary(NamedTuple):
    """What counts of one record in the totals. ``name`` is that of an account.

    ``line`` is the line of the feed that stores the record.
    """

    stream: str
    account: str = ""
    currency: str = ""
    day: str = ""
    amount: Decimal | None = None
    name: str = ""
    line: int = 0


class StoredLines(NamedTuple):
    """Lines whose records are new, were changed or were refused; the others are unchanged."""

    new: Set[int] = frozenset()
    changed: Set[int] = frozenset()
    refused: Set[int] = frozenset()


_NONE_STORED = StoredLines()


@dataclass(slots=True)
class Total:
    """Items of one account in one currency, and what became of them. Dates are in ISO 8601."""

    items: int = 0
    first: str = ""
    last: str = ""
    sum: Decimal | None = None
    new: int = 0
    changed: int = 0
    refused: int = 0


@dataclass(slots=True)
class ImportTotals:
    """Totals of the records of an import. ``fields`` are the time and amount field by stream."""

    fields: Mapping[str, tuple[str, str]]
    names: dict[str, str] = field(default_factory=dict)
    totals: dict[Key, Total] = field(default_factory=dict)

    @classmethod
    def of(cls, declaration: bytes) -> "ImportTotals":
        return cls(_fields(declaration))

    def summarize(self, stream: str, content: bytes, *, line: int = 0) -> RecordSummary:
        """Return what counts of a record, whose content may be anything."""
        time_field, amount_field = self.fields.get(stream, ("", ""))
        try:
            data = orjson.loads(content)
        except orjson.JSONDecodeError:
            data = None
        if not isinstance(data, dict):
            return RecordSummary(stream, line=line)
        amount = data.get(amount_field) if amount_field else None
        is_account = stream == "accounts"
        return RecordSummary(
            stream,
            str(data.get("account_id") or (data.get("id") if is_account else "") or "")[:200],
            str(data.get("currency") or "")[:10] if amount_field else "",
            str(data.get(time_field) or "")[:_DATE_CHARS],
            Decimal(str(amount)) if type(amount) in (int, float) else None,
            str(data.get("name") or "")[:200] if is_account else "",
            line,
        )

    def add(self, summaries: Iterable[RecordSummary], stored: StoredLines = _NONE_STORED) -> None:
        for stream, account, currency, day, amount, name, line in summaries:
            if stream == "accounts":
                self.names[account] = name
            key = (stream, "" if stream == "accounts" else account, currency)
            if key not in self.totals and len(self.totals) >= MAX_LINES:
                key = (stream, "", "")
            total = self.totals.setdefault(key, Total())
            total.items += 1
            if day:
                total.first = min(total.first or day, day)
                total.last = max(total.last, day)
            if amount is not None:
                total.sum = (total.sum or Decimal()) + amount
            total.new += line in stored.new
            total.changed += line in stored.changed
            total.refused += line in stored.refused

    def to_json(self) -> dict[str, Any]:
        lines = [
            [*key, *(str(each) if isinstance(each, Decimal) else each for each in astuple(total))]
            for key, total in self.totals.items()
        ]
        return {"names": self.names, "lines": lines}

    def load(self, saved: Mapping[str, Any]) -> None:
        """Continue the totals of an interrupted run."""
        self.names = dict(saved.get("names", {}))
        for stream, account, currency, items, first, last, sum_, *stored in saved.get("lines", ()):
            self.totals[stream, account, currency] = Total(
                items, first, last, None if sum_ is None else Decimal(sum_), *stored
            )


def total_lines(totals: Mapping[str, Any], *, source: str) -> Iterator[str]:
    """Yield the lines of a table: items, source and account, first and last date, and sum."""
    rows = [("Items", "Source and account", "First", "Last", "Sum")]
    for stream, account, currency, items, first, last, sum_, *_ in sorted(totals.get("lines", ())):
        name = totals["names"].get(account, "")
        money = "" if sum_ is None else format_sum(Decimal(sum_), currency)
        rows.append(
            (f"{items:,} {stream}", ", ".join(filter(None, (source, name))), first, last, money)
        )
    if len(rows) == 1:
        return
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def format_sum(amount: Decimal, currency: str) -> str:
    """Return a sum with the digits of its currency."""
    digits = max(EXPONENTS.get(currency, 2), -int(amount.normalize().as_tuple().exponent))
    return f"{amount:,.{digits}f} {currency or '(no currency)'}"


@cache
def declares_files(declaration: bytes, stream: str) -> bool:
    """Return whether records of a stream are files. A mail is none, though its HTML is stored as one."""
    streams = {each["name"]: each for each in orjson.loads(declaration)["streams"]}
    return stream in streams and BLOB_REFERENCE in streams[stream]["schema"]["properties"]


@cache
def _fields(declaration: bytes) -> dict[str, tuple[str, str]]:
    fields = {}
    for stream in orjson.loads(declaration)["streams"]:
        properties = stream["schema"]["properties"]
        amounts = [
            name for name, each in properties.items() if each.get("x_pdpp_type") == "currency"
        ]
        time_field = stream.get("consent_time_field") or stream.get("cursor_field") or ""
        fields[stream["name"]] = (time_field, amounts[0] if amounts else "")
    return fields
