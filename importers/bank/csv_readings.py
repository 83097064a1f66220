"""Decide how a CSV statement is read: columns, dates, decimal separator, signs and account."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from hashlib import sha256
from typing import NoReturn, TypeVar

from importers.bank import amounts
from importers.bank.amounts import balance_signs, currency_code
from importers.bank.csv_accounts import (
    FoundAccount,
    currency_above,
    find_account,
    named_account,
    own_account_column,
    unclear_account_column,
)
from importers.bank.csv_columns import (
    CREDITS,
    CURRENCY_NAMES,
    DEBITS,
    NOT_MONEY,
    Bank,
    find_bank,
    guess_columns,
    plain_name,
)
from importers.bank.csv_table import CsvTable, Row
from importers.core.dates import detect_order, is_date_like
from importers.core.export_files import ExportFile
from importers.core.importer import ChoiceNeeded, Options
from importers.core.results import ReceiptCode, UnreadableError

T = TypeVar("T")
AMOUNT_FIELDS = ("amount", "debit", "credit")
_COMPARED_ROWS = 1_000
_NOT_STORED = ("status", "effect", "payer", "balance")
"""Fields that only help to read a row."""
_CHECKED = ("amount", "balance")
_MARKS = DEBITS | CREDITS
_PAYMENT = re.compile(
    r"payment.{0,12}(received|thank)|thank you|autopay|auto pay|online payment|zahlung erhalten|dankend"
    r"|zahlung.{0,20}dank|paiement re[cç]u|pago recibido|pagamento ricevuto|betaling ontvangen",
    re.IGNORECASE,
)
_JAPANESE = re.compile("[\u3041-\u30fa]|日付|取引|年月日|利用日|入金|出金|残高|振込")
"""Words that Chinese does not have."""
_CARD = re.compile(
    r"(?i)card|karte|visa|master|amex|american express|carte|tarjeta|carta di credito"
)


@dataclass(frozen=True, slots=True)
class CsvReading:
    """How one file is read. ``columns`` are indexes by field, ``other_columns`` those without one.

    ``indicator`` is the column that says debit or credit. ``sign`` is -1 where purchases are printed
    without a minus sign, and otherwise 1. ``signed`` are the columns of debits and credits whose
    amounts are mostly negative. ``row_signs`` are those that the balances show, by line, of a table
    without signs.
    """

    columns: dict[str, int]
    other_columns: tuple[int, ...]
    date_order: str
    decimal: str
    sign: int
    indicator: int | None
    signed: frozenset[str]
    row_signs: dict[int, int]
    account: FoundAccount
    currency: str | None
    bank: Bank | None


def layout_name(table: CsvTable) -> str:
    """Return the name under which answers for tables with this header are remembered."""
    names = "\0".join(plain_name(name)[0] for name in table.header)
    return f"csv {sha256(names.encode('utf-8', 'replace')).hexdigest()[:20]}"


class ReadingBuilder:
    """Builds the reading of a table. ``used`` are the owner's answers that it depends on."""

    def __init__(self, table: CsvTable, file: ExportFile, options: Options) -> None:
        self.used: dict[str, object] = {}
        self._table = table
        self._file = file
        self._options = options
        self._layout = layout_name(table)
        self._remembered = options.remembered.get(self._layout) or {}

    def build(self) -> CsvReading:
        """Return the reading.

        Raises ``UnreadableError`` for a table that is no bank statement, and ``ChoiceNeeded``.
        """
        table = self._table
        columns, bank = self.columns(), find_bank(table.header)
        currency = self._currency(columns)
        last_year = self._options.current_year + 1

        def date_order(chosen: str | None) -> str:
            texts = table.column(columns["date"])
            is_japanese = any(map(_JAPANESE.search, table.header))
            return detect_order(texts, last_year=last_year, chosen=chosen, is_japanese=is_japanese)

        def decimal(chosen: str | None) -> str:
            texts = [text for text, _ in self._amounts(columns)]
            return amounts.detect_decimal_separator(texts, chosen=chosen, currency=currency)

        indicator = self._indicator(columns)
        is_plain = bank is None and indicator is None and self._options.signs is None
        row_signs = self._row_signs(columns) if is_plain else {}
        return CsvReading(
            columns=columns,
            other_columns=self._other_columns(columns, indicator),
            date_order=self._ask("date_order", self._options.date_order, date_order),
            decimal=self._ask("decimal", self._options.decimal, decimal),
            sign=1
            if indicator is not None or row_signs
            else self._ask("signs", self._options.signs, partial(self._sign, columns, bank)),
            indicator=indicator,
            signed=frozenset(filter(partial(self._is_negative, columns), ("debit", "credit"))),
            row_signs=row_signs,
            account=self._account(bank, columns),
            currency=currency,
            bank=bank,
        )

    def _ask(self, name: str, given: str | None, decide: Callable[[str | None], T]) -> T:
        """Return what the file shows, or else what the owner answered, which is then remembered."""
        if name == "signs" and given:  # also against what the file seems to show
            self.used[name] = given
            return decide(given)
        try:
            return decide(None)
        except ChoiceNeeded:
            answer = given or self._remembered.get(name)
            result = decide(answer)
            self.used[name] = answer
            return result

    def columns(self) -> dict[str, int]:
        """Map fields to columns: named ones that the file has, and guesses for other fields.

        Raises ``UnreadableError`` for a table that is no bank statement.
        """
        table, header = self._table, self._table.header
        columns = guess_columns(header)
        named = dict(self._remembered.get("columns") or {})
        named |= {f: c for f, c in self._options.columns.items() if c in header}
        if named:
            self.used["columns"] = named
        own = own_account_column(table, columns.pop("account", None))
        chosen = {field: header.index(name) for field, name in named.items() if name in header}
        columns = {f: c for f, c in columns.items() if c not in chosen.values()} | chosen
        if own is not None and "account" not in columns:
            columns = {f: c for f, c in columns.items() if c != own} | {"account": own}
        if "date" not in columns or not columns.keys() & {*AMOUNT_FIELDS}:
            raise self._unknown()
        if not named and {plain_name(name)[0] for name in header} & NOT_MONEY:
            raise self._unknown()
        dates = [text for text in table.column(columns["date"]) if text]
        if dates and not named and sum(map(is_date_like, dates)) * 2 < len(dates):
            raise self._unknown()
        written = [amounts.parse_written(text) for text, _ in self._amounts(columns)]
        if not named and sum(each is not None for each in written) * 2 < len(written):
            raise self._unknown()
        if "currency" in columns and not self._has_codes(columns["currency"]):
            others = (i for i, name in enumerate(header) if plain_name(name)[0] in CURRENCY_NAMES)
            other = next(filter(self._has_codes, others), None)
            columns = {f: c for f, c in columns.items() if f != "currency" and c != other}
            columns |= {} if other is None else {"currency": other}
        return columns

    def _other_columns(self, columns: dict[str, int], indicator: int | None) -> tuple[int, ...]:
        """Return the columns whose texts no field of a booking has."""
        stored = {index for name, index in columns.items() if name not in _NOT_STORED}
        stored |= set() if indicator is None else {indicator}
        return tuple(
            index
            for index in range(len(self._table.header))
            if index not in stored and any(self._table.column(index))
        )

    def _has_codes(self, column: int) -> bool:
        return amounts.are_currency_codes(self._table.column(column))

    def _dated_rows(self, columns: dict[str, int]) -> Iterator[list[str]]:
        """Yield the rows that can be bookings, not sums."""
        date = columns["date"]
        for _, cells in self._table.rows:
            if len(cells) > date and is_date_like(cells[date]):
                yield cells

    def _unknown(self) -> UnreadableError:
        names = ", ".join(filter(None, self._table.header))
        return UnreadableError(ReceiptCode.UNKNOWN_COLUMNS, detail=f"columns: {names}"[:200])

    def _amounts(self, columns: dict[str, int]) -> Iterator[tuple[str, int]]:
        """Yield each amount as written, with its row."""
        indexes = [columns[field] for field in AMOUNT_FIELDS if field in columns]
        for row, (_, cells) in enumerate(self._table.rows):
            yield from ((cells[i], row) for i in indexes if len(cells) > i and cells[i])

    def _currency(self, columns: dict[str, int]) -> str | None:
        """Return the currency that the header, an amount or the lines above the header name."""
        headers = [self._table.header[columns[f]] for f in AMOUNT_FIELDS if f in columns]
        found = {code for name in headers if (code := plain_name(name)[1])}
        if not found and "currency" in columns:
            rows = self._dated_rows(columns)
            at = columns["currency"]
            codes = {cells[at].upper() if len(cells) > at else "" for cells in rows}
            found = {currency_code(code) or code for code in codes if "" not in codes}
            if codes - {""} and not found:  # a row without a currency has not that of others
                return currency_above(self._table.preamble)
        if not found:
            written = (amounts.parse_written(text) for text, _ in self._amounts(columns))
            found = {each.currency for each in written if each and each.currency}
        if found:
            return found.pop() if len(found) == 1 else None
        return currency_above(self._table.preamble)

    def _indicator(self, columns: dict[str, int]) -> int | None:
        """Return the column that says debit or credit, unless amounts have signs or two columns."""
        written = [amounts.parse_written(text) for text, _ in self._amounts(columns)]
        if "amount" not in columns or any(each and each.sign for each in written):
            return None
        for index in range(len(self._table.header)):
            found = (cells[index] for cells in self._dated_rows(columns) if len(cells) > index)
            cells = {plain_name(cell)[0] for cell in found} - {""}
            if cells and index not in (columns["amount"], columns["date"]) and cells <= _MARKS:
                return index
        return None

    def _is_negative(self, columns: dict[str, int], field: str) -> bool:
        """Return whether most amounts of a column have a minus sign."""
        if field not in columns:
            return False
        at = columns[field]
        cells = (cells[at] for cells in self._dated_rows(columns) if len(cells) > at)
        written = filter(None, map(amounts.parse_written, cells))
        signs = Counter(each.sign == "-" for each in written if each.digits.strip("0.,"))
        return signs[True] > signs[False]

    def _balance_signs(
        self, columns: dict[str, int], rows: list[Row]
    ) -> list[tuple[int, Decimal, int]]:
        """Return line, amount and sign of the rows whose balance changes by the amount."""
        if not {"amount", "balance"} <= columns.keys() or self._is_card():
            return []
        parsed = []
        for line, cells in rows:
            texts = [cells[columns[f]] if len(cells) > columns[f] else "" for f in _CHECKED]
            amount, balance = map(amounts.parse_amount, texts)
            if amount is not None and balance is not None:
                parsed.append((line, amount, balance))
        signs = balance_signs([(amount, balance) for _, amount, balance in parsed])
        return [
            (line, amount, sign)
            for (line, amount, _), sign in zip(parsed, signs, strict=True)
            if sign
        ]

    def _row_signs(self, columns: dict[str, int]) -> dict[int, int]:
        """Return the signs that balances show, by line, of a table whose amounts have none."""
        written = (amounts.parse_written(text) for text, _ in self._amounts(columns))
        if any(each and each.sign for each in written):
            return {}
        return {line: sign for line, _, sign in self._balance_signs(columns, self._table.rows)}

    def _is_card(self) -> bool:
        return _CARD.search(f"{self._file.name} {' '.join(self._table.header)}") is not None

    def _sign(self, columns: dict[str, int], bank: Bank | None, chosen: str | None) -> int:
        """Return -1 where purchases have no minus sign. Raises ``ChoiceNeeded`` in doubt."""
        if bank is not None and not chosen:
            return -1 if bank.is_inverted else 1
        if chosen:
            return -1 if chosen == "inverted" else 1
        if "amount" not in columns:
            return 1
        written = [(amounts.parse_written(text), row) for text, row in self._amounts(columns)]
        negative = [row for each, row in written if each and each.sign == "-"]
        positive = [
            row for each, row in written if each and each.sign != "-" and each.digits.strip("0.,")
        ]
        signs = self._balance_signs(columns, self._table.rows[:_COMPARED_ROWS])
        contrary = [amount * sign < 0 for _, amount, sign in signs]
        if sum(contrary) * 2 > len(contrary):
            self._ask_for_signs((positive + negative)[:3])
        if any(each and each.sign == "+" for each, _ in written) or not positive:
            return 1
        payments = [row for row in negative if _PAYMENT.search(self._row_text(row))]
        if negative and not payments and not (self._is_card() and len(positive) > len(negative)):
            return 1
        if payments and len(payments) == len(negative) and len(positive) > 1:
            return -1
        return self._ask_for_signs((positive + negative)[:3])

    def _ask_for_signs(self, rows: list[int]) -> NoReturn:
        raise ChoiceNeeded(
            "Do amounts without a minus sign arrive, or are they purchases with a card?",
            evidence=[self._row_text(row)[:120] for row in rows],
            flag="--signs as-written (they arrive) or --signs inverted (they are purchases)",
        )

    def _row_text(self, row: int) -> str:
        return " | ".join(filter(None, self._table.rows[row][1]))

    def _account(self, bank: Bank | None, columns: dict[str, int]) -> FoundAccount:
        """Return the account of all rows. Raises ``ChoiceNeeded`` if a number may be its own."""
        found = find_account(self._table, self._file, bank=bank, layout=self._layout)
        if found.has_number:
            return found
        if self._options.account:
            return named_account(self._options.account)
        unclear = unclear_account_column(self._table, columns)
        named = self._options.columns | (self._remembered.get("columns") or {})
        is_told = bool(named.keys() & {"account", "counterparty_account"})
        if bank is None and unclear is not None and not is_told:
            self._ask_whose_account(self._table.header[unclear], unclear)
        return found

    def _ask_whose_account(self, name: str, index: int) -> NoReturn:
        number = next(self._table.column(index))
        raise ChoiceNeeded(
            f"Is {number} in the column {name} your own account, or that of the other side?",
            evidence=[self._row_text(row)[:120] for row in range(len(self._table.rows))[:3]],
            flag=f'--column "account={name}" or --column "counterparty_account={name}"',
        )
