"""Find the account of a CSV statement: in its rows, in the lines above, or in the file name."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from importers.bank import records
from importers.bank.amounts import currency_code
from importers.bank.csv_columns import OWN_ACCOUNT_NAMES, Bank, plain_name
from importers.bank.csv_table import CsvTable
from importers.core.export_files import ExportFile

_IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]){11,30}\b")
_NUMBER = re.compile(r"(?<![\d.,/-])[X*x•]*\d[\dX*x• /-]{2,22}\d(?![\d.,])")
_ACCOUNT_LABEL = re.compile(
    r"(?i)\b(konto|account|acct|compte|cuenta|conto|conta|rekening|rachun|karte|card|carte|tarjeta"
    r"|carta|kort|tili|ucet|számla|счет|счёт|карт)|口座|账号|계좌"
)
_NAME_COLUMNS = ("account", "konto", "compte", "cuenta", "conto", "card")
_UNCLEAR_NAMES = ("iban", "kontonummer", "account number")
_HAS_NUMBER = re.compile(r"\d{4}")
_BALANCE = re.compile(r"(?i)saldo|balance|stand\b|solde")
_DATES = re.compile(
    r"(?<!\d)(?:(?:19|20)\d\d[-_. ]?[01]\d(?:[-_. ]?[0-3]\d)?|[0-3]?\d[-_. ][01]?\d[-_. ](?:20)?\d\d"
    r"|[0-3]\d[01]\d20\d\d|(?:19|20)\d\d|[qQ][1-4])(?!\d)"
)
_GENERIC_WORDS = frozenset((
    "account", "accounts", "activity", "all", "auszug", "bank", "banking", "bewegungen",
    "booking", "bookings", "buchungen", "copy", "csv", "data", "de", "download", "downloads",
    "en", "es", "export", "exports", "extract", "extracto", "file", "fr", "from", "history",
    "import", "it", "konto", "kontoauszug", "kontoumsaetze", "kontoumsätze", "kopie", "list",
    "liste", "movements", "movimenti", "movimientos", "mutaties", "new", "nl", "operations",
    "operaciones", "opérations", "releve", "relevé", "report", "sheet", "statement", "statements",
    "table", "transaction", "transactions", "transakcje", "transaktionen", "to", "umsaetze",
    "umsatz", "umsätze", "umsatzanzeige", "umsatzliste", "umsatzuebersicht", "until", "upload",
    "von", "bis", "afschrift", "mouvements", "extrait", "transaktioner", "kontoutdrag", "estado",
    "cuenta", "comptes", "compte", "test", "untitled", "unbenannt", "x"
))  # fmt: skip


_ACCOUNT_WORDS = frozenset(("account", "konto", "compte", "cuenta", "conto", "rekening"))
_COPY_WORDS = frozenset(("copy", "kopie", "copia", "copie"))
_MONTH_NAMES = frozenset((
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december", "januar", "februar", "märz", "maerz", "mai", "juni",
    "juli", "oktober", "dezember", "janvier", "fevrier", "février", "mars", "avril", "juin",
    "juillet", "aout", "août", "septembre", "octobre", "novembre", "decembre", "décembre",
    "enero", "febrero", "marzo", "abril", "mayo", "junio", "julio", "agosto", "septiembre",
    "octubre", "noviembre", "diciembre", "gennaio", "febbraio", "aprile", "maggio", "giugno",
    "luglio", "settembre", "ottobre", "dicembre", "januari", "februari", "maart", "mei",
    "augustus", "jan", "feb", "mar", "apr", "jun", "jul", "aug", "sep", "sept", "oct", "okt",
    "nov", "dec", "dez", "mrz", "avr", "juil", "abr", "ago", "dic"
))  # fmt: skip


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
    return FoundAccount(
        records.account_id("number", digits), f"{prefix}…{digits[-4:]}", has_number=True
    )


def named_account(name: str) -> FoundAccount:
    """Return the account with the name that the owner, a bank or a file gives it."""
    return FoundAccount(records.account_id("name", " ".join(name.lower().split())), name)


def find_account(
    table: CsvTable, file: ExportFile, *, bank: Bank | None, layout: str
) -> FoundAccount:
    """Return the account of all rows of a file."""
    bank_name = bank.name if bank else None
    if number := number_above(table.preamble):
        return number_account(number, bank=bank_name)
    stem = file.path.stem
    if match := find_iban(stem.replace("_", " ")):
        return number_account(match, bank=bank_name)
    rest = _DATES.sub(" ", re.sub(r"\(\d+\)$", "", stem.strip()))
    words = [word for word in re.split(r"[\W_]+", rest) if word]
    numbers = [word for word in words if re.fullmatch(r"[xX*]*\d{6,}", word)]
    if numbers:
        return number_account(numbers[0], bank=bank_name)
    telling = [word for word in words if not _is_generic(word)]
    if not telling and _ACCOUNT_WORDS.intersection(map(str.lower, words)):
        telling = words if any(map(str.isdecimal, words)) else []  # such as konto 2
    if telling:
        return named_account(" ".join(telling))
    folder = "/".join(file.path.parts[:-1])
    # "export-2" and "export copy" are later downloads or copies, whose rows show it.
    same = [word for word in words if not word.isdecimal() and word.lower() not in _COPY_WORDS]
    key = records.account_id("file", layout, folder, " ".join(same).lower())
    return FoundAccount(key, folder or bank_name or "Account", is_certain=False)


def _is_generic(word: str) -> bool:
    return word.lower() in _GENERIC_WORDS | _MONTH_NAMES or word.isdecimal()


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
            if _is_iban(compact[:end]):
                return compact[:end]
    return None


def _is_iban(text: str) -> bool:
    moved = text[4:] + text[:4]
    return int("".join(str(int(char, 36)) for char in moved)) % 97 == 1


def own_account_column(table: CsvTable, index: int | None) -> int | None:
    """Return the column if its name says that its cells are the owner's account."""
    if index is None:
        return None
    name = plain_name(table.header[index])[0]
    cells = list(filter(None, table.column(index)))
    if not cells:
        return None
    if name in OWN_ACCOUNT_NAMES:
        return index
    if name in _NAME_COLUMNS and not any(map(_HAS_NUMBER.search, cells)):
        return index
    if len(cells) < len(table.rows):
        return None
    names = {plain_name(header)[0] for header in table.header}
    if "sort code" in names:
        return index
    is_repeated = len(set(cells)) * 3 <= len(cells)
    return index if name in (*_NAME_COLUMNS, "card number") and is_repeated else None


def unclear_account_column(table: CsvTable, columns: Mapping[str, int]) -> int | None:
    """Return the column of one account number, whose name does not say whose account it is.

    It may be that of the owner, or the only other side of a savings account.
    """
    index = columns.get("counterparty_account")
    if index is None or plain_name(table.header[index])[0] not in _UNCLEAR_NAMES:
        return None
    cells = list(table.column(index))
    return index if cells and cells[0] and len(set(cells)) == 1 else None


def currency_above(preamble: Iterable[list[str]]) -> str | None:
    """Return the only currency that the lines above the header name."""
    words = re.findall(r"[A-Z]{3}|€|£", " ; ".join(cell for row in preamble for cell in row))
    found = {code for word in words if (code := currency_code(word))}
    return found.pop() if len(found) == 1 else None
