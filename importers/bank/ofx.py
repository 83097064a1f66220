"""Import OFX and QFX statements, both SGML (OFX 1) and XML (OFX 2).

This is a parser of our own, because the maintained ones reject a statement for one invalid date.
"""

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from functools import partial

from importers.bank import records
from importers.core.export_files import ExportFile, iter_items
from importers.core.importer import ExportFiles, Importer
from importers.core.results import (
    ContentKeys,
    ExportItem,
    ExportItems,
    ParsedItem,
    ReceiptCode,
    UnreadableError,
)
from importers.core.text import decode

FILE_MAX_BYTES = 16 * 1024 * 1024
_TAG = re.compile(r"<(/?)([A-Za-z0-9._]+)>([^<\r\n]*)")
_CHARSET = re.compile(rb"CHARSET:\s*([\w-]+)|encoding=[\"']([\w-]+)", re.IGNORECASE)
_ACCOUNTS = ("BANKACCTFROM", "CCACCTFROM", "INVACCTFROM")


@dataclass(slots=True)
class Statement:
    """The elements read for one account so far."""

    elements: dict[str, str] = field(default_factory=dict)

    @property
    def account_id(self) -> str:
        return records.account_id(self.elements.get("BANKID"), self.elements.get("ACCTID"))

    def account(self) -> ParsedItem:
        balance = records.parse_amount(self.elements.get("BALAMT", ""))
        balance_on = parse_date(self.elements.get("DTASOF", ""))
        last_digits = self.elements.get("ACCTID", "")[-4:]
        return ParsedItem(
            [
                records.account_record(
                    self.account_id,
                    name=f"Account …{last_digits}" if last_digits else "Account",
                    bank=self.elements.get("ORG") or self.elements.get("BANKID"),
                    kind=self.elements.get("ACCTTYPE", "").lower() or None,
                    currency=self.elements.get("CURDEF"),
                    balance=None if balance is None else float(balance),
                    balance_on=balance_on.isoformat() if balance_on else None,
                )
            ]
        )


def _claim(files: ExportFiles) -> list[ExportFile]:
    return [
        file
        for file in files
        if file.suffix in (".ofx", ".qfx") or b"<OFX>" in file.head[:2048].upper()
    ]


def _read_file(file: ExportFile) -> ExportItems:
    statement, keys = Statement(), ContentKeys("o_")
    is_empty = True
    for name, line, elements in _aggregates(_text(file)):
        is_empty = False
        if name == "STMTTRN":
            key = keys.key(
                statement.account_id,
                *(elements.get(n) for n in ("FITID", "DTPOSTED", "TRNAMT", "NAME", "MEMO")),
            )
            parse = partial(
                _transaction,
                elements,
                key=key,
                account=statement.account_id,
                currency=statement.elements.get("CURDEF"),
            )
            yield ExportItem(file.name, f"line {line:,}", 0, parse)
            continue
        if name in _ACCOUNTS and "ACCTID" in statement.elements:
            yield ExportItem(file.name, "", 0, statement.account)
            organization = statement.elements.get("ORG")
            statement = Statement({"ORG": organization} if organization is not None else {})
        statement.elements |= elements
    if is_empty:
        raise UnreadableError(ReceiptCode.MALFORMED)
    yield ExportItem(file.name, "", file.size, statement.account)


def _text(file: ExportFile) -> str:
    content = file.read(max_bytes=FILE_MAX_BYTES)
    match = _CHARSET.search(content[:2048])
    charset = (match[1] or match[2]).decode() if match else None
    return decode(content, f"cp{charset}" if charset and charset.isdecimal() else charset)


def _aggregates(text: str) -> Iterator[tuple[str, int, dict[str, str]]]:
    """Yield (name, line, elements) of each account, transaction and balance.

    The name is empty for single elements outside of these.
    """
    aggregate, elements, first_line = "", dict[str, str](), 0
    line = line_position = 0
    for tag in _TAG.finditer(text):
        is_end, name, value = tag[1], tag[2].upper(), html.unescape(tag[3].strip())
        if name in (*_ACCOUNTS, "STMTTRN", "LEDGERBAL"):
            if aggregate and elements:
                yield aggregate, first_line, elements
            line += text.count("\n", line_position, tag.start())
            line_position = tag.start()
            aggregate, elements, first_line = ("" if is_end else name), {}, line + 1
        elif value and aggregate:
            elements[name] = value
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
    elements: dict[str, str], *, key: str, account: str, currency: str | None
) -> ParsedItem:
    item = ParsedItem()
    amount = records.parse_amount(elements.get("TRNAMT", ""))
    if amount is None:
        raise UnreadableError(ReceiptCode.BAD_AMOUNT, detail=elements.get("TRNAMT", "")[:40])
    on = parse_date(elements.get("DTPOSTED", ""))
    if on is None:
        item.add_issue(ReceiptCode.BAD_DATE, detail=elements.get("DTPOSTED", "")[:40])
    item.records.append(
        records.transaction_record(
            key,
            account=account,
            on=on,
            amount=amount,
            currency=elements.get("CURSYM") or currency,
            counterparty=elements.get("NAME") or elements.get("PAYEE"),
            kind=elements.get("TRNTYPE", "").lower(),
            reference=elements.get("REFNUM") or elements.get("FITID"),
            check_number=elements.get("CHECKNUM"),
            memo=elements.get("MEMO"),
        )
    )
    return item


OFX = Importer(
    claim=_claim,
    read=lambda files, _options: iter_items(files, _read_file),
)
