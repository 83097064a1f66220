"""Import bank statements that are tables.

A table with a known header is read by the profile of its bank. Of any other table the owner says once
which columns are what; the answer is remembered for its header. No column is dropped: what no field
of a booking has is kept under its header.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property, lru_cache, partial
from itertools import islice
from typing import Any, TypeVar

from importers.bank import amounts, records
from importers.bank.across_formats import once_across_formats
from importers.bank.csv_table import CsvTable, read_table
from importers.bank.profiles import (
    Layout,
    find_layout,
    has_money,
    plain_name,
    suggest_columns,
    words,
)
from importers.bank.records import (
    FoundAccount,
    amounts_above,
    currency_above,
    find_account,
    find_iban,
    named_account,
    number_account,
)
from importers.core.dates import (
    detect_order,
    is_date_like,
    normalize,
    parse_date,
    readings_by_order,
)
from importers.core.export_files import ExportFile, iter_items
from importers.core.importer import (
    DECIMALS,
    ChoiceNeeded,
    ExportFiles,
    FileSample,
    Importer,
    Options,
    claim_by_suffix,
    detect_or_answer,
)
from importers.core.results import (
    ContentKeys,
    ExportItem,
    ExportItems,
    Issue,
    ParsedItem,
    ParsedRecord,
    ReceiptCode,
    UnreadableError,
    issue_item,
    issue_only,
)

T = TypeVar("T")
AMOUNT_FIELDS = ("amount", "debit", "credit")
MAX_ROWS = 5
MAX_COLUMNS = 60
MAX_SAMPLES = 3
NAME_MAX_CHARS = 200
CELL_MAX_CHARS = 60
MAX_EVIDENCE = 3
_COMPARED_VALUES = 2_000
_TEXTS = ("counterparty", "counterparty_account", "kind", "category", "check_number", "memo",
          "reference")  # fmt: skip
_READ_ONLY = ("status", "effect", "payer", "balance")
"""Fields that only help to read a row; a booking has their columns in its details."""
_KEY_FIELDS = ("date", *AMOUNT_FIELDS, "currency", "counterparty", "memo", "reference")
_UNCLEAR_NAMES = ("iban", "kontonummer", "account number")
"""Such a column may be of the owner's account or of the other side's."""
_EMPTY_MARKS = " -\u2013\u2014"
_OTHER_TABLE = Issue(ReceiptCode.MALFORMED, "another table in the file")
_JAPANESE = re.compile("[\u3041-\u30fa]|日付|取引|年月日|利用日|入金|出金|残高|振込")
"""Words that Chinese does not have."""

_PAIR = {"debit", "credit"}
"""The columns of amounts that stand in place of one."""
_CENTS = re.compile(r"\d[.,]\d\d\D*$")


@dataclass(frozen=True, slots=True)
class Reading:
    """How one table is read. ``columns`` are indexes by field, ``others`` those without one.

    ``sign`` is -1 where purchases are printed without a minus sign, and otherwise 1. ``negative`` are
    the columns of debits and credits whose amounts are mostly negative. ``has_both``: all amounts
    that a column says leave have a minus sign, too.
    """

    layout: Layout | None
    columns: Mapping[str, int]
    others: tuple[int, ...]
    date_order: str
    decimal: str
    sign: int
    negative: frozenset[str]
    has_both: bool
    account: FoundAccount
    currency: str | None

    @property
    def bank(self) -> str | None:
        return (self.layout.bank or None) if self.layout else None

    @property
    def pockets(self) -> tuple[str, ...]:
        return self.layout.pockets if self.layout else ()


class _Reader:
    """Decides how a table is read. ``used`` are the owner's answers that it depends on."""

    def __init__(self, table: CsvTable, file: ExportFile, options: Options) -> None:
        self.used: dict[str, object] = {}
        self._table, self._file, self._options = table, file, options
        self._remembered: Mapping[str, Any] = options.remembered.get(table.name) or {}
        self._layout = find_layout(table.header)
        named = {f: c for f, c in options.columns.items() if c in table.header}
        remembered = dict(self._remembered.get("columns") or {})
        if _PAIR & named.keys():
            remembered.pop("amount", None)
        elif "amount" in named:
            remembered = {f: c for f, c in remembered.items() if f not in _PAIR}
        kept = {f: c for f, c in remembered.items() if c not in named.values()}
        self._named = kept | named

    def reading(self) -> Reading:
        """Return the reading.

        Raises ``UnreadableError`` for a table that is no bank statement, and ``ChoiceNeeded``.
        """
        if self._layout is not None and self._layout.refuse:
            raise UnreadableError(ReceiptCode.NOT_SUPPORTED, detail=self._layout.refuse)
        columns = self.columns()
        if self._layout is None and not self._named:
            self._ask_for_columns(self.suggested(columns))
        layout = self._layout
        currency = self._currency(columns)
        stored = {index for name, index in columns.items() if name not in _READ_ONLY}
        return Reading(
            layout=layout,
            columns=columns,
            others=tuple(i for i in range(len(self._table.header)) if i not in stored),
            date_order=(layout and layout.date_order)
            or self._ask("date_order", partial(self._date_order, columns)),
            decimal=DECIMALS[layout.decimal]
            if layout and layout.decimal
            else self._ask("decimal", partial(self._decimal, columns, currency)),
            sign=self._ask("signs", partial(self._sign, columns)),
            negative=frozenset(filter(partial(self._is_negative, columns), ("debit", "credit"))),
            has_both=self._has_both(columns),
            account=self._account(columns),
            currency=currency,
        )

    def columns(self) -> dict[str, int]:
        """Return the columns that the profile or the owner names, or else suggestions.

        Raises ``UnreadableError`` for a table that is no bank statement.
        """
        header = self._table.header
        if self._layout is not None:
            columns = self._layout.indexes([plain_name(name)[0] for name in header])
        else:
            columns = suggest_columns(header) if self._table.has_header else self._by_content()
            if any(map(is_date_like, self._table.column(columns.get("currency")))):
                del columns["currency"]  # the column Valuta is a currency or the day of the value
            written = map(
                amounts.parse_written, self._amounts(columns) if "date" in columns else ()
            )
            has_signs = any(each and each.sign for each in written)
            if self._marks is not None and "date" in columns and not has_signs:
                columns = {f: c for f, c in columns.items() if c != self._marks}
                columns["direction"] = self._marks
        if self._named:
            self.used["columns"] = self._named
            own = {f: header.index(name) for f, name in self._named.items() if name in header}
            columns = {f: c for f, c in columns.items() if c not in own.values()} | own
        if not has_money(columns) or not (self._named or self._is_money(columns)):
            names = ", ".join(filter(None, header))
            raise UnreadableError(ReceiptCode.UNKNOWN_COLUMNS, detail=f"columns: {names}"[:200])
        return columns

    def suggested(self, columns: Mapping[str, int]) -> dict[str, int]:
        """Return the columns without a number that may be the owner's own: it is asked about alone."""
        if self._layout is not None or self._named:
            return dict(columns)
        other = columns.get("counterparty_account")
        return {f: c for f, c in columns.items() if c != other or not self._is_unclear(c)}

    def _is_unclear(self, index: int) -> bool:
        """Return whether all rows have one number whose column may be that of the owner's account."""
        cells = {*self._table.column(index)}
        is_named_so = plain_name(self._table.header[index])[0] in _UNCLEAR_NAMES
        return is_named_so and len(cells) == 1 and cells != {""}

    @cached_property
    def _marks(self) -> int | None:
        """The column whose cells all say whether money leaves or arrives."""
        marks = words().cells["leaves"] | words().cells["arrives"]
        for index in range(len(self._table.header)):
            cells = {plain_name(cell)[0] for cell in self._table.column(index)} - {""}
            if cells and cells <= marks:
                return index
        return None

    def _by_content(self) -> dict[str, int]:
        """Return the first column with dates and the first with amounts of a table without a header."""
        cells = self._table.rows[0][1]
        dates = [index for index, cell in enumerate(cells) if is_date_like(cell)]
        rows = [cells for _, cells in self._table.rows]
        money = sorted(
            (
                index
                for index, cell in enumerate(cells)
                if index not in dates and _CENTS.search(cell)
                and amounts.parse_written(cell)
            ),
            key=lambda at: not any(len(row) > at and "-" in row[at] for row in rows),
        )  # fmt: skip
        texts = (i for i, cell in enumerate(cells) if sum(map(str.isalpha, cell)) >= 4)
        found = {
            "date": dates[:1],
            "amount": money[:1],
            "counterparty": [*islice(texts, 1)],
        }
        return {name: indexes[0] for name, indexes in found.items() if indexes}

    def _is_money(self, columns: Mapping[str, int]) -> bool:
        """Return whether most dates are dates and most amounts are amounts."""
        if {plain_name(name)[0] for name in self._table.header} & words().headers["not_money"]:
            return False
        dates = [text for text in self._table.column(columns["date"]) if text]
        written = list(map(amounts.parse_written, self._amounts(columns)))
        good = sum(map(is_date_like, dates)), sum(each is not None for each in written)
        return good[0] * 2 >= len(dates) and good[1] * 2 >= len(written)

    def _amounts(self, columns: Mapping[str, int]) -> Iterator[str]:
        """Yield each amount as written."""
        for name in AMOUNT_FIELDS:
            yield from self._of_bookings(columns, name)

    def _of_bookings(self, columns: Mapping[str, int], name: str) -> Iterator[str]:
        """Yield what rows with a date have in the column of a field."""
        date, at = columns["date"], columns.get(name)
        for _, cells in self._table.rows if at is not None else ():
            if len(cells) > max(date, at or 0) and cells[at or 0] and is_date_like(cells[date]):
                yield cells[at or 0]

    def _ask_for_columns(self, columns: Mapping[str, int]) -> None:
        """Raises ``ChoiceNeeded`` with suggestions."""
        header = self._table.header
        found = [f'--column "{name}={header[index]}"' for name, index in columns.items()]
        raise ChoiceNeeded(
            f"No profile knows the columns of {self._file.name}. Which column is what?",
            evidence=[
                f"{header[index]}: {name}, such as {next(self._table.column(index), '')[:40]}"
                for name, index in columns.items()
            ],
            flag=" ".join(found),
        )

    def _ask(self, name: str, detect: Callable[..., T]) -> T:
        return detect_or_answer(name, detect, self._options, self._table.name, self.used)

    def _date_order(self, columns: Mapping[str, int], chosen: str | None) -> str:
        is_japanese = _is_japanese(self._table.header)
        last_year = self._options.current_year + 1
        dates = self._table.column(columns["date"])
        return detect_order(dates, last_year=last_year, chosen=chosen, is_japanese=is_japanese)

    def _decimal(self, columns: Mapping[str, int], currency: str | None, chosen: str | None) -> str:
        written = self._amounts(columns)
        return amounts.detect_decimal_separator(written, chosen=chosen, currency=currency)

    def _sign(self, columns: Mapping[str, int], chosen: str | None) -> int:
        """Return -1 where purchases have no minus sign. Raises ``ChoiceNeeded`` in doubt.

        Most bookings of an account are payments, so that its amounts with a minus sign are not fewer.
        What the owner says now counts more than what the file seems to show.
        """
        if self._options.signs:
            self.used["signs"] = self._options.signs
        chosen = self._options.signs or chosen or (self._layout.signs if self._layout else None)
        if chosen:
            return -1 if chosen == "inverted" else 1
        is_signed = "direction" in columns or "amount" not in columns
        if is_signed or (self._layout and self._layout.bank):
            return 1
        written = [each for text in self._amounts(columns) if (each := amounts.parse_written(text))]
        signs = Counter(each.sign for each in written if each.digits.strip("0.,"))
        if signs["+"] or not signs[""] or signs["-"] >= signs[""]:
            return 1
        raise ChoiceNeeded(
            "Do amounts without a minus sign arrive, or are they purchases with a card?",
            evidence=[self._row_text(row) for row in range(len(self._table.rows))[:MAX_EVIDENCE]],
            flag="--signs as-written (they arrive) or --signs inverted (they are purchases)",
        )

    def _is_negative(self, columns: Mapping[str, int], name: str) -> bool:
        """Return whether most amounts of a column have a minus sign."""
        written = filter(None, map(amounts.parse_written, self._of_bookings(columns, name)))
        signs = Counter(each.sign == "-" for each in written if each.digits.strip("0.,"))
        return signs[True] > signs[False]

    def _has_both(self, columns: Mapping[str, int]) -> bool:
        """Return whether each amount has a minus sign that a column says leaves."""
        if not {"amount", "direction"} <= columns.keys():
            return False
        amount, direction = columns["amount"], columns["direction"]
        leaving = (
            amounts.parse_written(cells[amount])
            for _, cells in self._table.rows
            if len(cells) > max(amount, direction)
            and plain_name(cells[direction])[0] in words().cells["leaves"]
        )
        return {each.sign for each in leaving if each} == {"-"}

    def _row_text(self, row: int) -> str:
        return " | ".join(filter(None, self._table.rows[row][1]))[:120]

    def _currency(self, columns: Mapping[str, int]) -> str | None:
        """Return the currency that the header, an amount or the lines above the header name.

        A row without a currency in a column of currencies does not have that of others.
        """
        headers = (self._table.header[columns[f]] for f in AMOUNT_FIELDS if f in columns)
        found = {code for name in headers if (code := plain_name(name)[1])}
        if not found and any(self._table.column(columns.get("currency"))):
            return None
        if not found:
            written = map(amounts.parse_written, self._amounts(columns))
            found = {each.currency for each in written if each and each.currency}
        if found:
            return found.pop() if len(found) == 1 else None
        own = self._layout.currency if self._layout else None
        return own or currency_above(self._table.preamble)

    def _account(self, columns: Mapping[str, int]) -> FoundAccount:
        """Return the account of all rows. Raises ``ChoiceNeeded`` if a number may be its own."""
        layout = self._layout
        if layout and layout.account:
            return named_account(layout.account)
        bank = (layout.bank or None) if layout else None
        found = find_account(self._table.preamble, self._file, bank=bank, layout=self._table.name)
        if found.has_number or "account" in columns:
            return found
        if self._options.account:
            return named_account(self._options.account)
        unclear = columns.get("counterparty_account")
        is_told = {"account", "counterparty_account"} & self._named.keys()
        if layout is None and unclear is not None and not is_told:
            self._require_other_side(unclear)
        return found

    def _require_other_side(self, index: int) -> None:
        """Ask about a column of one number: the owner's, or the only other side of a savings account."""
        name, cells = self._table.header[index], list(self._table.column(index))
        if self._is_unclear(index):
            raise ChoiceNeeded(
                f"Is {cells[0]} in the column {name} your own account, or that of the other side?",
                evidence=[self._row_text(row) for row in range(len(cells))[:MAX_EVIDENCE]],
                flag=f'--column "account={name}" or --column "counterparty_account={name}"',
            )


