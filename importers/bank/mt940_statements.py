"""Import SWIFT MT940 statements, with every field of a booking."""

import re
from collections.abc import Iterable, Iterator
from datetime import date
from decimal import Decimal
from functools import partial
from typing import Any

from importers.bank import amounts, records
from importers.bank.across_formats import once_across_formats
from importers.bank.records import FoundAccount, find_iban, format_account
from importers.core.export_files import ExportFile
from importers.core.importer import Importer, claim_each, read_each
from importers.core.results import (
    ContentKeys,
    ExportItem,
    ExportItems,
    ParsedItem,
    ReceiptCode,
    UnreadableError,
    issue_item,
)

FILE_MAX_BYTES = 16 * 1024 * 1024
FIELD_CHARS = 27
"""A field of :86: that is shorter ends with a word, and so does one before a mark such as SVWZ+."""
_SUFFIXES = (".sta", ".mt940", ".940", ".swi", ".mt9", ".mta")
_STATEMENT = re.compile(r"^(?:\{4:\s*)?:20:", re.MULTILINE)
_CONTROL = re.compile(r"[\0-\x08\x0e-\x1f]")
_FIELD = re.compile(r"^:(61|6[25][FM]?|64|86|NS|90[CD]) ?:", re.MULTILINE)
"""The bookings and what follows them; a text may have lines such as :08 Karten."""
_HEADER = re.compile(r"^(?:\{4:\s*)?:(?:13D?|2[015]P?|28C?|34F|60[FM]?):.*", re.MULTILINE)
_END = re.compile(r"^ ?-(?:[^\w\s]|å|XXX)?(?:\s*$|\W?\{)", re.MULTILINE)
"""The line -} or -, also with the brace as a letter of an old charset."""
_FOREIGN = re.compile(r"^(?![:{]|-\}?\s*$).*[;,\t|<!^].*$", re.MULTILINE)
"""A line outside of a statement that has the signs of another format."""
_SUMS = re.compile(r"/SUM/|D\d{6}C\d{6}")
_ACCOUNT = re.compile(r"^:25P?:(.*)$", re.MULTILINE)
_BALANCE = re.compile(r"^:62F:([CD])(\d{6})([A-Z]{3})([\d,.]+)", re.MULTILINE)
_OPENING = re.compile(r"^:60[FM]:[CD]\d{6}([A-Z]{3})", re.MULTILINE)
_ENTRY = re.compile(
    r"(?P<value>\d{6})(?P<entry>\d{4}| {4})?(?P<mark>[RE]?[CD])[A-Z]?\s?(?P<amount>[\d,.]*)"
    r"(?P<type>[A-Z][A-Z0-9 ]{3})?(?P<reference>[^\n]*)(?P<details>.*)",
    re.DOTALL,
)
_TAG = re.compile(r"^:(86|NS) ?:", re.MULTILINE)
_FIELDS = re.compile(r"(\d{3}|\d{4}(?=[<?]))([^\w\s.,-])(?=\d\d)")
"""The code of a booking and the sign before each of its fields, as German and Polish banks do."""
_PURPOSE = (*range(20, 30), *range(60, 64))
_PURPOSE_MARK = re.compile(r"[A-Z]{4}\+")
_DUTCH = re.compile(r"/(NAME|IBAN)/([^/]*)|/(CNTP)/([^/]*)/[^/]*/([^/]*)")
_DUTCH_IBAN = re.compile(r"([A-Z]{2}\d{2}[A-Z]{4}\d{10})(.*)")
"""The first line of ASN, which has the account and the name."""
_SIGNS = {"C": 1, "RD": 1, "D": -1, "RC": -1}
"""A reversal of a debit (RD) arrives."""
_CHARSETS = ("cp1252", "cp1250", "cp850")
_CENTRAL_CHARSETS = ("cp1250", "iso8859-2", "cp852")
_CENTRAL_CURRENCY = re.compile(rb"^:60[FM]:[CD]\d{6}(?:PLN|CZK|HUF|RON)", re.MULTILINE)
_SIGN_IN_WORD = re.compile(r"[^\W\d_][ˇ¦¬±¶]|[ˇ¦¬±¶][^\W\d_]|[^\W\d_]ª[^\W\d_]")
"""A sign in a word, as the other charsets show letters of ISO-8859-2."""


