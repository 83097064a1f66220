"""Limit how much an account reads on a day (UTC), as some providers do."""

from collections.abc import Mapping
from datetime import datetime, time, timedelta
from typing import Any

from evidence.models.source_accounts import SourceAccount

SETTING = "daily_megabytes"


def is_reached(account: SourceAccount, *, now: datetime, more: int = 0) -> bool:
    """Return whether an account that reads ``more`` bytes must wait for the next day."""
    megabytes = account.settings.get(SETTING)
    return bool(megabytes) and _bytes_of(account, now) + more >= megabytes * 1_000_000


def added(account: SourceAccount, size: int, *, now: datetime) -> Mapping[str, Any]:
    """Return the traffic of the account with ``size`` more bytes."""
    return {"day": _day(now), "bytes": _bytes_of(account, now) + size}


def next_day(now: datetime) -> datetime:
    return datetime.combine(now.date() + timedelta(days=1), time(), tzinfo=now.tzinfo)


def _bytes_of(account: SourceAccount, now: datetime) -> int:
    return int(account.traffic["bytes"]) if account.traffic.get("day") == _day(now) else 0


def _day(now: datetime) -> str:
    return now.date().isoformat()
