"""The owner finds a record in a real browser: home, search, facets, the mail, its day, its mailbox."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest
from selenium.webdriver import ActionChains, Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.expected_conditions import (
    frame_to_be_available_and_switch_to_it,
)

from tests.browser.chromium import (
    DESKTOP,
    PHONE,
    fill,
    overflows,
    press,
    press_at,
    resize,
    text,
    wait_for,
    wait_until,
)
from tests.browser.test_owner import sign_in
from tests.world import BANK, CHAT, PERSONAL, World

pytestmark = pytest.mark.slow

RAN = "document.body.id='ran'"
PAGES = (
    "/",
    "/search?q=lease",
    "/day/2026-01-10",
    f"/records/{PERSONAL}/messages/",
    f"/records/{PERSONAL}/messages/m1",
    f"/records/{CHAT}/messages/",
    f"/records/{BANK}/transactions/?month=2026-01",
)


def test_from_home_to_a_mail_and_its_day(served: World, live_server: Any, browser: Chrome) -> None:
    browser.get(f"{live_server.url}/search?q=lease")
    sign_in(browser)
    wait_for(browser, "alice")
    press(browser, "PDPP")
    wait_for(browser, "What apps read")

    fill(browser, "q", "lease")
    press(browser, "Search")
    wait_for(browser, "3 records")
    press(browser, "2025")
    wait_for(browser, "1 record\n")
    press(browser, "Remove all filters")
    wait_for(browser, "3 records")
    press(browser, "Lease signed")
    wait_for(browser, "we signed the lease for Lindenstraße 12 today.")
    assert "Who can see it\nSee why\nBob" in text(browser)
    press(browser, "Saturday, 10 January 2026")
    wait_until(browser, lambda it: "/day/2026-01-10" in it.current_url)
    wait_for(browser, "Lease signed")
    press(browser, "Home")
    wait_for(browser, "What apps read")
    press(browser, "Messages")
    wait_for(browser, "Dinner on Friday?")


def test_keys_search_move_and_open_and_can_be_turned_off(
    served: World, live_server: Any, browser: Chrome
) -> None:
    def focused() -> str:
        script = "const at = document.activeElement; return at.href || at.name || at.tagName"
        name: str = browser.execute_script(script)
        return name.removeprefix(live_server.url)

    def after(keys: str) -> str:
        ActionChains(browser).send_keys(keys).perform()
        return focused()

    browser.get(f"{live_server.url}/records/{PERSONAL}/messages/")
    sign_in(browser)
    wait_for(browser, "Dinner on Friday?")
    assert focused() == "BODY"
    first, second = after("j"), after("j")
    assert first != second
    assert {first, second} == {after("k"), after("j")}
    assert second.startswith(f"/records/{PERSONAL}/messages/")
    assert after("/") == "q"
    assert after("j?") == "q"
    assert browser.find_element(By.NAME, "q").get_property("value") == "j?"

    browser.get(live_server.url + second)
    after("?")
    wait_for(browser, "Previous in the list")
    press_at(browser, "dialog input[type=checkbox]")
    press(browser, "Close", within="dialog")
    try:
        assert after("j") == after("/") == "BODY"
    finally:
        browser.execute_script("localStorage.clear()")
    browser.get(f"{live_server.url}/records/{PERSONAL}/messages/")
    wait_for(browser, "Dinner on Friday?")
    after("jj")
    after(Keys.ENTER)
    wait_until(browser, lambda it: it.current_url == live_server.url + second)


@pytest.mark.slow
def test_a_month_of_a_histogram_can_be_clicked(
    served: World, live_server: Any, browser: Chrome
) -> None:
    browser.get(f"{live_server.url}/search?q=lease")
    sign_in(browser)
    wait_for(browser, "3 records")
    press_at(browser, "svg a[href*='2025-06'] .slot")
    wait_for(browser, "1 record\n")


@pytest.fixture
def tracker() -> Iterator[tuple[str, list[str]]]:
    """The address of a server, and the paths that a browser has asked it for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        do_POST = do_GET  # noqa: N815 - the name that the library calls

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"//127.0.0.1:{server.server_port}", asked
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("is_sanitized", [True, False], ids=["sanitized", "policy alone"])
def test_html_of_a_hostile_mail_runs_and_loads_nothing(
    served: World,
    live_server: Any,
    browser: Chrome,
    tracker: tuple[str, list[str]],
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_sanitized: bool,
) -> None:
    from owner.records import record_files
    from tests.owner.pages.test_record_html import ELSEWHERE, HOSTILE, PIXEL, store_html

    address, asked = tracker
    hostile = "\n".join(HOSTILE.values()).replace(ELSEWHERE, address).replace("alert(1)", RAN)
    store_html(served, f'<h2 style="color: rgb(170, 0, 0)">Offer</h2><img src="{PIXEL}">{hostile}')
    if not is_sanitized:
        monkeypatch.setattr(record_files, "sanitize", bytes.decode)
    browser.get(f"{live_server.url}/records/{PERSONAL}/messages/m1")
    sign_in(browser)
    wait_for(browser, "Who can see it")

    wait_until(browser, frame_to_be_available_and_switch_to_it((By.CSS_SELECTOR, "iframe.html")))
    wait_for(browser, "Offer")
    title = browser.find_element(By.TAG_NAME, "h2")
    assert title.value_of_css_property("color") == "rgba(170, 0, 0, 1)"
    assert browser.execute_script("return document.images[0].naturalWidth") == 1
    assert browser.execute_script("return origin") == "null"
    browser.switch_to.default_content()
    browser.get(f"{live_server.url}/html/{PERSONAL}/messages?key=m1")  # the frame as a page
    assert browser.execute_script("return [origin, document.body.id]") == ["null", ""]
    browser.get(f"{live_server.url}/records/{PERSONAL}/messages/m1")  # ends what was on its way
    assert asked == []


@pytest.mark.slow
@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_no_page_of_records_has_to_be_moved_sideways(
    served: World, live_server: Any, browser: Chrome, size: tuple[int, int]
) -> None:
    browser.get(f"{live_server.url}{PAGES[1]}")
    sign_in(browser)
    wait_for(browser, "alice")
    resize(browser, size)
    wide = []
    for page in PAGES:
        browser.get(f"{live_server.url}{page}")
        wide += [page] if overflows(browser) else []

    assert wide == []
