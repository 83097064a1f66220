"""Detect how an OFX file writes its amounts, and read them with their signs."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import partial

from importers.bank import amounts
from importers.core.importer import ChoiceNeeded, Options
from importers.core.results import ParsedItem, ReceiptCode

_DEBIT_TYPES = frozenset(
    ["DEBIT", "FEE", "SRVCHG", "ATM", "POS", "CHECK", "PAYMENT", "CASH", "DIRECTDEBIT", "REPEATPMT"]
)
LAYOUT = "ofx"


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
    try:
        decimal = detect(chosen=None)
    except ChoiceNeeded:
        decimal = used["decimal"] = detect(chosen=options.decimal or remembered.get("decimal"))
    return OfxReading(decimal, signs, used)


def parse_amount(elements: dict[str, str], reading: OfxReading, item: ParsedItem) -> Decimal | None:
    """Return the amount, with a receipt if only the kind of the booking shows its sign."""
    text, kind = elements.get("TRNAMT", ""), elements.get("TRNTYPE", "").upper()
    # The format allows both separators, so one file may have them.
    decimal = reading.decimal if amounts.is_ambiguous(text) else None
    amount = amounts.parse_amount(text, decimal_separator=decimal)
    if not amount or reading.signs == "as-written" or kind not in _DEBIT_TYPES:
        return amount
    if reading.signs is not None:
        return -amount
    amount = amount if _sign(text) else -amount
    item.add_issue(ReceiptCode.UNSURE_SIGN, detail=f"{kind} {text[:40]}: {amount}")
    return amount


def _sign(text: str) -> str:
    written = amounts.parse_written(text)
    return written.sign if written else ""