@dataclass(frozen=True, slots=True)
class Booking:
    """A row with its key, account and currency, and its texts by field."""

    line: int
    cells: list[str]
    key: str
    fields: Mapping[str, str]
    account: FoundAccount
    currency: str | None


def _rows(table: CsvTable, reading: Reading) -> Iterator[Booking]:
    keys = ContentKeys("t_")
    for line, cells in table.rows:
        if tuple(cells) == table.header:
            continue
        fields = {f: cells[i] if len(cells) > i else "" for f, i in reading.columns.items()}
        currency = _row_currency(fields, reading)
        account = _row_account(table, cells, fields, reading, currency)
        key = keys.key(account.key, *(fields.get(name) for name in _KEY_FIELDS))
        yield Booking(line, cells, key, fields, account, currency)


def _row_currency(fields: Mapping[str, str], reading: Reading) -> str | None:
    if written := fields.get("currency", "").strip().upper():
        return amounts.currency_code(written) or written[:3]
    text = next((fields[f] for f in AMOUNT_FIELDS if fields.get(f)), "")
    parsed = amounts.parse_written(text)
    return (parsed.currency if parsed else None) or reading.currency


def _row_account(
    table: CsvTable,
    cells: list[str],
    fields: Mapping[str, str],
    reading: Reading,
    currency: str | None,
) -> FoundAccount:
    """Return the account of a row: a column names it, or each currency of the bank is one."""
    if number := fields.get("account", "").strip("'"):
        is_number = find_iban(number) or sum(map(str.isdigit, number)) >= 4
        return number_account(number, bank=reading.bank) if is_number else named_account(number)
    if reading.pockets:
        plain = dict(zip((plain_name(name)[0] for name in table.header), cells, strict=False))
        parts = [currency if amounts.currency_code(plain.get(p, "")) else plain.get(p)
                 for p in reading.pockets]  # fmt: skip
        return named_account(" ".join([reading.bank or "", *filter(None, parts)]))
    return reading.account


