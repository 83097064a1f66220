"""Import OFX and QFX statements, both SGML (OFX 1) and XML (OFX 2).

This is a parser of our own, because the maintained ones reject a statement for one invalid date.

The bank's id of a booking (FITID) is unique in an account. Some banks number the bookings of each
statement, or use an id for two, so the amount counts too, and for short ids the day. Keys do not
depend on the order of the bookings, which differs between two exports.
"""

import contextlib
import html
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from decimal import Decimal
from functools import cached_property, partial
from typing import Any

from importers.bank import amounts, records
from importers.bank.across_formats import once_across_formats
from importers.bank.records import format_account
from importers.core.export_files import ExportFile, iter_items
from importers.core.importer import (
    ExportFiles,
    Importer,
    Options,
    claim_each,
    detect_or_answer,
)
from importers.core.results import (
    ContentKeys,
    ExportItem,
    ExportItems,
    Issue,
    ParsedItem,
    ReceiptCode,
    UnreadableError,
    issue_item,
    issue_only,
)
from importers.core.text import decode

_DEBIT_TYPES = frozenset(
    ["DEBIT", "FEE", "SRVCHG", "ATM", "POS", "CHECK", "PAYMENT", "CASH", "DIRECTDEBIT", "REPEATPMT"]
)
LAYOUT = "ofx"
_SHORT_ID = 4
_CORRECTION = timedelta(days=7)
"""Banks correct the day of a booking by less; a booking further off is another one."""
Booking = Mapping[str, str]
Identity = tuple[str, ...]
FILE_MAX_BYTES = 16 * 1024 * 1024
_TAG = re.compile(r"<(/?)(?:[A-Za-z0-9_]+:)?([A-Za-z0-9._]+)(?:\s[^<>]*)?/?>\s*([^<\r\n]*)")
_OUTSIDE = re.compile(
    r"<OFX>.*?(?:</OFX>|\Z)|<\?[^>]*\?>|^\s*[A-Z]+:[^\s;,]*\s*$",
    re.DOTALL | re.IGNORECASE | re.MULTILINE,
)
"""A document with the lines of its header; other text is none."""
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_CDATA = re.compile(r"<!\[CDATA\[(.*?)\]\]>", re.DOTALL)
_CHARSET = re.compile(rb"CHARSET:\s*([\w-]+)|encoding=[\"']([\w-]+)", re.IGNORECASE)
_STATEMENTS = ("STMTRS", "CCSTMTRS", "INVSTMTRS")
_ACCOUNTS = ("BANKACCTFROM", "CCACCTFROM", "INVACCTFROM")
_INVESTMENTS = (
    "BUYDEBT", "BUYMF", "BUYOPT", "BUYOTHER", "BUYSTOCK", "CLOSUREOPT", "INCOME", "INVEXPENSE",
    "JRNLFUND", "JRNLSEC", "MARGININTEREST", "REINVEST", "RETOFCAP", "SELLDEBT", "SELLMF", "SELLOPT",
    "SELLOTHER", "SELLSTOCK", "SPLIT", "TRANSFER",
)  # fmt: skip
_AGGREGATES = frozenset(
    (*_STATEMENTS, *_ACCOUNTS, *_INVESTMENTS, "STMTTRN", "STMTTRNP", "LEDGERBAL")
)
_PART = re.compile(r"<(\w+TRNRS|INVPOSLIST|INVOOLIST|INVBAL|SECLIST)>")
_READ_PARTS = {"STMTTRNRS", "CCSTMTTRNRS", "INVSTMTTRNRS", "ACCTINFOTRNRS", "PROFTRNRS"}
_MESSAGE = re.compile(r"<STATUS>[^/]*?<MESSAGE>([^<\r\n]+)", re.IGNORECASE)
_READ = frozenset(("TRNTYPE", "DTPOSTED", "TRNAMT"))
"""Elements of a booking that its fields always have."""
_NESTED = frozenset(("ORIGCURRENCY", "CURRENCY", "BANKACCTTO", "CCACCTTO", "PAYEE"))
"""Aggregates of a booking; their elements are named PAYEE.NAME, and so on."""


