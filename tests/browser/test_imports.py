"""Files that are dropped anywhere on the import page are sent."""

from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome

from tests.browser.chromium import fill, press, resize, text, wait_for
from tests.browser.conftest import PASSWORD
from tests.world import World

pytestmark = pytest.mark.slow

DROP = """
const carried = new DataTransfer();
for (const [name, content] of arguments[0]) carried.items.add(new File([content], name));
const target = document.querySelector("#footer") || document.body;
for (const kind of ["dragover", "drop"])
  target.dispatchEvent(new DragEvent(kind, {dataTransfer: carried, bubbles: true, cancelable: true}));
"""
FIRST_COLUMN = """
const below = [];
for (const label of document.querySelectorAll(".choices label")) {
  const words = document.createRange();
  words.selectNodeContents(label);
  const end = label.querySelector("input").getBoundingClientRect().right;
  if ([...words.getClientRects()].some(each => each.width > 20 && each.left < end))
    below.push(label.innerText);
}
return below;
"""
SMALL_PHONE = (375, 812)
CHAT = "03/04/26, 08:30 - Jonas: hi\n05/06/26, 08:30 - Jonas: ho\n"
GIRO = "Date,Payee,Amount\n2026-01-13,A,-1.50\n"


@pytest.fixture
def import_page(
    served: World, browser: Chrome, live_server: Any, settings: Any, tmp_path: Path
) -> Chrome:
    settings.PDPP_VAR = tmp_path
    browser.get(f"{live_server.url}/imports")
    fill(browser, "username", "alice")
    fill(browser, "password", PASSWORD)
    press(browser, "Sign in")
    wait_for(browser, "Send exports as you downloaded them")
    return browser


def test_dropped_file_opens_its_preview(import_page: Chrome) -> None:
    import_page.execute_script(DROP, [["household.csv", GIRO]])

    wait_for(import_page, "First rows of household.csv")


def test_a_choice_of_two_lines_does_not_go_on_below_its_button(import_page: Chrome) -> None:
    import_page.execute_script(DROP, [["WhatsApp Chat with Jonas.txt", CHAT]])
    wait_for(import_page, "Day first")

    resize(import_page, SMALL_PHONE)

    assert import_page.execute_script(FIRST_COLUMN) == []


def test_dropped_files_are_listed(import_page: Chrome) -> None:
    import_page.execute_script(DROP, [["household.csv", GIRO], ["chat.txt", CHAT]])

    wait_for(import_page, "Sent, not imported yet")
    assert "chat.txt" in text(import_page)
