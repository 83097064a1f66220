"""A page with nothing on it yet names the next step, and no longer does once there is something."""

import re

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from tests.owner.pages.browser import Browser
from tests.world import World

IMPORT = ["Import", "Live accounts"]
CONNECT = ["Connect an app"]
ADDRESSES = {
    "Import": "admin:evidence_importrun_changelist",
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
    ("/admin/evidence/source/", IMPORT),
    ("/admin/evidence/connection/", IMPORT),
    ("/admin/evidence/client/", CONNECT),
    ("/admin/evidence/grant/", CONNECT),
    ("/admin/evidence/accesstoken/", CONNECT),
]


@pytest.fixture
def owner(db: None) -> Browser:
    browser = Browser().sign_in(User.objects.create_superuser("alice"))
    browser.http.defaults["HTTP_ACCEPT"] = "text/html"
    return browser


def next_steps(browser: Browser, address: str) -> list[str]:
    """Return the words of the buttons of the part that says that nothing is there."""
    parts = re.findall(r'<div class="empty">.*?</div>', browser.open(address).html, re.DOTALL)
    links = re.findall(r'<a class="button[^"]*" href="([^"]*)">([^<]*)</a>', "".join(parts))
    assert all(address == reverse(ADDRESSES[words]) for address, words in links), links
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


def test_an_empty_day_among_others_leads_to_the_months(world: World, owner: Browser) -> None:
    assert next_steps(owner, "/day/2028-02-29") == ["See months with records"]


def test_a_search_that_finds_nothing_among_records_asks_for_no_import(
    world: World, owner: Browser
) -> None:
    assert next_steps(owner, "/search?q=zzzzzz") == []
    assert "Try fewer or other words" in owner.open("/search?q=zzzzzz").text


def test_a_filter_of_the_admin_that_matches_nothing_leads_to_the_whole_list(
    world: World, owner: Browser
) -> None:
    page = owner.open("/admin/evidence/source/?q=zzz")

    assert owner.open(page.link("Show all")).has_link("Mail")
