"""OFX and QFX, the old kind with open tags and the new kind that is XML.

Our own reader: the maintained ones refuse a whole statement for one date that does not exist.
"""

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from functools import partial

from importers.bank import records
from importers.core.export_files import Entry, each
from importers.core.importer import Entries, Kind, Options
from importers.core.results import Code, Item, Piece, Pieces, Repeated, UnreadableError
from importers.core.text import decoded

FILE_BYTES = 16 * 1024 * 1024
_TAG = re.compile(r"<(/?)([A-Za-z0-9._]+)>([^<\r\n]*)")
_CHARSET = re.compile(rb"CHARSET:\s*([\w-]+)|encoding=[\"']([\w-]+)", re.IGNORECASE)
_ACCOUNTS = ("BANKACCTFROM", "CCACCTFROM", "INVACCTFROM")


@dataclass(slots=True)
class Statement:
    """What has been read of one account so far."""

    facts: dict[str, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return records.account_id(self.facts.get("BANKID"), self.facts.get("ACCTID"))

    def row(self) -> Item:
        balance = records.amount_of(self.facts.get("BALAMT", ""))
        on = day(self.facts.get("DTASOF", ""))
        shown = self.facts.get("ACCTID", "")[-4:]
        return Item(
            [
                records.account(
                    self.id,
                    name=f"Account …{shown}" if shown else "Account",
                    bank=self.facts.get("ORG") or self.facts.get("BANKID"),
                    kind=self.facts.get("ACCTTYPE", "").lower() or None,
                    currency=self.facts.get("CURDEF"),
                    balance=None if balance is None else float(balance),
                    balance_on=on.isoformat() if on else None,
                )
            ]
        )


def _claim(entries: Entries) -> list[Entry]:
    return [
        entry
        for entry in entries
        if entry.suffix in (".ofx", ".qfx") or b"<OFX>" in entry.head[:2048].upper()
    ]


def _read(entries: Entries, options: Options) -> Pieces:
    return each(entries, _file)


def _file(entry: Entry) -> Pieces:
    content = entry.read(most=FILE_BYTES)
    stated = _CHARSET.search(content[:2048])
    charset = (stated[1] or stated[2]).decode() if stated else None
    text = decoded(content, f"cp{charset}" if charset and charset.isdecimal() else charset)
    statement, keys = Statement(), Repeated("o_")
    found = 0
    for name, number, facts in _blocks(text):
        found += 1
        if name in _ACCOUNTS:
            if "ACCTID" in statement.facts:
                yield Piece(entry.name, "", 0, statement.row)
                statement = Statement({n: v for n, v in statement.facts.items() if n in ("ORG",)})
            statement.facts |= facts
        elif name == "STMTTRN":
            key = keys.key(
                statement.id,
                *(facts.get(n) for n in ("FITID", "DTPOSTED", "TRNAMT", "NAME", "MEMO")),
            )
            currency = statement.facts.get("CURDEF")
            make = partial(_transaction, facts, key=key, account=statement.id, currency=currency)
            yield Piece(entry.name, f"line {number:,}", 0, make)
        else:
            statement.facts |= facts
    if not found:
        raise UnreadableError(Code.MALFORMED)
    yield Piece(entry.name, "", entry.size, statement.row)


def _blocks(text: str) -> Iterator[tuple[str, int, dict[str, str]]]:
    """(name, line, values) of each account, booking and balance; other values by themselves."""
    inside, facts, began = "", dict[str, str](), 0
    line = counted = 0
    for tag in _TAG.finditer(text):
        closes, name, value = tag[1], tag[2].upper(), html.unescape(tag[3].strip())
        if name in (*_ACCOUNTS, "STMTTRN", "LEDGERBAL"):
            if inside and facts:
                yield inside, began, facts
            line += text.count("\n", counted, tag.start())
            counted = tag.start()
            inside, facts, began = ("" if closes else name), {}, line + 1
        elif value and inside:
            facts[name] = value
        elif value and name in ("CURDEF", "ORG"):
            yield "", 0, {name: value}
    if inside and facts:
        yield inside, began, facts


def day(stated: str) -> date | None:
    """``20260105120000[-5:EST]``: the day as the bank has it."""
    try:
        return date(int(stated[:4]), int(stated[4:6]), int(stated[6:8]))
    except ValueError:
        return None


def _transaction(facts: dict[str, str], *, key: str, account: str, currency: str | None) -> Item:
    item = Item()
    amount = records.amount_of(facts.get("TRNAMT", ""))
    if amount is None:
        raise UnreadableError(Code.BAD_AMOUNT, detail=facts.get("TRNAMT", "")[:40])
    on = day(facts.get("DTPOSTED", ""))
    if on is None:
        item.remark(Code.BAD_DATE, detail=facts.get("DTPOSTED", "")[:40])
    item.rows.append(
        records.transaction(
            key,
            account=account,
            on=on,
            amount=amount,
            currency=facts.get("CURSYM") or currency,
            counterparty=facts.get("NAME") or facts.get("PAYEE"),
            kind=facts.get("TRNTYPE", "").lower(),
            reference=facts.get("REFNUM") or facts.get("FITID"),
            check_number=facts.get("CHECKNUM"),
            memo=facts.get("MEMO"),
        )
    )
    return item


OFX = Kind(
    name="ofx",
    title="bank statements (OFX)",
    source="bank",
    label="Bank",
    claim=_claim,
    read=_read,
)
