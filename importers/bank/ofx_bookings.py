"""Read the amounts of OFX bookings with their signs, and make their record keys.

The bank's id of a booking (FITID) is unique in an account. Some banks number the bookings of each
statement, or use an id for two, so the amount counts too, and for short ids the day. Keys do not
depend on the order of the bookings, which differs between two exports.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from functools import partial
from typing import Any

from importers.bank import amounts
from importers.core.importer import ChoiceNeeded, Options
from importers.core.results import ContentKeys, ParsedItem, ReceiptCode

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


_SHORT_ID = 4
_CORRECTION = timedelta(days=7)
"""Banks correct the day of a booking by less; a booking further off is another one."""

Booking = Mapping[str, str]
Identity = tuple[str, ...]


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
        self._choose_days(statements)
        for account, bookings in statements:
            # Another statement can repeat a booking, and its text differently.
            found = [self._with_day(account, booking) for booking in bookings]
            texts: dict[Identity, Identity] = {}
            for identity, booking in zip(found, bookings, strict=True):
                texts[identity] = min(_texts(booking), texts.get(identity, _texts(booking)))
            contents = ContentKeys("f_")
            yield [
                _key(account, booking, identity, texts, contents)
                for identity, booking in zip(found, bookings, strict=True)
            ]

    def _choose_days(self, statements: Sequence[tuple[str, Sequence[Booking]]]) -> None:
        days: dict[Identity, set[date]] = defaultdict(set)
        for account, bookings in statements:
            for booking in bookings:
                identity, day = _identity(account, booking), _day(booking)
                if _date(day) is not None and _digest(*identity, day) not in self._stored:
                    days[identity].add(_date(day) or date.max)
        for identity, found in days.items():
            known = self._days.get(identity) or self._stored_day(identity)
            near = [day for day in found if known is None or abs(day - known) <= _CORRECTION]
            if near:
                self._days[identity] = min(near, key=lambda day: (day != known, day))

    def _stored_day(self, identity: Identity) -> date | None:
        _, day, *_ = self._stored.get(_digest(*identity), (None, None))
        return _date(str(day or "").replace("-", ""))

    def _with_day(self, account: str, booking: Booking) -> Identity:
        identity, day = _identity(account, booking), _day(booking)
        is_chosen = self._days.get(identity, _date(day)) == _date(day)
        is_stored = _digest(*identity, day) in self._stored
        return identity if is_chosen and not is_stored else (*identity, day)


def _key(
    account: str,
    booking: Booking,
    identity: Identity,
    first_texts: Mapping[Identity, Identity],
    contents: ContentKeys,
) -> str:
    if not _has_id(booking):
        names = ("NAME", "MEMO", "CHECKNUM", "REFNUM")
        found = (booking.get(name, "") for name in names)
        return contents.key(account, _day(booking), booking.get("TRNAMT", ""), *found)
    # Of two with one id, day and amount in a statement, the texts show that they are two.
    texts = _texts(booking)
    return _digest(*identity, *(texts if texts != first_texts[identity] else ()))


def _digest(*parts: str) -> str:
    return ContentKeys("f_").key(*parts)


def _identity(account: str, booking: Booking) -> Identity:
    fitid = booking.get("FITID", "")
    identity = (account, fitid, _plain_amount(booking.get("TRNAMT", "")))
    return (*identity, _day(booking)) if len(fitid) <= _SHORT_ID else identity


def _has_id(booking: Booking) -> bool:
    fitid = booking.get("FITID", "")
    return bool(fitid.strip("0-")) and fitid.upper() not in ("NONE", "NULL", "NA")


def _day(booking: Booking) -> str:
    return booking.get("DTPOSTED", "")[:8]


def _date(day: str) -> date | None:
    try:
        return date(int(day[:4]), int(day[4:6]), int(day[6:8]))
    except ValueError:
        return None


def _texts(booking: Booking) -> Identity:
    return tuple(booking.get(name, "") for name in ("NAME", "MEMO"))


def _plain_amount(text: str) -> str:
    """Return an amount in one form: banks write -42, -42.0 and -42,00 for the same booking."""
    amount = amounts.parse_amount(text)
    return text if amount is None else f"{amount.normalize():f}"