@dataclass(frozen=True, slots=True)
class OfxReading:
    """How the amounts of a file are read. ``used`` are the owner's answers that it depends on.

    ``signs`` is one of SIGNS, or None if the kinds of bookings have to show which amounts leave.
    """

    decimal: str
    signs: str | None
    used: Mapping[str, str]


def detect_reading(
    aggregates: list[tuple[str, int, dict[str, str]]], options: Options
) -> OfxReading:
    """Return how the amounts of a file are read. Raises ``ChoiceNeeded``."""
    written = [fields.get("TRNAMT", "") for name, _, fields in aggregates if name == "STMTTRN"]
    remembered = options.remembered.get(LAYOUT) or {}
    used = dict[str, str]()
    signs = "as-written" if any(_sign(text) == "-" for text in written) else None
    if signs is None and (answer := options.signs or remembered.get("signs")):
        signs = used["signs"] = answer
    if not any(map(amounts.is_ambiguous, written)):
        return OfxReading(".", signs, used)
    currency = next((fields["CURDEF"] for _, _, fields in aggregates if "CURDEF" in fields), None)
    detect = partial(amounts.detect_decimal_separator, written, currency=currency)
    return OfxReading(detect_or_answer("decimal", detect, options, LAYOUT, used), signs, used)


def parse_amount(elements: dict[str, str], reading: OfxReading, item: ParsedItem) -> Decimal | None:
    """Return the amount, with a receipt if only the kind of the booking shows its sign."""
    text, kind = elements.get("TRNAMT", ""), elements.get("TRNTYPE", "").upper()
    amount = _number(text, reading.decimal)
    if not amount or reading.signs == "as-written" or kind not in _DEBIT_TYPES:
        return amount
    if reading.signs is not None:
        return -amount
    amount = amount if _sign(text) else -amount
    item.add_issue(ReceiptCode.UNSURE_SIGN, detail=f"{kind} {text[:40]}: {amount}")
    return amount


def _number(text: str, decimal: str) -> Decimal | None:
    """Return an amount. The format allows both separators, so one file may have them."""
    separator = decimal if amounts.is_ambiguous(text) else None
    return amounts.parse_amount(text, decimal_separator=separator)


def _sign(text: str) -> str:
    written = amounts.parse_written(text)
    return written.sign if written else ""


class OfxKeys:
    """Makes the record keys of the files of an import.

    ``stored`` are the account, day and amount of the records of the connection, by key.
    """

    def __init__(self, stored: Mapping[str, Sequence[Any]]) -> None:
        self._stored = stored
        self._days: dict[Identity, date | None] = {}
        """Of several bookings with one id and amount, the one of this day has no day in its key."""

    def of_file(self, statements: Sequence[tuple[str, Sequence[Booking]]]) -> Iterator[list[str]]:
        """Yield the keys of the bookings of each statement, which is its account and its bookings."""
        identities = [
            [_identity(account, booking) for booking in bookings]
            for account, bookings in statements
        ]
        self._choose_days(statements, identities)
        for (account, bookings), plain in zip(statements, identities, strict=True):
            # Another statement can repeat a booking, and its text differently.
            found = list(map(self._with_day, plain, bookings))
            texts: dict[Identity, Identity] = {}
            for identity, booking in zip(found, bookings, strict=True):
                texts[identity] = min(_texts(booking), texts.get(identity, _texts(booking)))
            contents = ContentKeys("f_")
            yield [
                _key(account, booking, identity, texts, contents)
                for identity, booking in zip(found, bookings, strict=True)
            ]

    def _choose_days(
        self,
        statements: Sequence[tuple[str, Sequence[Booking]]],
        identities: Sequence[Sequence[Identity]],
    ) -> None:
        days: dict[Identity, set[date]] = defaultdict(set)
        for (_, bookings), plain in zip(statements, identities, strict=True):
            for identity, booking in zip(plain, bookings, strict=True):
                day = parse_date(_day(booking))
                if day is not None and not self._is_stored(*identity, _day(booking)):
                    days[identity].add(day)
        for identity, found in days.items():
            known = self._days.get(identity) or self._stored_day(identity)
            near = [day for day in found if known is None or abs(day - known) <= _CORRECTION]
            if near:
                self._days[identity] = min(near, key=lambda day: (day != known, day))

    def _is_stored(self, *identity: str) -> bool:
        return bool(self._stored) and _digest(*identity) in self._stored

    def _stored_day(self, identity: Identity) -> date | None:
        if not self._stored:
            return None
        _, day, *_ = self._stored.get(_digest(*identity), (None, None))
        return parse_date(str(day or "").replace("-", ""))

    def _with_day(self, identity: Identity, booking: Booking) -> Identity:
        day = _day(booking)
        is_chosen = self._days.get(identity, parse_date(day)) == parse_date(day)
        return identity if is_chosen and not self._is_stored(*identity, day) else (*identity, day)


