"""Argument types for management commands: days, counts and server URLs."""

import argparse
from datetime import UTC, datetime
from urllib.parse import urlsplit

MAX_DAYS = 36_500


def day(text: str) -> datetime:
    """Parse a date such as 2026-11-21 as the start of that day in UTC."""
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a date such as 2026-11-21") from None


def count(text: str) -> int:
    """Parse a positive integer."""
    number = _parse_integer(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive integer")
    return number


def server_url(text: str) -> str:
    """Return a server URL; the default scheme is https."""
    try:
        parts = urlsplit(text if "://" in text else f"https://{text}")
        is_valid = parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        is_valid = False
    if not is_valid:
        raise argparse.ArgumentTypeError(f"{text!r} is not a URL such as https://records.example")
    return text


def days(text: str) -> int:
    """Parse a number of days from 1 to MAX_DAYS."""
    number = _parse_integer(text)
    if not 1 <= number <= MAX_DAYS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days from 1 to 36500")
    return number


def _parse_integer(text: str) -> int:
    """Return 0 for text that is not an integer of at most 9 digits."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
