"""Import each booking once, also if files of several formats have it.

An account with a number is the same in all formats. Whether an account with another name is one that
the connection has, the owner decides if their bookings are equal.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import date, timedelta
from functools import partial
from typing import Any

from importers.core.importer import ChoiceNeeded, ExportFiles, Importer, Options
from importers.core.results import (
    ExportItem,
    ExportItems,
    ParsedItem,
    ParsedRecord,
    ReceiptCode,
    UnreadableError,
)

NEAR_DAYS = 3
"""Formats differ in which day they print: of the booking, or of its value."""
_ANSWERS = "accounts"
_TEXT_CHARS, _WORD_CHARS = 400, 8
"""Formats cut texts in different places."""
Booking = tuple[str | None, float]
"""Date and amount."""
Group = tuple[str, Booking]
"""Account, date and amount."""
MAX_PAIRS = 100_000


def once_across_formats(importer: Importer, prefix: str) -> Importer:
    """Return an importer that leaves out what files of other formats have brought.

    ``prefix`` is that of its own record keys.
    """
    return Importer(
        claim=importer.claim,
        prepare=partial(_prepare, importer, prefix),
        read=partial(_read, importer, prefix),
        sample=importer.sample,
    )


class _StoredBookings:
    """The accounts of the connection, and its bookings that files of other formats have brought."""

    def __init__(self, options: Options, prefix: str) -> None:
        accounts = options.stored.get("accounts", {})
        self.accounts = {key: str(name) for key, (name, _) in accounts.items()}
        self.balance_days = {key: str(on or "") for key, (_, on) in accounts.items()}
        self.own = set[str]()
        self.others: dict[str, Counter[Booking]] = defaultdict(Counter)
        self._texts: dict[Group, list[str]] = defaultdict(list)
        self._new: dict[Group, list[str]] = defaultdict(list)
        self._taken = Counter[Group]()
        self._matches: dict[Group, set[int]] = {}
        for key, values in options.stored.get("transactions", {}).items():
            account, on, amount, *texts = values
            if key.startswith(prefix):
                self.own.add(key)
            else:
                self.others[account][on, amount] += 1
                self._texts[account, (on, amount)].append(_text(*texts))

    def is_new(self, record: ParsedRecord) -> bool:
        """Return whether no file of this format has brought a booking."""
        return record.data["id"] not in self.own

    def knows_more(self, data: Mapping[str, Any], account: str) -> bool:
        """Return whether another format has brought a description of the account as new as this."""
        if account not in self.accounts:
            return False
        on, stored_on = data["balance_on"] or "", self.balance_days[account]
        return (
            account != data["id"] or on < stored_on or (on == stored_on and account in self.others)
        )

    def add(self, account: str, data: Mapping[str, Any]) -> None:
        """Note a booking of the files that no file of this format has brought."""
        self._new[account, _booking(data)].append(_text(data["counterparty"], data["memo"]))

    def take(self, account: str, data: Mapping[str, Any]) -> ReceiptCode | None:
        """Return the reason for a receipt of the next booking, in the order in which they were added."""
        group = account, _booking(data)
        self._taken[group] += 1
        if self._taken[group] in self._matched(group):
            return ReceiptCode.ALREADY_IMPORTED
        is_near = group in self._texts or self._has_near(account, group[1])
        return ReceiptCode.MAYBE_IMPORTED if is_near else None

    def _matched(self, group: Group) -> set[int]:
        """Return which of equal bookings are matched with stored ones, one to one, counted from 1.

        Texts that share no word show that a booking is another one. Of the others those with most
        words in common are matched, and then the last, since the owner may have erased the first.
        """
        if group not in self._matches:
            new, stored = self._new[group], self._texts.get(group, [])
            found = dict[int, int]()
            if len(new) * len(stored) > MAX_PAIRS:
                found = dict.fromkeys(range(len(new) - len(stored), len(new)), 0)
            else:
                words = [_words(text) for text in new], [_words(text) for text in stored]
                pairs = ((len(a & b), number, at) for number, a in enumerate(words[0])
                         for at, b in enumerate(words[1]) if a & b or not (a and b))  # fmt: skip
                for _, number, at in sorted(pairs, reverse=True):
                    if number not in found and at not in found.values():
                        found[number] = at
            self._matches[group] = {number + 1 for number in found}
        return self._matches[group]

    def _has_near(self, account: str, booking: Booking) -> bool:
        """Return whether another format has this amount a few days off, without an equal booking."""
        try:
            on = date.fromisoformat(booking[0] or "")
        except ValueError:
            return False
        days = (on + timedelta(days=step) for step in range(-NEAR_DAYS, NEAR_DAYS + 1) if step)
        near = ((account, (day.isoformat(), booking[1])) for day in days)
        return any(each in self._texts and each not in self._new for each in near)


def _text(*texts: str | None) -> str:
    return " ".join(filter(None, texts))[:_TEXT_CHARS]


def _words(text: str) -> set[str]:
    """Return the words of a booking, as far as two formats write them alike."""
    return {word[:_WORD_CHARS] for word in re.findall(r"[^\W_]{3,}", text.casefold())}


def _prepare(importer: Importer, prefix: str, files: ExportFiles, options: Options) -> Options:
    """Find which account of the connection each account of the files is. Raises ``ChoiceNeeded``."""
    stored = _StoredBookings(options, prefix)
    by_name = {_plain(name): key for key, name in stored.accounts.items()}
    target = by_name.get(_plain(options.account or ""))
    if target is not None:  # the files keep the account that they name, and it becomes this one
        options = replace(options, account=None)
    prepared = importer.prepare(files, options)
    is_asked = target is not None or options.account is not None
    if not stored.accounts or not (stored.others or is_asked):
        return prepared
    remembered: dict[str, str] = options.remembered.get(_ANSWERS) or {}
    answered: dict[str, str] = {}
    # Items that describe an account have no location.
    items = (item for item in importer.read(files, prepared) if not item.location)
    accounts = (each.data for each in _records(items) if each.stream == "accounts")
    names = {each["id"]: each["name"] for each in accounts}
    unknown = [each for each in names if each not in stored.accounts and each not in remembered]
    if is_asked:
        answered = {account: target or account for account in names}
    elif unknown:
        found = _bookings(importer, files, prepared)
        for account in unknown:
            _require_new(names[account], found[account], stored)
    if not answered:
        return prepared
    answers = {**prepared.answers, _ANSWERS: {**remembered, **answered}}
    return replace(prepared, answers=answers)


def _plain(name: str) -> str:
    return " ".join(name.lower().split())


def _bookings(
    importer: Importer, files: ExportFiles, options: Options
) -> dict[str, Counter[Booking]]:
    """Return the bookings of each account of the files."""
    found: dict[str, Counter[Booking]] = defaultdict(Counter)
    for record in _records(importer.read(files, options)):
        if record.stream == "transactions":
            found[record.data["account_id"]][_booking(record.data)] += 1
    return found


def _records(items: ExportItems) -> Iterator[ParsedRecord]:
    for item in items:
        with suppress(UnreadableError):
            yield from item.parse().records


def _booking(data: Mapping[str, Any]) -> Booking:
    return data["date"], data["amount"]


def _require_new(name: str, found: Counter[Booking], stored: _StoredBookings) -> None:
    """Ask whether an account is one of the connection that has half of its bookings or more."""
    for account, others in stored.others.items():
        equal = found & others
        days = sorted(on for on, _ in others if on)
        if not equal or not days:
            continue
        comparable = sum(n for (on, _), n in found.items() if on and days[0] <= on <= days[-1])
        if equal.total() * 2 >= comparable:
            other = stored.accounts.get(account, account)
            raise ChoiceNeeded(
                f"Is {name} the account {other}? A file of another format has brought"
                f" {equal.total():,} of its bookings.",
                evidence=[f"{on} {amount:.2f}" for on, amount in list(equal)[:3]],
                flag=f'--account "{other}" if it is, or --account with another name',
            )


def _read(importer: Importer, prefix: str, files: ExportFiles, options: Options) -> ExportItems:
    stored = _StoredBookings(options, prefix)
    accounts: dict[str, str] = {}
    for source in (options.remembered, options.answers):
        accounts |= source.get(_ANSWERS) or {}
    items = _newest_accounts(importer.read(files, options))
    if not accounts and not stored.accounts:
        yield from items
        return
    for record in _records(importer.read(files, options)) if stored.others else ():
        if record.stream == "transactions" and stored.is_new(record):
            account = record.data["account_id"]
            stored.add(accounts.get(account, account), record.data)
    for item in items:
        # Parsed here and not later, since a resumed run skips items but must count their bookings.
        try:
            parsed = _leave_out(item.parse(), accounts, stored)
        except UnreadableError:
            yield item
        else:
            yield ExportItem(item.file, item.location, item.size, partial(_same, parsed))


def _newest_accounts(items: ExportItems) -> ExportItems:
    """Yield the accounts last, each with its newest balance: an export can have several statements."""
    newest: dict[str, tuple[str, ExportItem]] = {}
    for item in items:
        parsed = item.parse() if not item.location else ParsedItem()
        accounts = [record.data for record in parsed.records if record.stream == "accounts"]
        for account in accounts:
            on = account["balance_on"] or ""
            if account["id"] not in newest or newest[account["id"]][0] <= on:
                newest[account["id"]] = (on, item)
        if not accounts:
            yield item
    yield from (item for _, item in newest.values())


def _same(parsed: ParsedItem) -> ParsedItem:
    return parsed


def _leave_out(
    parsed: ParsedItem, accounts: Mapping[str, str], stored: _StoredBookings
) -> ParsedItem:
    """Leave out the bookings of an item that another format has brought."""
    records: list[ParsedRecord] = []
    for record in parsed.records:
        data = record.data
        if record.stream == "accounts":
            if not stored.knows_more(data, accounts.get(data["id"], data["id"])):
                records.append(record)
            continue
        account = data["account_id"] = accounts.get(data["account_id"], data["account_id"])
        if stored.others and stored.is_new(record):
            if code := stored.take(account, data):
                parsed.add_issue(code, detail=f"{data['date']} {data['amount']:.2f}")
            if code is ReceiptCode.ALREADY_IMPORTED:
                continue
        records.append(record)
    parsed.records = records
    return parsed
