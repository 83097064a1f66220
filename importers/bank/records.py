"""Build account and transaction records, and find the account of a statement.

Its number names it, in the lines above a table, or in the file name.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import partial
from typing import Any

from importers.bank.amounts import currency_code
from importers.bank.profiles import words
from importers.core.export_files import ExportFile
from importers.core.results import ParsedRecord, record_key
from importers.core.text import one_line

DETAILS_MAX_CHARS = 20_000
_line = partial(one_line, max_chars=DETAILS_MAX_CHARS)
_IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]){11,30}\b")
_NUMBER = re.compile(r"(?<![\d.,/-])[X*x•]*\d[\dX*x• /-]{2,22}\d(?![\d.,])")
_ACCOUNT_LABEL = re.compile(
    r"(?i)\b(konto|account|acct|compte|cuenta|conto|conta|rekening|rachun|karte|card|carte|tarjeta"
    r"|carta|kort|tili|ucet|számla|счет|счёт|карт)|口座|账号|계좌"
)
_BALANCE = re.compile(r"(?i)saldo|balance|stand\b|solde")
_DATES = re.compile(
    r"(?<!\d)(?:(?:19|20)\d\d[01]\d[0-3]\d(?:[01]\d|2[0-3])[0-5]\d[0-5]\d"
    r"|(?:19|20)\d\d[-_. ]?[01]\d(?:[-_. ]?[0-3]\d)?|[0-3]?\d[-_. ][01]?\d[-_. ](?:20)?\d\d"
    r"|[0-3]\d[01]\d20\d\d|(?:19|20)\d\d|[qQ][1-4])(?!\d)(?:[-_ T](?:[01]\d|2[0-3])[0-5]\d(?:[0-5]\d)?(?!\d))?"
)
"""Dates, also with a time behind them."""
_DIGESTS = re.compile(
    r"(?i)(?<![a-z0-9])(?:[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|(?=\d*[a-f])[0-9a-f]{16,})(?![a-z0-9])"
)
"""Random names of downloads."""
_ACCOUNT_WORDS = frozenset(("account", "konto", "compte", "cuenta", "conto", "rekening"))
_COPY_WORDS = frozenset(("copy", "kopie", "copia", "copie"))


def account_id(*parts: str | None) -> str:
    """Return the record key of an account.

    The key hides the account number, which is a field that a grant can exclude.
    """
    return record_key("a_", "/".join(part or "" for part in parts), length=20)


def account_record(key: str, *, name: str, **fields: Any) -> ParsedRecord:
    data: dict[str, Any] = dict.fromkeys(("bank", "kind", "currency", "balance", "balance_on"))
    return ParsedRecord("accounts", {"id": key, "name": name, **data, **fields})


def transaction_record(
    key: str,
    *,
    account: str,
    on: date | None,
    amount: Decimal,
    details: Iterable[tuple[str, str]] = (),
    **fields: str | None,
) -> ParsedRecord:
    """``details`` are other texts of the booking, by what the statement calls them."""
    names = ("currency", "counterparty", "counterparty_account", "kind", "category", "reference",
             "check_number", "memo")  # fmt: skip
    texts = {name: _line(fields.get(name) or "") or None for name in names}
    lines = (": ".join(map(_line, pair)).removeprefix(": ") for pair in details)
    return ParsedRecord(
        "transactions",
        {
            "id": key,
            "account_id": account,
            "date": on.isoformat() if on else None,
            "amount": float(amount),
            **texts,
            "details": "\n".join(lines)[:DETAILS_MAX_CHARS] or None,
        },
    )


@dataclass(frozen=True, slots=True)
class FoundAccount:
    """An account with its record key. ``is_certain``: not only a name such as export.csv says so."""

    key: str
    name: str
    is_certain: bool = True
    has_number: bool = False


def number_account(number: str, *, bank: str | None = None) -> FoundAccount:
    """Return the account with this number; an IBAN names it in every format."""
    digits = re.sub(r"[^A-Z0-9*]", "", number.upper())
    prefix = f"{bank} " if bank else "Account "
    return FoundAccount(account_id("number", digits), f"{prefix}…{digits[-4:]}", has_number=True)


def named_account(name: str) -> FoundAccount:
    """Return the account with the name that the owner, a bank or a file gives it."""
    return FoundAccount(account_id("name", " ".join(name.lower().split())), name)


def find_account(
    lines_above: Iterable[list[str]], file: ExportFile, *, bank: str | None, layout: str
) -> FoundAccount:
    """Return the account of all rows of a table.

    ``layout`` tells tables apart whose file names say nothing.
    """
    if number := number_above(lines_above):
        return number_account(number, bank=bank)
    stem = file.path.stem
    if match := find_iban(stem.replace("_", " ")):
        return number_account(match, bank=bank)
    rest = _DATES.sub(" ", _DIGESTS.sub(" ", re.sub(r"\(\d+\)$", "", stem.strip())))
    parts = [word for word in re.split(r"[\W_]+", rest) if word]
    numbers = [word for word in parts if re.fullmatch(r"[xX*]*\d{6,}", word)]
    if numbers:
        return number_account(numbers[0], bank=bank)
    generic = words().file_names["generic"]
    telling = [each for each in parts if not (each.isdecimal() or each.lower() in generic)]
    if not telling and _ACCOUNT_WORDS.intersection(map(str.lower, parts)):
        telling = parts if any(map(str.isdecimal, parts)) else []  # such as konto 2
    if telling:
        return named_account(" ".join(telling))
    folder = "/".join(file.path.parts[:-1])
    # "export-2" and "export copy" are later downloads or copies, whose rows show it.
    same = [word for word in parts if not word.isdecimal() and word.lower() not in _COPY_WORDS]
    key = account_id("file", layout, folder, " ".join(same).lower())
    return FoundAccount(key, folder or bank or "Account", is_certain=False)


def number_above(preamble: Iterable[list[str]]) -> str | None:
    """Return the IBAN or account number in the lines above the header."""
    lines = [" ; ".join(filter(None, row)) for row in preamble]
    for line in lines:
        if iban := find_iban(line):
            return iban
    for line in lines:
        label = _ACCOUNT_LABEL.search(line)
        if (
            label
            and not _BALANCE.search(line)
            and (match := _NUMBER.search(_DATES.sub(" ", line[label.start() :])))
        ):
            return match[0]
    return None


def format_account(bank_code: str, number: str, currency: str | None = None) -> FoundAccount:
    """Return the account that a format names by bank code and number, one of which may be an IBAN.

    Where a country makes its IBAN of both, other formats have it. The currency tells the country.
    """
    number = re.sub(rf"(?<=\d) ?{currency or 'EUR'}$", "", number)  # some banks add the currency
    return number_account(
        find_iban(number) or _national_iban(bank_code, number, currency or "EUR") or number
    )


def _national_iban(bank_code: str, number: str, currency: str) -> str | None:
    digits = re.sub(r"[ .-]", "", number)
    if not digits.isdecimal():
        return None
    prefix, _, rest = number.rpartition("-")
    if currency in ("EUR", "DEM") and re.fullmatch(r"[1-8]\d{7}", bank_code) and len(digits) <= 10:
        return _with_check_digits("DE", bank_code + digits.zfill(10))
    if currency == "PLN" and len(digits) == 26:
        return _with_check_digits("PL", digits[2:])
    if currency == "HUF" and len(digits) in (16, 24):
        return _with_check_digits("HU", digits.ljust(24, "0"))
    if currency == "CZK" and re.fullmatch(r"\d{4}", bank_code) and len(rest) <= 10:
        return _with_check_digits("CZ", bank_code + prefix.zfill(6) + rest.zfill(10))
    return None


def _with_check_digits(country: str, bban: str) -> str:
    letters = "".join(str(int(char, 36)) for char in country)
    return f"{country}{98 - int(f'{bban}{letters}00') % 97:02}{bban}"


def find_iban(text: str) -> str | None:
    """Return the first IBAN with a valid check digit."""
    for match in _IBAN.finditer(text.upper()):
        compact = match[0].replace(" ", "")
        for end in range(len(compact), 14, -1):
            moved = compact[4:end] + compact[:4]
            if int("".join(str(int(char, 36)) for char in moved)) % 97 == 1:
                return compact[:end]
    return None


def amounts_above(preamble: Iterable[list[str]]) -> list[str]:
    """Return the lines above the header with an amount, such as the balance of the account."""
    lines = (" ".join(filter(None, row)) for row in preamble)
    return [line for line in lines if re.search(r"\d[.,]\d\d(?!\d)", _DATES.sub(" ", line))]


def currency_above(preamble: Iterable[list[str]]) -> str | None:
    """Return the only currency that the lines above the header name."""
    codes = re.findall(r"[A-Z]{3}|€|£", " ; ".join(cell for row in preamble for cell in row))
    found = {code for word in codes if (code := currency_code(word))}
    return found.pop() if len(found) == 1 else None