def _key(
    account: str,
    booking: Booking,
    identity: Identity,
    first_texts: Mapping[Identity, Identity],
    contents: ContentKeys,
) -> str:
    fitid = booking.get("FITID", "")
    if not fitid.strip("0-") or fitid.upper() in ("NONE", "NULL", "NA"):
        names = ("NAME", "MEMO", "CHECKNUM", "REFNUM")
        found = (booking.get(name, "") for name in names)
        return contents.key(account, _day(booking), booking.get("TRNAMT", ""), *found)
    # Of two with one id, day and amount in a statement, the texts show that they are two.
    texts = _texts(booking)
    return _digest(*identity, *(texts if texts != first_texts[identity] else ()))


def _digest(*parts: str) -> str:
    return ContentKeys("f_").key(*parts)


def _identity(account: str, booking: Booking) -> Identity:
    fitid, written = booking.get("FITID", ""), booking.get("TRNAMT", "")
    # Banks write -42, -42.0 and -42,00 for the same booking.
    amount = amounts.parse_amount(written)
    plain = written if amount is None else f"{amount.normalize():f}"
    identity = (account, fitid, plain)
    return (*identity, _day(booking)) if len(fitid) <= _SHORT_ID else identity


def _day(booking: Booking) -> str:
    return booking.get("DTPOSTED", "")[:8]


def _texts(booking: Booking) -> Identity:
    return tuple(booking.get(name, "") for name in ("NAME", "MEMO"))


@dataclass
class Statement:
    """The elements read for one account so far, and its bookings and investments."""

    elements: dict[str, str] = field(default_factory=dict)
    decimal: str = "."
    entries: list[tuple[str, int, dict[str, str]]] = field(default_factory=list)

    @property
    def bookings(self) -> list[dict[str, str]]:
        return [elements for name, _, elements in self.entries if name == "STMTTRN"]

    @property
    def currency(self) -> str | None:
        return self.elements.get("CURDEF", "").upper() or None

    @cached_property
    def account_id(self) -> str:
        bank, number = (self.elements.get(name, "").strip() for name in ("BANKID", "ACCTID"))
        if not any(map(str.isalnum, number)):
            return records.account_id(bank, number)
        return format_account(bank, number, self.currency).key

    @property
    def kind(self) -> str:
        return self.elements.get("ACCTTYPE", "").lower()

    def is_ended_by(self, name: str, elements: dict[str, str]) -> bool:
        """Return whether an aggregate belongs to the next statement."""
        if name in _STATEMENTS or (name in _ACCOUNTS and "ACCTID" in self.elements):
            return "ACCTID" in self.elements or "CURDEF" in self.elements
        return "CURDEF" in elements and {"CURDEF", "ACCTID"} <= self.elements.keys()

    def account(self) -> ParsedItem:
        written = self.elements.get("BALAMT", "")
        balance = _number(written, self.decimal)
        balance_on = parse_date(self.elements.get("DTASOF", ""))
        last_digits = self.elements.get("ACCTID", "")[-4:]
        record = records.account_record(
            self.account_id,
            name=f"Account …{last_digits}" if last_digits else "Account",
            bank=self.elements.get("ORG") or self.elements.get("BANKID"),
            kind=self.kind or None,
            currency=self.currency,
            balance=None if balance is None else float(balance),
            balance_on=balance_on.isoformat() if balance_on else None,
        )
        item = ParsedItem([record])
        if written and balance is None:
            item.add_issue(ReceiptCode.BAD_AMOUNT, detail=f"balance {written[:40]}")
        return item


