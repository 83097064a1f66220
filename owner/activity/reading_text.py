"""Describe readings in words: what an app read, when, and in how many calls."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple
from urllib.parse import urlencode

from django.contrib.humanize.templatetags.humanize import apnumber
from django.urls import reverse
from django.utils import timezone

from evidence.access.grant_text import humanize, join_words
from evidence.ledger.readings import Reading
from evidence.models.clients import Client
from evidence.models.connections import Connection
from owner.text import escape_invisible

YOU = "You"
MAX_PLACES = 6
CALL_NOUNS: Mapping[str, tuple[str, str]] = {
    "search": ("search", "searches"),
    "semantic search": ("search", "searches"),
    "hybrid search": ("search", "searches"),
    "records": ("list", "lists"),
    "record": ("single record", "single records"),
    "field window": ("part of a text", "parts of a text"),
    "aggregate": ("calculation", "calculations"),
    "blob": ("file", "files"),
    "records changed": ("notification", "notifications"),
}
PAGES = ("page", "pages")
OTHER_CALLS = ("overview", "overviews")
"""Schema, streams and connections: the routes that show no record."""


def activity_url(**query: str) -> str:
    """Return the address of the activity page with filters; empty ones are left out."""
    chosen = {name: value for name, value in query.items() if value}
    return f"{reverse('activity')}?{urlencode(chosen)}"


class Names:
    """The owner's names of apps and connections. Two queries."""

    def __init__(self, owner_id: str) -> None:
        clients = Client.unscoped.filter(owner_id=owner_id).order_by("display_name", "pk")
        self.clients = dict(clients.values_list("pk", "display_name"))
        rows = Connection.unscoped.filter(owner_id=owner_id).order_by("display_name", "pk")
        self.connections = {row.pk: row.label for row in rows}

    def client(self, client_id: str) -> str:
        """Return the name of an app; the owner has no id."""
        return self.clients.get(client_id, client_id) if client_id else YOU

    def connection(self, connection_id: str) -> str:
        return self.connections.get(connection_id, "a removed connection")


class Amount(NamedTuple):
    """A number of records of one stream: ``41 messages`` from ``Personal mail``."""

    records: str
    connection: str


def count_of(records: int, stream: str) -> str:
    """Return ``41 messages``, ``1 message`` or ``1 record of people``."""
    name = escape_invisible(humanize(stream)).lower()
    if records != 1:
        return f"{records:,} {name}"
    if name.endswith("ies"):
        return f"1 {name.removesuffix('ies')}y"
    is_plural = name.endswith("s") and not name.endswith("ss")
    return f"1 {name.removesuffix('s')}" if is_plural else f"1 record of {name}"


def amounts(reading: Reading, names: Names) -> list[Amount]:
    """Return the different records by stream, most first; the last entry sums up the others."""
    places = [(place, count) for place, count in reading.places.most_common() if count]
    shown = places if len(places) <= MAX_PLACES else places[: MAX_PLACES - 1]
    found = [
        Amount(count_of(count, stream), names.connection(connection_id))
        for (connection_id, stream), count in shown
    ]
    if rest := reading.unplaced + sum(count for _, count in places[len(shown) :]):
        found.append(Amount(count_of(rest, "other records" if found else "records"), ""))
    return found


def looked_at(reading: Reading, names: Names) -> list[str]:
    """Return the connections of which the reading shows counts or lists without records."""
    found = {connection_id for connection_id, _ in reading.places}
    return [names.connection(connection_id) for connection_id in sorted(found)]


def period(reading: Reading) -> str:
    """Return ``between 9:12 and 9:20`` or ``at 9:12``."""
    first, last = _clock(reading.first), _clock(reading.last)
    return f"at {first}" if first == last else f"between {first} and {last}"


def _clock(moment: datetime) -> str:
    local = timezone.localtime(moment)
    return f"{local.hour}:{local:%M}"


def calls(reading: Reading) -> str:
    """Return ``six searches and one list``."""
    totals: dict[tuple[str, str], int] = {}
    for route, count in reading.calls.items():
        surface, _, kind = route.partition(" ")
        nouns = PAGES if surface == "admin" else CALL_NOUNS.get(kind, OTHER_CALLS)
        totals[nouns] = totals.get(nouns, 0) + count
    ordered = sorted(totals.items(), key=lambda item: (-item[1], item[0]))
    return join_words(
        [f"{apnumber(n) if n < 10 else f'{n:,}'} {nouns[n != 1]}" for nouns, n in ordered]
    )
