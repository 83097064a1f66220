"""Values of flags that several commands take."""

import argparse
from datetime import UTC, datetime
from urllib.parse import urlsplit

LONGEST_DAYS = 36_500


def day(text: str) -> datetime:
    """``2026-11-21`` as the start of that day in UTC."""
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a day such as 2026-11-21") from None


def count(text: str) -> int:
    """How many, from 1 on."""
    number = _whole(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return number


def server(text: str) -> str:
    """The address of one; what has no scheme is https."""
    try:
        parts = urlsplit(text if "://" in text else f"https://{text}")
        is_one = parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        is_one = False
    if not is_one:
        raise argparse.ArgumentTypeError(f"{text!r} is no address such as https://records.example")
    return text


def days(text: str) -> int:
    """A number of days from 1 on."""
    number = _whole(text)
    if not 1 <= number <= LONGEST_DAYS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days from 1 to 36500")
    return number


def _whole(text: str) -> int:
    """0 for what is no number, or a longer one than anybody means."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