def _prepare(files: ExportFiles, options: Options) -> Options:
    """Check that amounts such as 1,234 can be read. Raises ``ChoiceNeeded``."""
    answers: dict[str, dict[str, str]] = {}
    for file in files:
        with contextlib.suppress(UnreadableError):
            reading = detect_reading(list(_aggregates(_text(file))), options)
            if reading.used:
                remembered = options.remembered.get(LAYOUT) or {}
                answers.setdefault(LAYOUT, {**remembered}).update(reading.used)
    return replace(options, answers=answers)


def _read(files: ExportFiles, options: Options) -> ExportItems:
    keys = OfxKeys(options.stored.get("transactions", {}))
    return iter_items(files, partial(_read_file, options=options, keys=keys))


def _separate_kinds(statements: Sequence[Statement], stored: Collection[str]) -> None:
    """Make two accounts of those that differ in their kind alone, such as checking and savings."""
    kinds: dict[str, set[str]] = defaultdict(set)
    for each in statements:
        kinds[each.account_id].add(each.kind)
    for each in statements:
        own = records.account_id(each.account_id, each.kind)
        if each.kind not in ("", "checking") and (len(kinds[each.account_id]) > 1 or own in stored):
            each.account_id = own


def _read_file(file: ExportFile, *, options: Options, keys: OfxKeys) -> ExportItems:
    aggregates = list(_aggregates(_text(file)))
    if not aggregates and b"<OFX>" not in file.head.upper():
        raise UnreadableError(ReceiptCode.MALFORMED)
    reading = detect_reading(aggregates, options)
    read = _statements(aggregates, decimal=reading.decimal)
    statements = [each for each in read if "ACCTID" in each.elements or each.entries]
    if not statements:
        message = _MESSAGE.search(_text(file))
        reason = message[1].strip()[:80] if message else "no account"
        yield issue_item(file.name, "", ReceiptCode.EMPTY, reason, size=file.size)
        yield from _other_parts(file)
    _separate_kinds(statements, options.stored.get("accounts", {}))
    found_keys = keys.of_file([(each.account_id, each.bookings) for each in statements])
    corrected = {fields["CORRECTFITID"] for _, _, fields in aggregates if "CORRECTFITID" in fields}
    for statement, found in zip(statements, found_keys, strict=True):
        booking_keys = iter(found)
        for name, line, elements in statement.entries:
            key = next(booking_keys) if name == "STMTTRN" else ""
            booking = partial(_transaction, elements, key, statement, reading=reading)
            issue = _reason_to_skip(name, elements, corrected)
            parse = issue_only(*issue) if issue else booking
            yield ExportItem(file.name, f"line {line:,}", 0, parse)
        if statement is statements[-1]:
            if other := _OUTSIDE.sub("", _text(file)).strip():
                detail = f"beside the statement: {other[:40]}"
                yield issue_item(file.name, "", ReceiptCode.MALFORMED, detail)
            yield from _other_parts(file)
        size = file.size if statement is statements[-1] else 0
        yield ExportItem(file.name, "", size, statement.account)


def _statements(
    aggregates: Sequence[tuple[str, int, dict[str, str]]], *, decimal: str
) -> Iterator[Statement]:
    statement = Statement(decimal=decimal)
    for name, line, elements in aggregates:
        if name in ("STMTTRN", "STMTTRNP", *_INVESTMENTS):
            statement.entries.append((name, line, elements))
            continue
        if statement.is_ended_by(name, elements):
            yield statement
            kept = {n: v for n, v in statement.elements.items() if n == "ORG"}
            statement = Statement(kept, decimal)
        statement.elements |= elements
    yield statement


def _other_parts(file: ExportFile) -> ExportItems:
    """Yield a receipt for each kind of answer of the bank that is no statement, such as transfers."""
    text = _text(file).upper()
    for name in sorted(set(_PART.findall(text)) - _READ_PARTS):
        yield issue_item(
            file.name, "", ReceiptCode.NOT_SUPPORTED, f"{name}: {text.count(f'<{name}>'):,}"
        )


def _reason_to_skip(name: str, elements: dict[str, str], corrected: set[str]) -> Issue | None:
    """Return why an entry is no booking: the bank can delete or replace one in the same file."""
    if name == "STMTTRNP":
        return Issue(ReceiptCode.NOT_BOOKED, "pending")
    if name != "STMTTRN":
        return Issue(ReceiptCode.NOT_SUPPORTED, f"investment {name}")
    if elements.get("CORRECTACTION") == "DELETE" or elements.get("FITID") in corrected:
        return Issue(ReceiptCode.NOT_BOOKED, "corrected by the bank")
    return None


