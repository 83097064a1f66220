"""CSV statements: which column is what is guessed from its name, or said once and remembered."""

import re
from dataclasses import replace
from datetime import date
from decimal import Decimal
from functools import partial

from evidence.importing import dates
from evidence.importing.bank import rows, tables
from evidence.importing.bank.tables import Table
from evidence.importing.codes import Code
from evidence.importing.exports import Entry, each
from evidence.importing.items import Item, Piece, Pieces, UnreadableError
from evidence.importing.kinds import Entries, Kind, by_suffix
from evidence.importing.options import ChoiceNeeded, Options
from evidence.importing.repeated import Repeated

DECIMAL = "decimal"
"""Not a column: the mark before the cents."""
_CENTS = re.compile(r"\d([.,])\d{1,2}\D*$")


def _prepare(entries: Entries, options: Options) -> Options:
    """Columns of the first file are those of all."""
    for entry in entries:
        try:
            table = tables.read(entry)
        except UnreadableError:
            continue
        columns = _columns(table, options)
        order = dates.order_of(
            table.column(columns["date"]),
            years=range(1970, options.horizon_year + 1),
            chosen=options.date_order,
        )
        return replace(options, columns=columns, date_order=order)
    return options


def _columns(table: Table, options: Options) -> dict[str, str]:
    """What was said counts, where the file has such columns; names are told for the rest."""
    said = {
        ours: theirs
        for ours, theirs in options.columns.items()
        if theirs in table.header or ours == DECIMAL
    }
    found = tables.guessed(table.header) | said
    if "date" not in found or not found.keys() & {"amount", "debit", "credit"}:
        raise ChoiceNeeded(
            "Which column is the date, and which the amount?",
            evidence=["The columns are: " + ", ".join(filter(None, table.header))]
            + [", ".join(row) for _, row in table.rows[:2]],
            flag="--column date=NAME --column amount=NAME (or debit= and credit=), and what there"
            " is of counterparty=, memo=, currency=, category=",
        )
    if DECIMAL not in found and (mark := _decimal(table, found)):
        found[DECIMAL] = mark
    return found


def _decimal(table: Table, columns: dict[str, str]) -> str | None:
    """The mark that stands before one or two digits at an end anywhere in the file."""
    for name in ("amount", "debit", "credit"):
        for text in table.column(columns.get(name)):
            if found := _CENTS.search(text):
                return found[1]
    return None


def _read(entries: Entries, options: Options) -> Pieces:
    return each(entries, partial(_file, options=options))


def _file(entry: Entry, *, options: Options) -> Pieces:
    table = tables.read(entry)
    columns = {ours: name for ours, name in options.columns.items() if name in table.header}
    if "date" not in columns:
        raise UnreadableError(Code.MALFORMED, detail="other columns than the file before it")
    account = rows.account_id("csv")
    row = rows.account(account, name="Account")
    yield Piece(entry.name, "", 0, partial(Item, [row]))
    keys = Repeated("v_")
    size = entry.size // max(1, len(table.rows))
    for line, cells in table.rows:
        cell_of = dict(zip(table.header, cells, strict=False))
        said = {ours: cell_of.get(name, "").strip() for ours, name in columns.items()}
        key = keys.key(
            account,
            *(said.get(n) for n in ("date", "amount", "debit", "credit", "counterparty", "memo")),
        )
        make = partial(_booking, said, key=key, account=account, options=options)
        yield Piece(entry.name, f"line {line:,}", size, make)


def _booking(said: dict[str, str], *, key: str, account: str, options: Options) -> Item:
    item = Item()
    amount = _amount(said, options.columns.get(DECIMAL))
    if amount is None:
        shown = said.get("amount") or said.get("debit") or said.get("credit") or ""
        raise UnreadableError(Code.BAD_AMOUNT, detail=shown[:40])
    on = _day(said["date"], options.date_order or "ymd")
    if on is None:
        item.remark(Code.BAD_DATE, detail=said["date"][:40])
    texts = {name: said.get(name) for name in (
        "currency", "counterparty", "counterparty_account", "kind", "category", "check_number",
        "memo",
    )}  # fmt: skip
    item.rows.append(rows.transaction(key, account=account, on=on, amount=amount, **texts))
    return item


def _day(text: str, order: str) -> date | None:
    found = dates.triple(text)
    return dates.day(found, order) if found else None


def _amount(said: dict[str, str], decimal: str | None) -> Decimal | None:
    """One column with a sign, or one for what leaves and one for what comes."""
    if said.get("amount"):
        return rows.amount_of(said["amount"], decimal=decimal)
    out = rows.amount_of(said.get("debit") or "", decimal=decimal)
    into = rows.amount_of(said.get("credit") or "", decimal=decimal)
    if out is None and into is None:
        return None
    return (into or Decimal()) - abs(out or Decimal())


CSV = Kind(
    name="csv",
    title="bank statements (CSV)",
    source="bank",
    label="Bank",
    claim=by_suffix(".csv", ".tsv"),
    prepare=_prepare,
    read=_read,
)