def _is_statement(file: ExportFile) -> bool:
    if file.suffix not in (".txt", ""):
        return file.suffix in _SUFFIXES
    head = file.head.decode("latin-1")
    return bool(_STATEMENT.search(head) and _ACCOUNT.search(head) and _OPENING.search(head))


def _decode(content: bytes) -> str:
    """Decode text in UTF-8, or in the charset of Western or Central Europe that shows most letters."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        is_central = _CENTRAL_CURRENCY.search(content)
        charsets = _CENTRAL_CHARSETS if is_central else _CHARSETS
        texts = [content.decode(charset, "replace") for charset in charsets]
        best = max(texts, key=_letters)
        latin2 = content.decode("iso8859-2")
        fits_better = _SIGN_IN_WORD.search(best) and not _SIGN_IN_WORD.search(latin2)
        return latin2 if fits_better else best


def _letters(text: str) -> int:
    """Return the number of letters, less the words of mixed case, as a wrong charset shows them."""
    words = re.findall(r"[^\W\d_]+", text)
    mixed = (not (word.isascii() or word.isupper() or word[1:].islower()) for word in words)
    return sum(map(str.isalpha, text)) - sum(mixed) - text.count("\ufffd")


def _read_file(file: ExportFile) -> ExportItems:
    text = _decode(file.read(max_bytes=FILE_MAX_BYTES)).replace("\r\n", "\n").replace("\r", "\n")
    text = _CONTROL.sub("", text)
    starts = [match.start() for match in _STATEMENT.finditer(text)]
    if not starts:
        raise UnreadableError(ReceiptCode.MALFORMED)
    keys = ContentKeys("m_")
    yield from _foreign_text(file.name, text[: starts[0]], 1)
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        line = text.count("\n", 0, start) + 1
        size = file.size * (end - start) // len(text)
        yield from _statement(file.name, text[start:end], (line, size), keys)


def _statement(name: str, text: str, place: tuple[int, int], keys: ContentKeys) -> ExportItems:
    """Yield the account and the bookings of a statement; ``place`` is its first line and size."""
    line, size = place
    number, opening = _ACCOUNT.search(text), _OPENING.search(text)
    if number is None:
        yield issue_item(
            name, f"line {line:,}", ReceiptCode.NO_IDENTITY, "no account (:25:)", size=size
        )
        return
    currency = opening[1] if opening else None
    # Some banks write the currency as a part of its own.
    written = number[1].strip().removesuffix(f"/{currency}").replace('"', "")
    bank, _, rest = written.rpartition("/")
    account = format_account(bank, rest.strip(), currency)
    yield ExportItem(name, "", size, partial(ParsedItem, [_account_record(account, text, bank)]))
    starts = [match.start() for match in _FIELD.finditer(text)]
    end = _END.search(text, starts[-1] if starts else 0)
    header, *fields = _FIELD.split(text[: end.start()] if end else text)
    texts, bookings = [(line, header)], list[tuple[int, str]]()
    line, is_booking = line + header.count("\n"), False
    for tag, content in zip(fields[::2], fields[1::2], strict=True):
        is_text = tag in ("86", "NS")
        if is_text and is_booking:
            bookings[-1] = (bookings[-1][0], f"{bookings[-1][1]}:{tag}:{content}")
        elif is_text:
            texts.append((line, content))
        elif is_booking := tag == "61":
            bookings.append((line, content))
        else:
            texts.append((line, "\n" + content.partition("\n")[2]))
        line += content.count("\n")
    for position, booking in bookings:
        key = keys.key(account.key, *_identity(f":61:{booking}"))
        parse = partial(_transaction, booking, key, account=account.key, currency=currency)
        yield ExportItem(name, f"line {position:,}", 0, parse)
    yield from _other_texts(name, texts)
    yield from _foreign_text(name, text[end.start() :] if end else "", line)


def _other_texts(name: str, texts: Iterable[tuple[int, str]]) -> ExportItems:
    """Yield a receipt for the texts that belong to no booking, but for the sums of the bookings."""
    found = [(line, _HEADER.sub("", text)) for line, text in texts if not _SUMS.match(text)]
    found = [each for each in found if each[1].strip()]
    if found:
        line, text = found[0]
        line += text[: -len(text.lstrip())].count("\n")
        quoted = " | ".join(" ".join(text.split()) for _, text in found)[:200]
        detail = f"text of the statement: {quoted}"
        yield issue_item(name, f"line {line:,}", ReceiptCode.PARTLY_IMPORTED, detail)


def _foreign_text(name: str, text: str, line: int) -> ExportItems:
    """Yield a receipt for text that is in no statement."""
    found = _FOREIGN.search(text)
    if found:
        yield issue_item(
            name, f"line {line:,}", ReceiptCode.MALFORMED, f"beside the statement: {found[0][:40]}"
        )


def _identity(booking: str) -> Iterator[str]:
    """Yield what stays the same when the bank writes the booking again: not the layout of lines."""
    yield from (" ".join(part.split()) for part in booking.split(":86:"))


def _account_record(account: FoundAccount, text: str, bank: str) -> Any:
    opening, closing = _OPENING.search(text), _BALANCE.search(text)
    fields: dict[str, Any] = {"currency": opening[1] if opening else None, "bank": bank or None}
    if closing and (amount := _parse_amount(closing[4])) is not None:
        fields["balance"] = float(-amount if closing[1] == "D" else amount)
        day = _day(closing[2])
        fields["balance_on"] = day.isoformat() if day else None
    return records.account_record(account.key, name=account.name, **fields)


def _transaction(booking: str, key: str, *, account: str, currency: str | None) -> ParsedItem:
    head, *tags = _TAG.split(booking)
    entry = _ENTRY.match(head.strip())
    if entry is None:
        raise UnreadableError(
            ReceiptCode.MALFORMED, detail=f":61:{head.partition(chr(10))[0]}"[:40]
        )
    on = _entry_day(entry)
    if on is None:
        raise UnreadableError(ReceiptCode.MALFORMED, detail=f":61:{entry['value']}{entry['entry']}")
    amount = _signed_amount(entry, currency)
    own, _, bank_reference = entry["reference"].partition("//")
    found: dict[str, str] = {}
    for name, text in zip(tags[::2], tags[1::2], strict=True):
        found[name] = found.get(name, "") + text  # some banks repeat :86: for each line
    fields, details = _texts(found)
    others = {
        "Reference": own.strip(),
        "Details": " ".join(entry["details"].split()),
        "Type": entry["type"],
        "Value date": _value_date(entry, on),
    }
    if not bank_reference.strip():
        bank_reference = others.pop("Reference")
    details += [(name, text) for name, text in others.items() if text]
    record = records.transaction_record(
        key,
        account=account,
        on=on,
        amount=amount,
        currency=currency,
        reference=bank_reference.strip(),
        details=details,
        **fields,
    )
    return ParsedItem([record])


def _day(digits: str) -> date | None:
    """Return the date of six digits; years from 80 on are of the 20th century."""
    year, month, day = (int(digits[start : start + 2]) for start in (0, 2, 4))
    try:
        return date(year + (1900 if year >= 80 else 2000), month, day)
    except ValueError:
        return None


def _entry_day(entry: re.Match[str]) -> date | None:
    """Return the day of the booking, whose year is that nearest to the day of the value.

    Banks that count 30 days a month write 30 February for the last day of that month.
    """
    value = entry["value"]
    if value[2:4] == "02" and value[4:] in ("29", "30"):
        value = value if _day(value) else f"{value[:4]}{29 if _day(f'{value[:4]}29') else 28}"
    day = _day(value)
    if day is None or not (entry["entry"] or "").strip():
        return day
    found = (_day(f"{(day.year + step) % 100:02}{entry['entry']}") for step in (-1, 0, 1))
    return min(filter(None, found), key=lambda each: abs(each - day), default=None)


def _value_date(entry: re.Match[str], on: date) -> str | None:
    """Return the day of the value, unless it is that of the booking."""
    day = _day(entry["value"])
    return None if day == on else day.isoformat() if day else entry["value"]


def _signed_amount(entry: re.Match[str], currency: str | None) -> Decimal:
    """Return the amount. Raises ``UnreadableError``."""
    if (sign := _SIGNS.get(entry["mark"])) is None:
        raise UnreadableError(ReceiptCode.NOT_BOOKED, detail=f"expected ({entry['mark']})")
    written = entry["amount"].rstrip(",")
    amount = _parse_amount(written)
    if amount is None or not amounts.fits_currency(amount, currency):
        raise UnreadableError(ReceiptCode.BAD_AMOUNT, detail=written[:40] or "no amount")
    return amount * sign


def _parse_amount(written: str) -> Decimal | None:
    """Return the amount, which a few banks write with a point in place of the comma."""
    return amounts.parse_amount(written, decimal_separator="," if "," in written else ".")


def _texts(tags: dict[str, str]) -> tuple[dict[str, str | None], list[tuple[str, str]]]:
    """Return the fields of :86: that a booking has, and all other texts with their names."""
    text = tags.get("86", "").strip()
    details = [(f"NS {line[:2]}", line[2:]) if line[:2].isdecimal() else ("NS", line)
               for line in tags.get("NS", "").splitlines() if line.strip()]  # fmt: skip
    if (start := _FIELDS.match(text)) is None:
        return _free_text(text), details
    separator = re.escape(start[2]) + r"(?=\d\d)"  # a text may have the sign, too
    parts = re.split(separator, text[start.end() - 1 :].replace("\n", ""))[1:]
    numbered = [(int(part[:2]), part[2:]) for part in parts]
    found = dict(numbered)
    used = (0, 31, 32, 33, *_PURPOSE)
    details += [
        (f"?{number}", part) for number, part in numbered if number not in used and part.strip()
    ]
    details.append(("Code", start[1]))
    fields: dict[str, str | None] = {
        "kind": found.get(0),
        "counterparty": _join(part for n, part in numbered if n in (32, 33)),
        "counterparty_account": found.get(31),
        "memo": _join(part for n, part in numbered if n in _PURPOSE),
    }
    return fields, details


def _join(parts: Iterable[str]) -> str:
    """Return the text of fields that cut it after FIELD_CHARS, also within a word."""
    text = ""
    for part in parts:
        text += f" {part}" if _PURPOSE_MARK.match(part) else part
        text += " " if len(part) < FIELD_CHARS else ""
    return text


def _free_text(text: str) -> dict[str, str | None]:
    """Return the account and name of the other side from text with the marks of Dutch banks."""
    parts = {match[1] or match[3]: match for match in _DUTCH.finditer(text.replace("\n", ""))}
    name = account = ""
    if found := parts.get("CNTP"):
        account, name = found[4], found[5]
    if found := parts.get("NAME"):
        name = found[2]
    if found := parts.get("IBAN"):
        account = found[2]
    if not parts and (asn := _DUTCH_IBAN.match(text)):
        account, name = asn[1], asn[2]
    if number := find_iban(name):
        account, name = number, name.removeprefix(number)
    return {"counterparty": name.strip(), "counterparty_account": account, "memo": text}


MT940 = once_across_formats(
    Importer(claim=claim_each(_is_statement), read=read_each(_read_file)),
    "m_",
)