@lru_cache(maxsize=1)
def _table(file: ExportFile) -> CsvTable:
    """Return the table of a file, which is prepared and then read."""
    return read_table(file)


def _prepare(files: ExportFiles, options: Options) -> Options:
    """Decide how each file is read. Files that are no bank statements are not claimed."""
    answers: dict[str, dict[str, object]] = {}
    unclaimed: list[tuple[str, str, str]] = []
    doubts: dict[str, dict[str, Any]] = {}
    for file in files:
        try:
            table = _table(file)
            reader = _Reader(table, file, options)
            reading = reader.reading()
        except UnreadableError as error:
            if error.issue.code in (ReceiptCode.UNKNOWN_COLUMNS, ReceiptCode.MALFORMED):
                unclaimed.append((file.name, ReceiptCode.UNKNOWN_COLUMNS, error.issue.detail))
            continue
        _add_doubt(table, file, reading, doubts)
        if reader.used:
            answers.setdefault(table.name, {}).update(reader.used)
    return replace(options, answers=answers, unclaimed=unclaimed, doubts=list(doubts.values()))


def _add_doubt(
    table: CsvTable, file: ExportFile, reading: Reading, doubts: dict[str, dict[str, Any]]
) -> None:
    """Ask whose rows these are if only a name such as export.csv says so.

    A statement with a row that the account has already is a newer one of the same account. Raises
    ``ChoiceNeeded`` for two files of one import.
    """
    if reading.account.is_certain or "account" in reading.columns or reading.pockets:
        return
    keys = [row.key for row in _rows(table, reading)]
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


