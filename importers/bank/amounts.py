"""Parse written amounts exactly, detect the decimal separator of a file, and compare its balances."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from typing import NamedTuple

from importers.core.importer import DECIMALS, ChoiceNeeded

MAX_DIGITS = 15
"""A JSON number keeps this many digits exactly."""
_CODES = {
    0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF",
    2: "AED ALL AMD ARS AUD BAM BDT BGN BOB BRL CAD CHF CNY COP CRC CZK DKK DOP EGP EUR GBP GEL GHS"
    " GTQ HKD HRK HUF IDR ILS INR KES KZT LKR MAD MDL MKD MXN MYR NGN NOK NZD PEN PHP PKR PLN QAR"
    " RON RSD RUB SAR SEK SGD THB TRY TWD UAH USD UYU ZAR",
    3: "BHD IQD JOD KWD LYD OMR TND",
}
EXPONENTS = {code: exponent for exponent, codes in _CODES.items() for code in codes.split()}
"""Digits after the decimal separator, by ISO 4217 code."""
_SYMBOLS = {
    "€": "EUR", "£": "GBP", "₹": "INR", "₽": "RUB", "₴": "UAH", "₺": "TRY", "₩": "KRW", "₪": "ILS",
    "฿": "THB", "₫": "VND", "₱": "PHP", "ZŁ": "PLN", "KČ": "CZK", "FT": "HUF", "R$": "BRL",
    "US$": "USD", "A$": "AUD", "AU$": "AUD", "C$": "CAD", "CA$": "CAD", "HK$": "HKD", "NZ$": "NZD",
    "S$": "SGD", "LEI": "RON", "SFR": "CHF", "CN¥": "CNY", "JP¥": "JPY", "円": "JPY", "EURO": "EUR",
    "EUROS": "EUR", "EUROA": "EUR",
}  # fmt: skip
_UNCLEAR_SYMBOLS = frozenset(("$", "¥", "KR", "RS", "FR", "\u0420", "РУБ", "元", "TL"))
"""Symbols of several currencies, or of one that the header says better."""
_DEBIT_MARKS = frozenset(("DR", "D", "S", "SOLL", "DB"))
_CREDIT_MARKS = frozenset(("CR", "C", "H", "HABEN", "K"))
_MINUS_SIGNS = str.maketrans(dict.fromkeys("\u2212\u2012\u2013\u2014\u2010\u2011\ufe63\uff0d", "-"))
_THOUSANDS = re.compile(r"(?<=\d)[ '\u2019\u2018`\u00b4_](?=\d{3}(?!\d))")
_ROUND = re.compile(r"(?<=\d)[,.]--?(?=\D*$)")
_PLAIN = re.compile(r"([-+]?)([0-9][0-9.,]*)")
"""Most amounts; each is looked at many times."""
_DIGITS = re.compile(r"[.,]?\d[\d.,]*")


class WrittenAmount(NamedTuple):
    """The parts of an amount: a ``sign`` of "-", "+" or "", digits with separators, a currency."""

    sign: str
    digits: str
    currency: str | None = None


def parse_written(text: str) -> WrittenAmount | None:
    """Split a text into sign, digits and currency. Returns None for anything else."""
    if plain := _PLAIN.fullmatch(text[:100]):
        return WrittenAmount(plain[1], plain[2].rstrip(".,"))
    cleaned = unicodedata.normalize("NFKC", text[:100].translate(_MINUS_SIGNS)).strip()
    cleaned = cleaned.replace("\u066b", ".").replace("\u066c", "'")
    cleaned = "".join(str(unicodedata.decimal(c)) if c.isdecimal() else c for c in cleaned)
    cleaned = _ROUND.sub("", _THOUSANDS.sub("", cleaned))
    found = _DIGITS.findall(cleaned)
    if len(found) != 1 or cleaned.count("(") != cleaned.count(")"):
        return None
    rest = _DIGITS.sub(" ", cleaned)
    signs = [char for char in rest if char in "+-"] + ["-"] * rest.count("(")
    currency = None
    for word in re.sub(r"[-+()]", " ", rest).upper().split():
        bare = word.strip(".*:")
        if bare in _DEBIT_MARKS | _CREDIT_MARKS:
            signs.append("-" if bare in _DEBIT_MARKS else "+")
        elif known := currency_code(bare):
            currency = known
        elif bare and bare not in _UNCLEAR_SYMBOLS and not re.fullmatch("[A-Z]{3}", bare):
            return None
    if len(set(signs)) > 1 or len(signs) > 2:
        return None
    return WrittenAmount(signs[0] if signs else "", found[0].rstrip(".,"), currency)


def currency_code(text: str) -> str | None:
    """Return the ISO code that a code or symbol stands for, or None."""
    word = text.strip().strip(".").upper()
    return word if word in EXPONENTS else _SYMBOLS.get(word)


def parse_amount(text: str, *, decimal_separator: str | None = None) -> Decimal | None:
    """Return an amount exactly, or None if the text is none.

    A negative amount has a minus sign before or after it, a debit mark, or parentheses. Separators
    must be where they belong: with a decimal point, "1.250,00" is no amount. Without a given
    separator, the last of two separators is the decimal one.
    """
    written = parse_written(text)
    if written is None:
        return None
    separator = decimal_separator or _separator(written.digits)
    if separator == "?":  # 1,234 without a neighbor to compare
        separator = "."
    value = _to_decimal(written.digits, separator or ".")
    return -value if value is not None and written.sign == "-" else value


def is_ambiguous(text: str) -> bool:
    """Return whether the amount is like 1,234, of which only its neighbors show the meaning."""
    written = parse_written(text)
    return written is not None and _separator(written.digits) == "?"


def _to_decimal(digits: str, separator: str) -> Decimal | None:
    point, group = re.escape(separator), re.escape("," if separator == "." else ".")
    pattern = rf"(\d+|\d{{1,3}}(?:{group}\d{{2,3}})*{group}\d{{3}})?(?:{point}(\d*))?"
    match = re.fullmatch(pattern, digits)
    if match is None:
        return None
    whole, fraction = re.sub(r"\D", "", match[1] or "0"), match[2] or ""
    if len(whole.lstrip("0") + fraction) > MAX_DIGITS:
        return None
    return Decimal(f"{whole}.{fraction or '0'}")


def fits_currency(amount: Decimal, currency: str | None) -> bool:
    """Return whether the amount is a whole number of minor units, such as cents."""
    exponent = EXPONENTS.get(currency or "")
    return exponent is None or amount == round(amount, exponent)


def readings_by_separator(texts: Iterable[str]) -> dict[str, str]:
    """Return what an amount is with each decimal separator, preferably one that has two readings."""
    written = [
        text.strip()[:40]
        for text in texts
        if (each := parse_written(text)) and _separator(each.digits)
    ]
    example = next(filter(is_ambiguous, written), written[0] if written else None)
    if example is None:
        return {}
    readings = {}
    for name, mark in DECIMALS.items():
        amount = parse_amount(example, decimal_separator=mark)
        digits = 0 if amount is None else max(2, -int(amount.normalize().as_tuple().exponent))
        readings[name] = f"{example} → {'no amount' if amount is None else f'{amount:.{digits}f}'}"
    return readings


def _separator(digits: str) -> str:
    """Return the decimal separator, "" if nothing shows it, or "?" for 1,234 and 1.234."""
    comma, point = digits.count(","), digits.count(".")
    if comma and point:
        return "," if digits.rfind(",") > digits.rfind(".") else "."
    if not comma and not point:
        return ""
    mark = "," if comma else "."
    if digits.count(mark) > 1:
        return "." if comma else ","
    before, _, after = digits.partition(mark)
    return "?" if len(after) == 3 and 1 <= len(before) <= 3 and before != "0" else mark


def detect_decimal_separator(
    texts: Iterable[str], *, chosen: str | None, currency: str | None
) -> str:
    """Return the decimal separator that fits the amounts of a file.

    One amount in twenty may contradict the others, since a single one is a typing error. Raises
    ``ChoiceNeeded`` with example amounts when both fit.
    """
    votes, examples = Counter[str](), dict[str, str]()
    for text in texts:
        if written := parse_written(text):
            vote = _separator(written.digits)
            votes[vote] += 1
            examples.setdefault(vote, text)
    comma, point = votes[","], votes["."]
    if min(comma, point) <= max(1, (comma + point) // 20) and comma != point:
        return "," if comma > point else "."
    if not comma and not point:
        if not votes["?"]:
            return "."
        exponent = EXPONENTS.get(currency or "", 2)
        mark = "," if "," in examples["?"] else "."
        if exponent != 2:
            return mark if exponent else {",": ".", ".": ","}[mark]
    if chosen:
        return chosen
    raise ChoiceNeeded(
        "Which mark stands before the cents: a comma or a point?",
        evidence=[f"{text.strip()[:40]}" for mark, text in examples.items() if mark],
        flag="--decimal comma or --decimal point",
    )


BALANCE_TEXT = re.compile(
    r"(?:(?:alter|neuer|letzter|aktueller|anfangs|end|schluss|abschluss|er(?:ö|oe)ffnungs|opening|closing"
    r"|beginning|ending|starting|previous)[\s-]*)?(?:saldo|kontostand|balance|solde|saldovortrag)"
    r"(?:\s+(?:inicial|final|iniziale|finale|anterior|actual|précédent|brought forward|carried forward"
    r"|forward|b/f|c/f|(?:as of|am|per|au|al|vom|zum)\s.{1,20}))?\s*:?",
    re.IGNORECASE,
)
"""A row before the first or after the last booking; bookings of a shop read otherwise."""
