"""Keep contacts up to date over CardDAV, with the records of an import of the same cards."""

from collections.abc import Iterator

from importers.contacts import parse_card
from importers.core.source import Container, Event, Source, SourceRun
from importers.dav.account import list_collections, sign_in
from importers.dav.collections import CollectionRun, Entries
from importers.dav.discovery import ADDRESS_BOOKS, CARDDAV

CARDS = Entries(
    f"{CARDDAV}addressbook-multiget",
    f"{CARDDAV}address-data",
    lambda content, _address_book: parse_card(content),
)


def _read(run: SourceRun) -> Iterator[Event]:
    with sign_in(run) as client:
        yield from CollectionRun(run, client, CARDS).events()


def _list(run: SourceRun) -> list[Container]:
    return list_collections(run, ADDRESS_BOOKS)


CONTACT_ACCOUNT = Source(run=_read, containers=_list)
