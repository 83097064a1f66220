"""A household of three on one new server: each signs in, imports and connects an app, in a browser."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from tests.browser.chromium import (
    DESKTOP,
    PHONE,
    fill,
    overflows,
    press,
    resize,
    text,
    wait_for,
)
from tests.browser.test_path import (
    MAILS,
    Visitor,
    call,
    connect_agent,
    import_mailbox,
    installation,
    set_up,
    write_mailbox,
)
from tests.pdpp_site.installation import Installation

__all__ = ["installation"]  # a fixture

pytestmark = pytest.mark.slow

WIDTHS = (PHONE, (1280, 900))
OWN_PAGES = {
    "/": "Scribe",
    "/search?q=hands": "{place}",
    "/people": "{sender} Lang",
    "/activity": "Scribe",
    "/connected": "Scribe",
    "/connections": "12 records",
    "/imports": "{name}.mbox",
    "/backups": "Backups",
    "/storage": "Storage",
}
"""Pages, and what each shows of its owner."""


@dataclass
class Person:
    """Somebody with their own sign-in, in a browser that all of them use in turn."""

    name: str
    place: str
    sender: str
    cookies: list[dict[str, Any]] = field(default_factory=list)
    token: str = ""

    def sit_down(self, browser: Chrome) -> None:
        browser.get("about:blank")
        browser.execute_cdp_cmd("Network.clearBrowserCookies", {})
        browser.execute_cdp_cmd("Network.setCookies", {"cookies": self.cookies})

    def leave(self, browser: Chrome) -> None:
        """Leave the browser without signing out."""
        self.cookies = browser.execute_cdp_cmd("Network.getAllCookies", {})["cookies"]

    @property
    def words(self) -> set[str]:
        """What only this owner's records contain."""
        return {self.place, f"{self.sender} Lang", f"{self.name}.mbox"}


ALICE = Person("alice", "orchard", "Eva")
BRUNO = Person("bruno", "vineyard", "Ida")
CLEO = Person("cleo", "beehive", "Uma")
EVERYBODY = (ALICE, BRUNO, CLEO)


def begin(browser: Chrome, made: Installation, person: Person, link: str, mails: Path) -> None:
    """Sign in by a link, import a mailbox, connect an app, and let it read."""
    visitor = Visitor(browser)
    person.cookies = []
    person.sit_down(browser)
    browser.get(link)
    set_up(visitor, person.name)
    write_mailbox(mails, place=person.place, sender=person.sender)
    import_mailbox(visitor, mails)
    person.token = connect_agent(visitor, made)
    found = call(made, "/v1/search?q=hands&limit=50", person.token)[1]
    assert len(found["data"]) == MAILS
    assert seen_of_others(str(found), person) == set()
    browser.get(f"{made.url}/")
    wait_for(browser, "Scribe")
    person.leave(browser)


def seen_of_others(shown: str, person: Person) -> set[str]:
    return {
        word for each in EVERYBODY if each is not person for word in each.words if word in shown
    }


def invite(browser: Chrome, made: Installation, name: str) -> str:
    """Return the link that the administrator's page shows."""
    browser.get(f"{made.url}/owners")
    wait_for(browser, "Invite an owner")
    fill(browser, "name", name)
    press(browser, "Create a link")
    wait_for(browser, "Copy this link now")
    assert not overflows(browser)
    return browser.find_element(By.CSS_SELECTOR, "pre.copy").text.split()[0]  # before "Copy"


def see_only_the_own(browser: Chrome, made: Installation, person: Person) -> None:
    person.sit_down(browser)
    for size in WIDTHS:
        resize(browser, size)
        for path, own in OWN_PAGES.items():
            browser.get(f"{made.url}{path}")
            wait_for(browser, own.format(**vars(person)))
            assert seen_of_others(browser.page_source, person) == set(), path
            assert not overflows(browser), (path, size)
    resize(browser, DESKTOP)


def remove(browser: Chrome, made: Installation, name: str) -> None:
    """Remove an owner as the administrator, who sees no records, and wait for the receipt."""
    for size in WIDTHS:
        resize(browser, size)
        for path in ("/owners", "/owners/{}/remove"):
            browser.get(f"{made.url}/owners")
            wait_for(browser, "Invite an owner")
            if path != "/owners":
                browser.get(removal_of(browser, name))
                wait_for(browser, f"Remove {name}")
            everything = {word for each in EVERYBODY for word in each.words} | {"Scribe", "Mail"}
            main = browser.find_element(By.TAG_NAME, "main").text
            assert {word for word in everything if word in main} == set(), path
            assert not overflows(browser), (path, size)
    fill(browser, "name", name)
    press(browser, "Remove")
    wait_for(browser, f"{name} is removed. The records are being erased.")


def removal_of(browser: Chrome, name: str) -> str:
    link = browser.find_element(By.CSS_SELECTOR, f"[aria-label={name}] a.danger")
    return str(link.get_property("href"))


def test_three_live_on_one_server_and_one_is_removed(
    installation: tuple[Installation, str], browser: Chrome, tmp_path: Path
) -> None:
    made, link = installation
    begin(browser, made, ALICE, link, tmp_path / "alice.mbox")
    begin(browser, made, BRUNO, invite(browser, made, "bruno"), tmp_path / "bruno.mbox")
    printed = made.say("invite", "--name", "cleo")
    begin(browser, made, CLEO, printed.out.strip(), tmp_path / "cleo.mbox")
    for person in EVERYBODY:
        see_only_the_own(browser, made, person)

    ALICE.sit_down(browser)
    remove(browser, made, "cleo")
    wait_for(browser, "Receipt")
    while "not finished yet" in text(browser):
        browser.refresh()
    assert f"{MAILS} records" in text(browser)

    assert call(made, "/v1/schema", CLEO.token)[0] == 401
    CLEO.sit_down(browser)
    browser.get(f"{made.url}/connected")
    wait_for(browser, "Sign in")
    for person in (ALICE, BRUNO):
        person.sit_down(browser)
        browser.get(f"{made.url}/search?q=hands")
        wait_for(browser, person.place)
        assert call(made, "/v1/schema", person.token)[0] == 200
