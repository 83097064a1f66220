"""Make the record keys of OFX bookings."""

from importers.bank import amounts, earlier_keys
from importers.core.results import ContentKeys

_SHORT_ID = 4


class OfxKeys:
    """Makes the record keys of a file.

    The bank's id of a booking (FITID) is unique in an account. Some banks number the bookings of
    each statement, or use an id for two, so the amount counts too, and for short ids the day.
    """

    def __init__(self) -> None:
        self._content_keys = ContentKeys("f_")
        self._earlier_keys = ContentKeys("o_")
        self._days: dict[tuple[str, ...], str] = {}
        self._texts: dict[tuple[str, ...], tuple[str, ...]] = {}

    def start_statement(self) -> None:
        """Forget the texts: another statement can repeat a booking and its text differently."""
        self._texts.clear()

    def keys(self, account: str, elements: dict[str, str]) -> tuple[str, tuple[str, ...]]:
        """Return the key of a booking, and the key that the release before gave it."""
        earlier = earlier_keys.ofx_key(self._earlier_keys, account, elements)
        fitid, amount = elements.get("FITID", ""), elements.get("TRNAMT", "")
        day = elements.get("DTPOSTED", "")[:8]
        if not fitid.strip("0-") or fitid.upper() in ("NONE", "NULL", "NA"):
            names = ("NAME", "MEMO", "CHECKNUM", "REFNUM")
            found = (elements.get(name, "") for name in names)
            return self._content_keys.key(account, day, amount, *found), (earlier,)
        plain = (account, fitid, _plain_amount(amount), *([day] if len(fitid) <= _SHORT_ID else []))
        first_day = self._days.setdefault(plain, day)
        identity = plain if first_day == day else (*plain, day)
        # Of two with one id, day and amount in a statement, the texts show that they are two.
        texts = tuple(elements.get(name, "") for name in ("NAME", "MEMO"))
        if self._texts.setdefault(identity, texts) != texts:
            identity = (*identity, *texts)
        return ContentKeys("f_").key(*identity), (earlier,)


def _plain_amount(text: str) -> str:
    """Return an amount in one form: banks write -42, -42.0 and -42,00 for the same booking."""
    amount = amounts.parse_amount(text)
    return text if amount is None else f"{amount.normalize():f}"
