"""Two installations that differ only in another owner's rows show an owner the same pages."""

import re
from pathlib import Path

import pytest
import time_machine

from tests.browser import owner_pages
from tests.owner.pages.browser import Browser
from tests.world import NOW, World, move_in

pytestmark = pytest.mark.slow

ADMINISTRATORS = {"/owners", "/backups", "/backups/schedule"}
"""Pages that tell the administrator, who is the owner here, whether there are others."""

VOLATILE = re.compile(
    r'name="csrfmiddlewaretoken" value="[^"]*"|nonce="[^"]*"|data-token="[^"]*"|\?v=[0-9a-f]+'
    r"|[0-9][0-9.,]* ?(?:GB|MB|kB|TB|GiB|MiB)|[0-9.]+ %"
)
"""Tokens of forms, and the room that is left on the disk, which all owners of a server share."""


def shown(alice: Browser, places: dict[str, str]) -> dict[str, str]:
    """The text of every page, by address."""
    pages = {}
    for pattern in set(owner_pages.PAGES) - ADMINISTRATORS:
        address = pattern.format_map(places)
        page = alice.http.get(address, follow=True)
        pages[address] = VOLATILE.sub("…", page.content.decode())
    return pages


@time_machine.travel(NOW, tick=False)
def test_a_neighbor_changes_no_page(alice: Browser, world: World, tmp_path: Path) -> None:
    places = owner_pages.arrange(world, tmp_path) | {"account": "cin_nowhere"}
    before = shown(alice, places)
    again = shown(alice, places)

    move_in()
    after = shown(alice, places)

    steady = {address for address, text in before.items() if again[address] == text}
    assert len(steady) > len(before) * 0.8
    assert {address for address in steady if after[address] != before[address]} == set()
