"""Compare the amounts of a table with its column of balances."""

import re
from collections.abc import Sequence
from decimal import Decimal

Row = tuple[Decimal | None, Decimal | None]
"""Amount and balance."""
BALANCE_TEXT = re.compile(
    r"(?:(?:alter|neuer|letzter|aktueller|anfangs|end|schluss|abschluss|er(?:ö|oe)ffnungs|opening|closing"
    r"|beginning|ending|starting|previous)[\s-]*)?(?:saldo|kontostand|balance|solde|saldovortrag)"
    r"(?:\s+(?:inicial|final|iniziale|finale|anterior|actual|précédent|brought forward|carried forward"
    r"|forward|b/f|c/f|(?:as of|am|per|au|al|vom|zum)\s.{1,20}))?\s*:?",
    re.IGNORECASE,
)
"""A row before the first or after the last booking; bookings of a shop read otherwise."""
_SHARE = 0.8


def balance_signs(rows: Sequence[Row]) -> list[int]:
    """Return for each row whether the balance rises (1) or falls (-1) by its amount, or 0.

    Newest or oldest rows can be first. All are 0 if most balances do not follow the amounts, or if
    both directions of time fit them.
    """
    forward, backward = (_signs(rows, step) for step in (-1, 1))
    counts = [sum(1 for sign in signs if sign) for signs in (forward, backward)]
    possible = sum(1 for amount, _ in rows if amount) - 1
    best = max(counts)
    if possible < 1 or best < possible * _SHARE or (counts[0] == counts[1] and forward != backward):
        return [0] * len(rows)
    return forward if counts[0] == best else backward


def _signs(rows: Sequence[Row], step: int) -> list[int]:
    signs = []
    for number, (amount, balance) in enumerate(rows):
        at = number + step
        before = rows[at][1] if 0 <= at < len(rows) else None
        change = None if balance is None or before is None else balance - before
        is_sign = bool(amount) and change is not None and amount is not None
        is_sign = is_sign and abs(change or 0) == abs(amount or 0)
        signs.append((1 if (change or 0) > 0 else -1) if is_sign else 0)
    return signs