def _is_japanese(header: Iterable[str]) -> bool:
    return any(map(_JAPANESE.search, header))


def _sample(files: ExportFiles, options: Options) -> list[FileSample]:
    """Return samples of a few files, those that nobody recognized first."""
    skipped = {name for name, *_ in options.unclaimed}
    samples = []
    for file in sorted(files, key=lambda file: file.name not in skipped)[:MAX_SAMPLES]:
        with suppress(UnreadableError):
            samples.append(_sample_table(_table(file), file, options))
    return samples


def _sample_table(table: CsvTable, file: ExportFile, options: Options) -> FileSample:
    """Return the first rows, and the columns as they are read or suggested."""
    try:
        reader = _Reader(table, file, options)
        columns = reader.suggested(reader.columns())
    except UnreadableError:
        columns = suggest_columns(table.header)
    dates = islice(table.column(columns.get("date")), _COMPARED_VALUES)
    written = [text for name in AMOUNT_FIELDS
               for text in islice(table.column(columns.get(name)), _COMPARED_VALUES)]  # fmt: skip
    return FileSample(
        file=file.name,
        header=[name[:NAME_MAX_CHARS] for name in table.header[:MAX_COLUMNS]],
        rows=[[cell[:CELL_MAX_CHARS] for cell in cells[:MAX_COLUMNS]]
              for _, cells in table.rows[:MAX_ROWS]],
        columns={name: table.header[index] for name, index in columns.items()},
        readings={
            "date_order": readings_by_order(
                map(normalize, dates), is_japanese=_is_japanese(table.header)
            ),
            "decimal": amounts.readings_by_separator(written),
        },
    )  # fmt: skip


