"""Import ISO 20022 statements, camt.053, and reports of the same entries, camt.052."""

import re
from collections.abc import Iterator
from datetime import date
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any
from xml.etree import ElementTree as ET

from importers.bank import amounts, records
from importers.bank.across_formats import once_across_formats
from importers.bank.records import FoundAccount, number_account
from importers.core.export_files import ExportFile
from importers.core.importer import Importer, claim_each, read_each
from importers.core.results import (
    ContentKeys,
    ExportItem,
    ExportItems,
    ParsedItem,
    ParsedRecord,
    ReceiptCode,
    UnreadableError,
    issue_item,
    issue_only,
)
from importers.core.text import to_utf8

FILE_MAX_BYTES = 16 * 1024 * 1024
_SUFFIXES = (".xml", ".camt", ".052", ".053", ".c52", ".c53")
_NOT_BOOKED = ("PDNG", "INFO", "FUTR")
_POSITION_DIGITS = 4
"""A shorter reference of an entry (NtryRef) is its position in one statement."""
_LAST_BALANCES = ("CLBD", "CLAV", "ITBD", "ITAV")
"""The balances at the end of a statement, then those in the middle of the day of a report."""
_TEXTS = ("AddtlStmtInf", "AddtlRptInf", "Intrst")
_CODES = frozenset(("CdtDbtInd", "Sts", "BkTxCd", "RvslInd"))
"""Elements of an entry that its fields have, or that say nothing to its owner."""
_MESSAGES = re.compile(rb"BkToCstmr(Stmt|AcctRpt|DbtCdtNtfctn)\b")
_DOMAIN_CODES = ("Cd", "Fmly/Cd", "Fmly/SubFmlyCd")
_WRAPPERS = frozenset(
    ("NtryDtls", "TxDtls", "RltdPties", "Refs", "Pty", "Id", "Othr", "OrgId", "PrvtId", "Tp")
)


def _is_message(file: ExportFile) -> bool:
    head = file.head.replace(b"\0", b"").lstrip(b"\xef\xbb\xbf\xff\xfe\r\n\t ")
    is_xml = file.suffix in _SUFFIXES or (file.suffix in (".txt", "") and head.startswith(b"<"))
    return bool(is_xml and _MESSAGES.search(head))


