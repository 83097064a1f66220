"""Import CSV statements, each file by its own columns, dates, decimal separator and account."""

from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache, partial
from itertools import islice
from typing import Any

from importers.bank import amounts, records
from importers.bank.across_formats import once_across_formats
from importers.bank.csv_accounts import FoundAccount, number_above
from importers.bank.csv_columns import (
    CREDITS,
    DEBITS,
    NOT_BOOKED,
    guess_columns,
    is_known_name,
    plain_name,
)
from importers.bank.csv_readings import AMOUNT_FIELDS, CsvReading, ReadingBuilder, layout_name
from importers.bank.csv_rows import (
    CsvRow,
    iter_cells,
    iter_rows,
    row_account,
    row_currency,
    unfold_wise_history,
)
from importers.bank.csv_table import CsvTable, read_table
from importers.core.dates import is_date_like, normalize, parse_date, readings_by_order
from importers.core.export_files import ExportFile, iter_items
from importers.core.importer import (
    ChoiceNeeded,
    ExportFiles,
    FileSample,
    Importer,
    Options,
    claim_by_suffix,
)
from importers.core.results import (
    ExportItem,
    ExportItems,
    Issue,
    ParsedItem,
    ParsedRecord,
    ReceiptCode,
    UnreadableError,
    issues_only,
)

MAX_ROWS = 5
MAX_COLUMNS = 60
NAME_MAX_CHARS = 200
CELL_MAX_CHARS = 60
_COMPARED_VALUES = 2_000


def sample_table(table: CsvTable, file: ExportFile, options: Options) -> FileSample:
    """Return the first rows, and the columns as they are read or, if unknown, as they are guessed."""
    try:
        columns = ReadingBuilder(table, file, options).columns()
    except UnreadableError:
        columns = guess_columns(table.header)
    dates = islice(table.column(columns.get("date")), _COMPARED_VALUES)
    written = [
        text
        for name in AMOUNT_FIELDS
        for text in islice(table.column(columns.get(name)), _COMPARED_VALUES)
    ]
    return FileSample(
        file=file.name,
        header=[name[:NAME_MAX_CHARS] for name in table.header[:MAX_COLUMNS]],
        rows=[
            [cell[:CELL_MAX_CHARS] for cell in cells[:MAX_COLUMNS]]
            for _, cells in table.rows[:MAX_ROWS]
        ],
        columns={name: table.header[index] for name, index in columns.items()},
        readings={
            "date_order": readings_by_order(map(normalize, dates)),
            "decimal": amounts.readings_by_separator(written),
        },
    )


_TEXTS = ("counterparty", "counterparty_account", "kind", "category", "check_number", "memo")
_FEE_BANKS = ("Revolut", "PayPal")
MAX_SAMPLES = 3
_EMPTY_MARKS = " -\u2013\u2014"
_OTHER_TABLE = Issue(ReceiptCode.MALFORMED, "another table in the file")
_NO_EFFECT = frozenset(("memo", "notiz", "vermerk", "none"))


@lru_cache(maxsize=1)
def _table(file: ExportFile) -> CsvTable:
    """Return the table of a file, which is prepared and then read."""
    return unfold_wise_history(read_table(file, number_above))


def _prepare(files: ExportFiles, options: Options) -> Options:
    """Check how each file is read. Files that are no bank statements are not claimed."""
    answers: dict[str, dict[str, object]] = {}
    unclaimed: list[tuple[str, str, str]] = []
    doubts: dict[str, dict[str, Any]] = {}
    for file in files:
        try:
            table = _table(file)
            builder = ReadingBuilder(table, file, options)
            reading = builder.build()
        except UnreadableError as error:
            if error.issue.code in (ReceiptCode.UNKNOWN_COLUMNS, ReceiptCode.MALFORMED):
                unclaimed.append((file.name, ReceiptCode.UNKNOWN_COLUMNS, error.issue.detail))
            continue
        _add_doubt(table, file, reading, doubts)
        if builder.used:
            answers.setdefault(layout_name(table), {}).update(builder.used)
    return replace(options, answers=answers, unclaimed=unclaimed, doubts=list(doubts.values()))


def _sample(files: ExportFiles, options: Options) -> list[FileSample]:
    """Return samples of a few files, those that nobody recognized first."""
    skipped = {name for name, *_ in options.unclaimed}
    samples = []
    for file in sorted(files, key=lambda file: file.name not in skipped)[:MAX_SAMPLES]:
        with suppress(UnreadableError):
            samples.append(sample_table(_table(file), file, options))
    return samples


def _add_doubt(
    table: CsvTable, file: ExportFile, reading: CsvReading, doubts: dict[str, dict[str, Any]]
) -> None:
    """Ask whose rows these are if only a name such as export.csv says so.

    A statement with a row that the account has already is a newer one of the same account. Raises
    ``ChoiceNeeded`` for two files of one import.
    """
    has_pockets = reading.bank is not None and bool(reading.bank.pockets)
    if reading.account.is_certain or "account" in reading.columns or has_pockets:
        return
    keys = [row.key for row in iter_rows(table, reading)]
    doubt = doubts.setdefault(
        reading.account.key,
        {
            "account": reading.account.key,
            "keys": keys,
            "question": f"Which account is {file.name} of? An earlier file with this name has none"
            " of its rows.",
            "evidence": [", ".join(filter(None, cells))[:120] for _, cells in table.rows[:3]],
            "flag": "--account NAME, or name the file after its account",
        },
    )
    if doubt["keys"] is not keys:
        if not set(keys) & set(doubt["keys"]):
            raise ChoiceNeeded(doubt["question"], evidence=doubt["evidence"], flag=doubt["flag"])
        doubt["keys"] = [*doubt["keys"], *keys]