def _text(file: ExportFile) -> str:
    content = file.read(max_bytes=FILE_MAX_BYTES)
    match = _CHARSET.search(content[:2048])
    charset = (match[1] or match[2]).decode() if match else None
    if charset and charset.lower().startswith("utf-16"):
        charset = None  # what was found byte by byte is not in UTF-16
    text = decode(content, f"cp{charset}" if charset and charset.isdecimal() else charset)
    text = _COMMENT.sub(lambda match: "\n" * match[0].count("\n"), text)
    return _CDATA.sub(lambda match: html.escape(match[1]), text)


def _aggregates(text: str) -> Iterator[tuple[str, int, dict[str, str]]]:
    """Yield (name, line, elements) of each statement, account, booking, balance and investment.

    The name is empty for single elements outside of these.
    """
    aggregate, nested, elements, first_line = "", "", dict[str, str](), 0
    line = line_position = 0
    for tag in _TAG.finditer(text):
        is_end, name, value = bool(tag[1]), tag[2].upper(), html.unescape(tag[3].strip())
        is_nested = aggregate in _INVESTMENTS and name in _INVESTMENTS and name != aggregate
        if name in _AGGREGATES and not is_nested:
            if aggregate and (elements or aggregate == "STMTTRN"):
                yield aggregate, first_line, elements
            line += text.count("\n", line_position, tag.start())
            line_position = tag.start()
            is_open = not is_end and name not in _STATEMENTS
            if name in _STATEMENTS and not is_end:
                yield name, line + 1, {}
            aggregate, nested, elements = (name if is_open else ""), "", {}
            first_line = line + 1
        elif name in _NESTED and not value:
            nested = "" if is_end else f"{name}."
        elif value and aggregate:
            elements.setdefault(f"{nested}{name}", value)
        elif value and name in ("CURDEF", "ORG"):
            yield "", 0, {name: value}
    if aggregate and elements:
        yield aggregate, first_line, elements


def parse_date(text: str) -> date | None:
    """Return the date of ``20260105120000[-5:EST]`` in the time zone of the bank."""
    try:
        return date(int(text[:4]), int(text[4:6]), int(text[6:8]))
    except ValueError:
        return None


def _transaction(
    elements: dict[str, str], key: str, statement: Statement, *, reading: OfxReading
) -> ParsedItem:
    item = ParsedItem()
    # With ORIGCURRENCY the amount is converted to the currency of the account; with CURRENCY not.
    currency = elements.get("CURRENCY.CURSYM", "").upper() or statement.currency
    amount = parse_amount(elements, reading, item)
    if amount is None or not amounts.fits_currency(amount, currency):
        raise UnreadableError(
            ReceiptCode.BAD_AMOUNT, detail=elements.get("TRNAMT", "no amount")[:40]
        )
    posted = elements.get("DTPOSTED", "")
    on = item.require_date(parse_date(posted), posted)
    fields = {
        "counterparty": elements.get("NAME") or elements.get("PAYEE.NAME") or elements.get("PAYEE"),
        "counterparty_account": elements.get("BANKACCTTO.ACCTID")
        or elements.get("CCACCTTO.ACCTID"),
        "reference": elements.get("REFNUM") or elements.get("FITID"),
        "check_number": elements.get("CHECKNUM"),
        "memo": elements.get("MEMO"),
    }
    details = [(name.replace(".", " "), text) for name, text in elements.items()
               if name not in _READ and text not in fields.values()]  # fmt: skip
    record = records.transaction_record(
        key,
        account=statement.account_id,
        on=on,
        amount=amount,
        currency=currency,
        kind=elements.get("TRNTYPE", "").lower(),
        details=details,
        **fields,
    )
    item.records.append(record)
    return item


OFX = once_across_formats(
    Importer(
        claim=claim_each(
            lambda file: file.suffix in (".ofx", ".qfx") or b"<OFX>" in file.head[:2048].upper()
        ),
        prepare=_prepare,
        read=_read,
    ),
    "f_",
)