def _read_file(file: ExportFile) -> ExportItems:
    content = file.read(max_bytes=FILE_MAX_BYTES)
    is_utf16 = b"\0" in content[:4]
    content = to_utf8(content) if is_utf16 else content
    if b"<!DOCTYPE" in content or b"<!ENTITY" in content:
        raise UnreadableError(ReceiptCode.MALFORMED, detail="document type")
    try:
        parser = ET.XMLParser(encoding="utf-8" if is_utf16 else None)  # noqa: S314
        root = ET.fromstring(content, parser)  # noqa: S314 - without a document type no entities
    except (ET.ParseError, ValueError) as error:
        raise UnreadableError(ReceiptCode.DAMAGED, detail=str(error)[:80]) from error
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    if root.find(".//Ntfctn") is not None:
        # Its entries often lack the reference that they have in a statement, so they would be two.
        detail = "camt.054, a notification: camt.053 and camt.052 have its bookings"
        raise UnreadableError(ReceiptCode.NOT_SUPPORTED, detail=detail)
    keys = ContentKeys("c_")
    statements = [*root.iter("Stmt"), *root.iter("Rpt")]
    for statement in statements:
        # A further page is a part of its statement; other statements may repeat its entries.
        if _text(statement, "StmtPgntn/PgNb", "RptPgntn/PgNb") in (None, "1"):
            keys.start_group(statement)
        yield from _statement(file, statement, keys, size=file.size // len(statements))


def _statement(
    file: ExportFile, statement: ET.Element, keys: ContentKeys, *, size: int
) -> ExportItems:
    number = _text(statement, "Acct/Id/IBAN", "Acct/Id/Othr/Id")
    if number is None:
        yield issue_item(file.name, "", ReceiptCode.NO_IDENTITY, "account", size=size)
        return
    account = number_account(number)
    balance = _last_balance(statement)
    record = _account_record(account, statement, balance)
    yield ExportItem(file.name, "", size, partial(ParsedItem, [record]))
    if balance is not None and record.data["balance"] is None:
        detail = f"balance {_text(balance, 'Amt')}"
        yield issue_item(file.name, "", ReceiptCode.BAD_AMOUNT, detail)
    texts = (
        text for name in _TEXTS for part in statement.findall(name) for text in part.itertext()
    )
    if text := " ".join(" ".join(texts).split())[:200]:
        detail = f"text of the statement: {text}"
        yield issue_item(file.name, "", ReceiptCode.PARTLY_IMPORTED, detail)
    for position, entry in enumerate(statement.iter("Ntry"), 1):
        status = _text(entry, "Sts/Cd", "Sts") or "BOOK"
        if status in _NOT_BOOKED:  # it has no key: equal ones are numbered
            parse = issue_only(ReceiptCode.NOT_BOOKED, status)
        else:
            key = keys.key(account.key, _currency(entry), *_identity(entry))
            parse = partial(_transaction, entry, key=key, account=account.key)
        yield ExportItem(file.name, f"entry {position:,}", 0, parse)


def _identity(entry: ET.Element) -> list[str | None]:
    """Return what is the same for an entry in every statement, whatever its position there."""
    names = ("AcctSvcrRef", "Amt", "CdtDbtInd", "BookgDt/Dt", "BookgDt/DtTm", "NtryRef")
    texts = [_text(entry, name) for name in names]
    if len((texts[-1] or "").lstrip("0")) <= _POSITION_DIGITS:
        texts[-1] = None
    has_reference = texts[0] not in (None, "NONREF")
    return texts if has_reference else [*texts, _memo(entry), _text(entry, ".//EndToEndId")]


def _last_balance(statement: ET.Element) -> ET.Element | None:
    found = {_text(each, "Tp/CdOrPrtry/Cd"): each for each in reversed([*statement.iter("Bal")])}
    return next((found[code] for code in _LAST_BALANCES if code in found), None)


def _account_record(
    account: FoundAccount, statement: ET.Element, balance: ET.Element | None
) -> ParsedRecord:
    fields: dict[str, Any] = {
        "bank": _text(statement, "Acct/Svcr/FinInstnId/Nm", "Acct/Svcr/FinInstnId/BICFI",
                      "Acct/Svcr/FinInstnId/BIC"),
        "currency": _text(statement, "Acct/Ccy"),
    }  # fmt: skip
    if balance is not None:
        amount, on = _amount(balance), _date(balance, "Dt")
        fields["balance"] = None if amount is None else float(amount)
        fields["balance_on"] = on.isoformat() if on else None
        fields["currency"] = fields["currency"] or _currency(balance)
    return records.account_record(account.key, name=account.name, **fields)


def _transaction(entry: ET.Element, *, key: str, account: str) -> ParsedItem:
    item = ParsedItem()
    amount, currency = _amount(entry), _currency(entry)
    if amount is None or not amounts.fits_currency(amount, currency):
        raise UnreadableError(ReceiptCode.BAD_AMOUNT, detail=_text(entry, "Amt") or "no amount")
    on = _date(entry, "BookgDt") or _date(entry, "ValDt")
    item.require_date(on, _text(entry, "BookgDt/Dt") or "")
    is_credit = _text(entry, "CdtDbtInd") == "CRDT"
    other = "Dbtr" if is_credit else "Cdtr"
    parties = f"NtryDtls/TxDtls/RltdPties/{other}"
    names = {*_texts(entry, f"{parties}/Pty/Nm"), *_texts(entry, f"{parties}/Nm")}
    codes = list(dict.fromkeys(_codes(entry)))
    is_batch = len(names) > 1  # of several people none is the other side
    fields = {
        "counterparty": None if is_batch else next(iter(names), None),
        "counterparty_account": None
        if is_batch
        else _text(entry, f"{parties}Acct/Id/IBAN", f"{parties}Acct/Id/Othr/Id"),
        "kind": codes[0] if codes else None,
        "reference": _text(entry, "AcctSvcrRef", ".//EndToEndId"),
        "memo": _memo(entry),
    }
    kept = {*fields.values(), *_remittances(entry), f"{_text(entry, 'Amt')} {currency}"}
    details = [each for each in _leaves(entry) if each[1] not in kept]
    details += [("BkTxCd", code) for code in codes[1:]]
    if sum(len(name) + len(text) + 3 for name, text in details) > records.DETAILS_MAX_CHARS:
        item.add_issue(ReceiptCode.TEXT_CUT)
    record = records.transaction_record(
        key, account=account, on=on, amount=amount, currency=currency, details=details, **fields
    )
    item.records.append(record)
    return item


def _codes(entry: ET.Element) -> Iterator[str]:
    """Yield the bank's code and the code of ISO 20022 of an entry, then those of its transactions."""
    for codes in entry.iter("BkTxCd"):
        yield from _texts(codes, "Prtry/Cd")
        if parts := [code for part in _DOMAIN_CODES for code in _texts(codes, f"Domn/{part}")]:
            yield "-".join(parts)


def _leaves(element: ET.Element, parent: str = "") -> Iterator[tuple[str, str]]:
    """Yield the name and text of each element without children, but for codes."""
    for child in element:
        name = parent if child.tag in _WRAPPERS else f"{parent} {child.tag}".strip()
        text = " ".join(filter(None, ((child.text or "").strip(), child.get("Ccy"))))
        if child.tag in _CODES:
            continue
        if text and len(child) == 0 and name != "BookgDt Dt":
            yield name, text
        yield from _leaves(child, name)


def _memo(entry: ET.Element) -> str | None:
    """Return the remittance texts of all transactions of a batch, or the text of the entry."""
    found = " ".join(_remittances(entry))
    return found or _text(entry, "AddtlNtryInf", ".//AddtlTxInf")


def _remittances(entry: ET.Element) -> list[str]:
    return [*_texts(entry, ".//RmtInf/Ustrd"), *_texts(entry, ".//RmtInf/Strd/CdtrRefInf/Ref")]


def _amount(element: ET.Element) -> Decimal | None:
    """Return the signed amount. A reversal has the direction in which its money moves."""
    sign = {"CRDT": 1, "DBIT": -1}.get(_text(element, "CdtDbtInd") or "")
    try:
        amount = Decimal(_text(element, "Amt") or "")
    except InvalidOperation:
        return None
    if sign is None or not amount.is_finite() or len(amount.as_tuple().digits) > amounts.MAX_DIGITS:
        return None
    return amount * sign


def _currency(element: ET.Element) -> str | None:
    found = element.find("Amt")
    return found.get("Ccy") if found is not None else None


def _date(element: ET.Element, name: str) -> date | None:
    try:
        return date.fromisoformat((_text(element, f"{name}/Dt", f"{name}/DtTm") or "")[:10])
    except ValueError:
        return None


def _text(element: ET.Element, *paths: str) -> str | None:
    return next((text for path in paths for text in _texts(element, path)), None)


def _texts(element: ET.Element, path: str) -> Iterator[str]:
    for found in element.findall(path):
        if found.text and found.text.strip():
            yield found.text.strip()


CAMT = once_across_formats(
    Importer(
        claim=claim_each(_is_message),
        read=read_each(_read_file),
    ),
    "c_",
)