def _read(files: ExportFiles, options: Options) -> ExportItems:
    unclaimed = {name for name, *_ in options.unclaimed}
    files = [file for file in files if file.name not in unclaimed]
    return iter_items(files, partial(_read_file, options=options))


def _read_file(file: ExportFile, *, options: Options) -> ExportItems:
    table, currencies = _table(file), defaultdict[FoundAccount, set[str | None]](set)
    reading = ReadingBuilder(table, file, options).build()
    for _, _, by_name, fields in iter_cells(table, reading):
        currency = row_currency(fields, reading)
        currencies[row_account(by_name, fields, reading, currency)].add(currency)
    for account, found in currencies.items():
        record = records.account_record(
            account.key,
            name=account.name,
            bank=reading.bank.name if reading.bank else None,
            currency=found.pop() if len(found) == 1 else None,
        )
        yield ExportItem(file.name, "", 0, partial(ParsedItem, [record]))
    others = (table.header[index] for index in reading.other_columns)
    unknown = [name or "?" for name in others if not is_known_name(name)]
    if unknown and reading.bank is None:
        names = ", ".join(unknown)
        issue = Issue(ReceiptCode.COLUMNS_KEPT, names[:200])
        yield ExportItem(file.name, "header", 0, issues_only([issue]))
    size = file.size // max(1, len(table.rows))
    for row in iter_rows(table, reading):
        parse = partial(_transactions, row, reading=reading)
        yield ExportItem(file.name, f"line {row.line:,}", size, parse)
    for line, cells in table.rest:
        text = Issue(ReceiptCode.NOT_A_BOOKING, cells[0][:40])
        issue = text if len(cells) == 1 else _OTHER_TABLE
        yield ExportItem(file.name, f"line {line:,}", 0, issues_only([issue]))


def _transactions(row: CsvRow, *, reading: CsvReading) -> ParsedItem:
    """Return the booking of a row, and its fee as a second one."""
    item, fields = ParsedItem(), row.fields
    _require_booked(row)
    amount = _amount(row, reading)
    if amount is None or not amounts.fits_currency(amount, row.currency):
        text = fields.get("amount") or fields.get("debit") or fields.get("credit") or ""
        raise UnreadableError(ReceiptCode.BAD_AMOUNT, detail=text[:40])
    on = parse_date(fields["date"], reading.date_order)
    if on is None:
        item.add_issue(ReceiptCode.BAD_DATE, detail=fields["date"][:40])
    texts = {name: fields.get(name) for name in _TEXTS} | {"reference": fields.get("identifier")}
    if amount > 0 and fields.get("payer"):
        texts["counterparty"] = fields["payer"]

    def booking(key: str, amount: Decimal) -> ParsedRecord:
        return records.transaction_record(
            key,
            account=row.account.key,
            on=on,
            amount=amount,
            currency=row.currency,
            details=row.details,
            **texts,
        )

    item.records.append(booking(row.key, amount))
    if fee := _fee(fields, reading):
        if reading.bank is None or reading.bank.name not in _FEE_BANKS:
            item.add_issue(ReceiptCode.FEE_ASIDE, detail=fields["fee"][:40])
            return item
        texts |= {"kind": "fee", "category": None}
        item.records.append(booking(f"{row.key}_fee", fee))
    return item


def _require_booked(row: CsvRow) -> None:
    """Raises ``UnreadableError`` for a row that does not count in the balance."""
    fields = row.fields
    if not row.is_complete:
        raise UnreadableError(ReceiptCode.MALFORMED, detail="more cells than columns")
    if row.is_balance:
        raise UnreadableError(ReceiptCode.NOT_A_BOOKING, detail=" ".join(fields.values())[:40])
    state, effect = (plain_name(fields.get(f, ""))[0] for f in ("status", "effect"))
    if state in NOT_BOOKED or effect in _NO_EFFECT:
        raise UnreadableError(ReceiptCode.NOT_BOOKED, detail=fields.get("status", "")[:40])
    if not is_date_like(fields["date"]):
        raise UnreadableError(ReceiptCode.NOT_A_BOOKING, detail=fields["date"][:40])


def _fee(fields: dict[str, str], reading: CsvReading) -> Decimal | None:
    """Return the fee beside the amount of a row; PayPal writes it with its sign."""
    fee = amounts.parse_amount(fields.get("fee") or "", decimal_separator=reading.decimal)
    has_sign = reading.bank is not None and reading.bank.name == "PayPal"
    return fee if fee is None or has_sign else -fee


def _amount(row: CsvRow, reading: CsvReading) -> Decimal | None:
    """Return the signed amount from one column, or from a debit and a credit column."""
    fields, parse = row.fields, partial(amounts.parse_amount, decimal_separator=reading.decimal)
    if "amount" in reading.columns:
        amount = parse(fields["amount"])
        if amount is not None and reading.row_signs:
            sign = reading.row_signs.get(row.line)
            return amount if not amount else None if sign is None else amount * sign
        if amount is None or reading.indicator is None:
            return None if amount is None else amount * reading.sign
        mark = plain_name(fields["indicator"])[0]
        return -amount if mark in DEBITS else amount if mark in CREDITS else None
    written = {name: fields.get(name) or "" for name in ("debit", "credit")}
    written = {name: text if text.strip(_EMPTY_MARKS) else "" for name, text in written.items()}
    debit, credit = (parse(text) if text else Decimal() for text in written.values())
    if debit is None or credit is None or not any(written.values()):
        return None
    credit = -credit if reading.signed == {"credit"} else credit
    return credit + debit if "debit" in reading.signed else credit - debit


CSV = once_across_formats(
    Importer(
        claim=claim_by_suffix(".csv", ".tsv"),
        prepare=_prepare,
        read=_read,
        sample=_sample,
    ),
    "t_",
)