def _read(files: ExportFiles, options: Options) -> ExportItems:
    unclaimed = {name for name, *_ in options.unclaimed}
    files = [file for file in files if file.name not in unclaimed]
    return iter_items(files, partial(_read_file, options=options))


def _read_file(file: ExportFile, *, options: Options) -> ExportItems:
    table, currencies = _table(file), defaultdict[FoundAccount, set[str | None]](set)
    reading = _Reader(table, file, options).reading()
    for row in _rows(table, reading):
        currencies[row.account].add(row.currency)
    for account, found in currencies.items():
        record = records.account_record(
            account.key,
            name=account.name,
            bank=reading.bank,
            currency=found.pop() if len(found) == 1 else None,
        )
        yield ExportItem(file.name, "", 0, partial(ParsedItem, [record]))
    if reading.layout is not None and reading.layout.level == "memory":
        yield issue_item(file.name, "header", ReceiptCode.MADE_FROM_MEMORY, reading.bank or "")
    if kept := _kept_columns(table, reading):
        yield issue_item(file.name, "header", ReceiptCode.COLUMNS_KEPT, ", ".join(kept)[:200])
    if above := amounts_above(table.preamble):
        yield issue_item(file.name, "header", ReceiptCode.NOT_A_BOOKING, " | ".join(above)[:200])
    edges = {line for line, _ in table.rows[:2] + table.rows[-3:]}
    size = file.size // max(1, len(table.rows))
    for row in _rows(table, reading):
        parse = partial(_transactions, row, table, reading, is_edge=row.line in edges)
        yield ExportItem(file.name, f"line {row.line:,}", size, parse)
    for line, cells in table.rest:
        text = Issue(ReceiptCode.NOT_A_BOOKING, cells[0][:40])
        issue = text if len(cells) == 1 else _OTHER_TABLE
        yield ExportItem(file.name, f"line {line:,}", 0, issue_only(*issue))


