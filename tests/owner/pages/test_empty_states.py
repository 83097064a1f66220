"""A page with nothing on it yet names the next step, and no longer does once there is something."""

import re

import pytest
from django.urls import reverse

from tests.owner.pages.browser import Browser
from tests.owner.pages.test_preferences import HOLIDAYS, live_in
from tests.owners import sign_up
from tests.world import PERSONAL, World, mail

pytestmark = pytest.mark.slow

IMPORT = ["Import", "Live accounts"]
CONNECT = ["Connect an app"]
ADDRESSES = {
    "Import": "imports",
    "Live accounts": "accounts",
    "Connect an app": "connect",
    "See months with records": "home",
}
PAGES = [
    ("/search", IMPORT),
    ("/search?q=lease", IMPORT),
    ("/day/2026-01-10", IMPORT),
    ("/people", IMPORT),
    ("/storage", IMPORT),
    ("/activity", CONNECT),
    ("/connections", IMPORT),
    ("/collectors", IMPORT),
    ("/tokens", CONNECT),
]


@pytest.fixture
def owner(db: None) -> Browser:
    browser = Browser().sign_in(sign_up("alice"))
    browser.http.defaults["HTTP_ACCEPT"] = "text/html"
    return browser


def next_steps(browser: Browser, address: str) -> list[str]:
    """Return the words of the buttons of the part that says that nothing is there."""
    parts = re.findall(r'<div class="empty">.*?</div>', browser.open(address).html, re.DOTALL)
    links = re.findall(r'<a class="button[^"]*" href="([^"]*)">([^<]*)</a>', "".join(parts))
    expected = [reverse(ADDRESSES[words]) for _, words in links if words in ADDRESSES]
    assert [address for address, words in links if words in ADDRESSES] == expected
    return [words for _, words in links]


@pytest.mark.parametrize(("address", "steps"), PAGES)
def test_an_empty_page_leads_to_the_next_step(
    owner: Browser, address: str, steps: list[str]
) -> None:
    assert next_steps(owner, address) == steps


@pytest.mark.parametrize("address", [each for each, _ in PAGES if each != "/people"])
def test_a_page_with_something_on_it_names_no_next_step(
    world: World, owner: Browser, address: str
) -> None:
    world.get("/v1/streams/messages/records")

    assert next_steps(owner, address) == []


def test_an_empty_day_among_others_leads_to_the_nearest_days(world: World, owner: Browser) -> None:
    faulty = ("1066-01-01T00:00:00Z", "9999-12-31T23:59:59Z")
    world.put(*((PERSONAL, "messages", mail(at[:4], at)) for at in faulty))

    assert next_steps(owner, "/day/2026-02-25")[:2] == ["Earlier: 20 February 2026",
                                                         "Later: 5 March 2026"]  # fmt: skip
    later = owner.open(owner.open("/day/2026-02-25").link("Later: 5 March 2026"))
    assert "Dinner on Friday?" in later.text
    last = ["Earlier: 5 March 2026", "See months with records"]
    assert next_steps(owner, "/day/2028-02-29") == last


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
def test_the_nearest_day_is_that_of_the_owners_clock(
    world: World, owner: Browser, zone: str
) -> None:
    world.declare(HOLIDAYS)
    world.connect("cin_days", "holidays", "Holidays")
    world.put(("cin_days", "days", {"id": "d1", "title": "Easter", "is_all_day": True,
               "starts": "2024-04-01T00:00:00Z", "ends": "2024-04-02T00:00:00Z"}))  # fmt: skip
    world.put((PERSONAL, "messages", mail("late", "2024-06-30T20:00:00Z", subject="Late")))
    live_in(zone)

    day = "30 June 2024" if zone == "America/New_York" else "1 July 2024"
    earlier, later, _ = next_steps(owner, "/day/2024-05-05")
    assert (earlier, later) == ("Earlier: 1 April 2024", f"Later: {day}")
    page = owner.open("/day/2024-05-05")
    assert "Easter" in owner.open(page.link(earlier)).text
    assert "Late" in owner.open(page.link(later)).text


def test_a_search_that_finds_nothing_among_records_asks_for_no_import(
    world: World, owner: Browser
) -> None:
    assert next_steps(owner, "/search?q=zzzzzz") == []
    assert "Try fewer or other words" in owner.open("/search?q=zzzzzz").text
