"""The environment, taken at its word: what cannot be meant is refused by name, and never taken for
something else. A variable that is empty is one that is not set."""

import contextlib
import ipaddress
import os
from collections.abc import Collection, Iterator
from typing import Any
from urllib.parse import urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured

SWITCHES = {"true": True, "yes": True, "on": True, "1": True} | {
    "false": False, "no": False, "off": False, "0": False
}  # fmt: skip
MOST = 2**31 - 1
EVERYBODY = "*"
SCHEMES = ("postgresql", "postgres", "pgsql", "psql")


class Environment:
    """What is read of the environment; most readers raise ``ImproperlyConfigured``."""

    def text(self, name: str, *, default: str = "") -> str:
        return os.environ.get(name) or default

    def names(self, name: str) -> list[str]:
        """What is separated by commas."""
        return [each.strip() for each in self.text(name).split(",") if each.strip()]

    def whole(self, name: str, *, default: int, least: int = 0, most: int = MOST) -> int:
        said = self.text(name).strip()
        number = int(said) if said.isascii() and said.isdecimal() else -1
        if said and not least <= number <= most:
            bounds = f"from {least} on" if most == MOST else f"from {least} to {most}"
            raise _unmeant(name, said, f"a whole number {bounds}")
        return number if said else default

    def switch(self, name: str, *, default: bool) -> bool:
        said = self.text(name).strip()
        if said and said.lower() not in SWITCHES:
            raise _unmeant(name, said, "true or false")
        return SWITCHES[said.lower()] if said else default

    def one_of(self, name: str, of: Collection[str], *, default: str) -> str:
        """However it is written, large or small."""
        said = self.text(name, default=default).strip()
        found = next((each for each in of if each.lower() == said.lower()), None)
        if found is None:
            raise _unmeant(name, said, f"one of {', '.join(of)}")
        return found

    def address(self, name: str, *, default: str) -> str:
        """Of a server, without a slash at the end."""
        said = self.text(name, default=default).strip().rstrip("/")
        try:
            parts = urlsplit(said)
            is_one = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_one = False
        if not is_one:
            raise _unmeant(name, said, "an address such as https://records.example")
        return said

    def networks(self, name: str, *, default: list[str]) -> list[str]:
        """Addresses and networks, or ``*`` for all of them."""
        said = self.names(name)
        for each in said:
            if each != EVERYBODY and not _is_network(each):
                raise _unmeant(name, each, "addresses or networks such as 172.30.77.0/24")
        return said or default


def database(url: str) -> dict[str, Any]:
    """Django's settings for the PostgreSQL at ``url``. Raises ``ImproperlyConfigured``."""
    with _not_repeating("DATABASE_URL", "postgresql://pdpp:<password>@127.0.0.1/pdpp"):
        if urlsplit(url).scheme not in SCHEMES:
            raise ImproperlyConfigured
        found = dict(environ.Env.db_url_config(url))
        if not found["NAME"]:
            raise ImproperlyConfigured
    return found


def mail_server(url: str) -> dict[str, Any]:
    """Django's settings for sending mail by ``url``; into nothing where it is empty. Raises
    ``ImproperlyConfigured``."""
    with _not_repeating("PDPP_MAIL_URL", "smtp+tls://user:<password>@mail.example:587"):
        return dict(environ.Env.email_url_config(url or "dummymail://"))


@contextlib.contextmanager
def _not_repeating(name: str, example: str) -> Iterator[None]:
    """What was said may have a password in it."""
    try:
        yield
    except (ImproperlyConfigured, ValueError):
        raise ImproperlyConfigured(f"{name} is no address such as {example}.") from None


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        return False
    return True


def _unmeant(name: str, said: str, wanted: str) -> ImproperlyConfigured:
    return ImproperlyConfigured(f"{name} is {said!r}; it takes {wanted}.")