def _kept_columns(table: CsvTable, reading: Reading) -> list[str]:
    """Return the columns with texts that neither a profile nor a word list knows."""
    if reading.layout is not None:
        return []
    known = {name for names in words().columns.values() for name in names}
    others = (i for i in reading.others if any(table.column(i)))
    return [table.header[i] or "?" for i in others if plain_name(table.header[i])[0] not in known]


def _transactions(row: Booking, table: CsvTable, reading: Reading, *, is_edge: bool) -> ParsedItem:
    """Return the booking of a row, and its fee as a second one."""
    item, fields = ParsedItem(), row.fields
    _require_booked(row, len(table.header), is_edge=is_edge)
    amount = _amount(fields, reading)
    if amount is None or not amounts.fits_currency(amount, row.currency):
        text = next((fields[f] for f in AMOUNT_FIELDS if fields.get(f)), "no amount")
        detail = f"{text} {fields.get('direction', '')}".strip()
        raise UnreadableError(ReceiptCode.BAD_AMOUNT, detail=detail[:40])
    if not amount and (other := _other_amount(row, reading)):
        raise UnreadableError(ReceiptCode.BAD_AMOUNT, detail=f"0, beside {other}"[:40])
    on = item.require_date(parse_date(fields["date"], reading.date_order), fields["date"])
    texts = {name: fields.get(name) for name in _TEXTS}
    others = list(reading.others)
    is_reversed = fields.get("kind") in (reading.layout.reversed if reading.layout else ())
    if (amount > 0) != is_reversed and fields.get("payer"):
        texts["counterparty"] = fields["payer"]
        others.append(reading.columns["counterparty"])
    written = {*texts.values()}
    if ":" in fields["date"].replace("00:00:00", ""):  # with a time
        others.append(reading.columns["date"])
    else:
        written.add(fields["date"])
    details = [(table.header[i], row.cells[i]) for i in others
               if len(row.cells) > i and row.cells[i] and row.cells[i] not in written]  # fmt: skip

    def booking(key: str, amount: Decimal, **changed: str | None) -> ParsedRecord:
        return records.transaction_record(
            key,
            account=row.account.key,
            on=on,
            amount=amount,
            currency=row.currency,
            details=details,
            **(texts | changed),
        )

    item.records.append(booking(row.key, amount))
    fee = amounts.parse_amount(fields.get("fee") or "", decimal_separator=reading.decimal)
    if fee and reading.layout and reading.layout.fee:
        fee = fee if "sign" in reading.layout.fee else -fee
        item.records.append(booking(f"{row.key}_fee", fee, kind="fee", category=None))
    elif fee:
        item.add_issue(ReceiptCode.FEE_ASIDE, detail=fields["fee"][:40])
    return item


