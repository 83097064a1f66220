"""The owner finds a record in a real browser: home, search, facets, the mail, its day, its mailbox."""

from typing import Any

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from tests.browser.chromium import DESKTOP, PHONE, fill, overflows, press, resize, text, wait_for
from tests.browser.test_owner import sign_in
from tests.world import BANK, CHAT, PERSONAL, World

pytestmark = pytest.mark.long

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
    assert "Who can see it\nBob" in text(browser)
    press(browser, "Saturday, 10 January 2026")
    assert "Lease signed" in text(browser)
    press(browser, "Home")
    wait_for(browser, "What apps read")
    press(browser, "Messages")
    wait_for(browser, "Dinner on Friday?")


def test_a_month_of_a_histogram_can_be_clicked(
    served: World, live_server: Any, browser: Chrome
) -> None:
    browser.get(f"{live_server.url}/search?q=lease")
    sign_in(browser)
    wait_for(browser, "3 records")
    browser.find_element(By.CSS_SELECTOR, "svg a[href*='2025-06'] .slot").click()
    wait_for(browser, "1 record\n")


def test_html_of_a_record_runs_and_loads_nothing(
    served: World, live_server: Any, browser: Chrome
) -> None:
    from tests.owner.pages.test_browse import HTML, TALK

    served.declare(TALK)
    served.connect("cin_talk", "talk", "Talk")
    meeting = {"id": "t1", "topic": "Budget", "begins": "2026-05-04T09:00:00Z", "page": HTML}
    served.put(("cin_talk", "meetings", meeting))
    browser.get(f"{live_server.url}/records/cin_talk/meetings/t1")
    sign_in(browser)
    wait_for(browser, "Who can see it")

    browser.switch_to.frame(browser.find_element(By.CSS_SELECTOR, "iframe"))
    body = browser.find_element(By.TAG_NAME, "body")
    assert body.text == "Agenda\nBudget\nopen"
    assert browser.execute_script("return origin") == "null"
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    browser.switch_to.default_content()


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
    resize(browser, DESKTOP)

    assert wide == []
