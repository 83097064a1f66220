"""Typed environment variables. Raises ImproperlyConfigured naming the variable.

An empty variable counts as not set.
"""

import contextlib
import ipaddress
import os
import re
from collections.abc import Collection, Iterator
from typing import Any
from urllib.parse import urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured

BOOLEANS = {"true": True, "yes": True, "on": True, "1": True} | {
    "false": False, "no": False, "off": False, "0": False
}  # fmt: skip
MAX_INTEGER = 2**31 - 1
ANY_NETWORK = "*"
HEADER_NAME = re.compile(r"[a-z][a-z0-9-]{2,63}")
STANDARD_HEADERS = {
    "accept", "accept-encoding", "accept-language", "authorization", "connection",
    "content-length", "content-type", "cookie", "expect", "forwarded", "host", "last-event-id",
    "origin", "range", "referer", "sec-fetch-site", "transfer-encoding", "upgrade",
    "user-agent", "x-csrftoken", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto",
    "x-real-ip",
}  # fmt: skip
SCHEMES = ("postgresql", "postgres", "pgsql", "psql")


class Environment:
    """Reads environment variables. Most methods raise ImproperlyConfigured for an invalid value."""

    def string(self, name: str, *, default: str = "") -> str:
        return os.environ.get(name) or default

    def string_list(self, name: str) -> list[str]:
        """Return the comma-separated items."""
        return [item.strip() for item in self.string(name).split(",") if item.strip()]

    def integer(
        self, name: str, *, default: int, min_value: int = 0, max_value: int = MAX_INTEGER
    ) -> int:
        value = self.string(name).strip()
        number = int(value) if value.isascii() and value.isdecimal() else -1
        if value and not min_value <= number <= max_value:
            bounds = f"{min_value} to {max_value}" if max_value < MAX_INTEGER else f"{min_value} up"
            raise _invalid(name, value, f"a whole number from {bounds}")
        return number if value else default

    def boolean(self, name: str, *, default: bool) -> bool:
        value = self.string(name).strip()
        if value and value.lower() not in BOOLEANS:
            raise _invalid(name, value, "true or false")
        return BOOLEANS[value.lower()] if value else default

    def choice(self, name: str, choices: Collection[str], *, default: str) -> str:
        """Return the choice that equals the value, ignoring case."""
        value = self.string(name, default=default).strip()
        choice = next((choice for choice in choices if choice.lower() == value.lower()), None)
        if choice is None:
            raise _invalid(name, value, f"one of {', '.join(choices)}")
        return choice

    def url(self, name: str, *, default: str) -> str:
        """Return an http or https URL in lower case up to its path, without a trailing slash."""
        value = self.string(name, default=default).strip().rstrip("/")
        try:
            parts = urlsplit(value)
            is_valid = (
                parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
            )
        except ValueError:
            is_valid = False
        if not is_valid:
            raise _invalid(name, value, "a URL such as https://records.example")
        return parts._replace(netloc=parts.netloc.lower()).geturl()

    def networks(self, name: str, *, default: list[str]) -> list[str]:
        """Return IP addresses and networks, or `*` for all."""
        values = self.string_list(name)
        for value in values:
            if value != ANY_NETWORK and not _is_network(value):
                raise _invalid(name, value, "addresses or networks such as 172.30.77.0/24")
        return values or default

    def header_name(self, name: str, *, peers: Collection[str]) -> str:
        """Return the name of a header that no client needs, in lower case, or an empty string.

        With a name, the peers that may send it must be listed.
        """
        value = self.string(name).strip().lower()
        if value and (not HEADER_NAME.fullmatch(value) or value in STANDARD_HEADERS):
            raise _invalid(name, value, "a header of your proxy, such as Remote-User")
        if value and (not peers or ANY_NETWORK in peers):
            raise ImproperlyConfigured(
                f"{name} needs PDPP_PROXY_USER_PEERS: the addresses of your proxy, such as 127.0.0.1."
                " Anyone at these addresses can sign in as you."
            )
        return value


def database_settings(url: str) -> dict[str, Any]:
    """Return Django's settings for the PostgreSQL database at `url`. Raises ImproperlyConfigured."""
    with _without_password("DATABASE_URL", "postgresql://pdpp:<password>@127.0.0.1/pdpp"):
        if urlsplit(url).scheme not in SCHEMES:
            raise ImproperlyConfigured
        database = dict(environ.Env.db_url_config(url))
        if not database["NAME"]:
            raise ImproperlyConfigured
    return database


@contextlib.contextmanager
def _without_password(name: str, example: str) -> Iterator[None]:
    """Replace the error, because the URL may contain a password."""
    try:
        yield
    except (ImproperlyConfigured, ValueError):
        raise ImproperlyConfigured(f"{name} takes a URL such as {example}.") from None


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        return False
    return True


def _invalid(name: str, value: str, requirement: str) -> ImproperlyConfigured:
    return ImproperlyConfigured(f"{name} takes {requirement}; got {value!r}.")