def _other_amount(row: Booking, reading: Reading) -> str | None:
    """Return an amount in a column that nobody named: the row's own may stand there."""
    if reading.layout is not None:
        return None
    for cell in (row.cells[i] for i in reading.others if len(row.cells) > i):
        written = amounts.parse_written(cell) if _CENTS.search(cell) else None
        if written is not None and written.digits.strip("0.,"):
            return cell
    return None


def _require_booked(row: Booking, width: int, *, is_edge: bool) -> None:
    """Raises ``UnreadableError`` for a row that does not count in the balance."""
    if any(row.cells[width:]):
        raise UnreadableError(ReceiptCode.MALFORMED, detail="more cells than columns")
    if is_edge and any(map(amounts.BALANCE_TEXT.fullmatch, row.cells)):
        raise UnreadableError(
            ReceiptCode.NOT_A_BOOKING, detail=" ".join(filter(None, row.cells))[:40]
        )
    for name in ("status", "effect"):
        if plain_name(row.fields.get(name, ""))[0] in words().cells["not_booked"]:
            raise UnreadableError(ReceiptCode.NOT_BOOKED, detail=row.fields[name][:40])
    if not is_date_like(row.fields["date"]):
        text = row.fields["date"] or " ".join(filter(None, row.cells))
        raise UnreadableError(ReceiptCode.NOT_A_BOOKING, detail=text[:40])


def _amount(fields: Mapping[str, str], reading: Reading) -> Decimal | None:
    """Return the signed amount from one column, or from a debit and a credit column."""
    parse = partial(amounts.parse_amount, decimal_separator=reading.decimal)
    if "amount" in reading.columns:
        amount = parse(fields["amount"])
        if amount is None or "direction" not in fields:
            return None if amount is None else amount * reading.sign
        mark = plain_name(fields["direction"])[0]
        is_leaving, is_arriving = (mark in words().cells[name] for name in ("leaves", "arrives"))
        if amount < 0:  # the sign repeats the mark, or who knows which of the two counts
            return amount if is_leaving and reading.has_both else None
        return -amount if is_leaving else amount if is_arriving else None
    written = {name: fields.get(name) or "" for name in ("debit", "credit")}
    written = {name: text if text.strip(_EMPTY_MARKS) else "" for name, text in written.items()}
    debit, credit = (parse(text) if text else Decimal() for text in written.values())
    if debit is None or credit is None or not any(written.values()):
        return None
    if reading.negative == {"credit"} and "debit" in reading.columns:
        credit = -credit
    return credit + debit if "debit" in reading.negative else credit - debit


CSV = once_across_formats(
    Importer(
        claim=claim_by_suffix(".csv", ".tsv"),
        prepare=_prepare,
        read=_read,
        sample=_sample,
    ),
    "t_",
)
