"""Pictures of the owner's pages for ``docs/``, over the demo life: ``make screenshots``.

``python -m tests.browser.screenshots [FOLDER]`` makes an installation of its own and takes it away.
"""

import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from tests.browser import answer_picture
from tests.browser.chromium import (
    DESKTOP,
    PHONE,
    chromium,
    fill,
    press,
    reach,
    resize,
    tick,
    wait_for,
)
from tests.pdpp_site.installation import installed, running

CALLBACK = "http://localhost:33418/callback"
CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
PASSWORD = "correct horse battery"
Shot = Callable[[str], None]


def main(folder: Path) -> None:
    with installed() as installation, running(installation, PDPP_DEMO="true") as server:
        found = re.search(r"http\S+/set-up/\S+", server.printed)
        assert found is not None, server.printed
        base = found.group().partition("/set-up/")[0]
        with chromium() as browser:
            _set_up(browser, found.group())
            bearer = re.search(r'Bearer (pdpp_at_[\w-]+)"', server.printed)
            assert bearer is not None, server.printed
            answer_picture.take(
                browser, folder / "answer.png", url=f"{base}/mcp", token=bearer.group(1)
            )
            _all_pages(browser, base, lambda name: _both(browser, folder, name))


def _all_pages(browser: Chrome, base: str, shot: Shot) -> None:
    browser.get(f"{base}/connect")
    wait_for(browser, "Waiting for a connection")
    shot("connect")
    browser.get(_question(base))
    wait_for(browser, "wants to read")
    shot("consent")
    mailbox = browser.find_element(By.XPATH, "//fieldset[legend[contains(., 'ail')]]//label")
    reach(browser, mailbox)
    wait_for(browser, "will read")
    tick(browser, "Choose streams and fields")
    wait_for(browser, "Preview the newest")
    tick(browser, "Preview the newest")
    browser.execute_script("arguments[0].scrollIntoView()", mailbox)
    shot("consent-counted")
    press(browser, "Allow")
    browser.get(f"{base}/connected")
    wait_for(browser, "Claude Code")
    shot("connected")
    reach(browser, browser.find_element(By.CSS_SELECTOR, "a[href*=narrow]"))
    wait_for(browser, "Narrow access")
    shot("narrow")
    for name, path in PAGES.items():
        browser.get(f"{base}{path}")
        for _ in range(120):
            if "still being collected" not in browser.page_source:
                break
            time.sleep(1)
            browser.refresh()
        shot(name)
    browser.get(f"{base}/search?q=deposit")
    reach(browser, browser.find_element(By.CSS_SELECTOR, "main h2 a"))
    shot("mail")
    reach(browser, browser.find_element(By.CSS_SELECTOR, "main a[href*='/day/']"))
    shot("day")


PAGES = {
    "home": "/",
    "search": "/search?q=deposit",
    "people": "/people",
    "activity": "/activity",
    "import": "/imports",
    "backups": "/backups",
}
ON_A_PHONE = {*PAGES, "consent-counted", "connected", "mail", "day"}
"""The ten main pages."""
IN_THE_DARK = {"home", "consent-counted"}


def _both(browser: Chrome, folder: Path, name: str) -> None:
    on_a_phone = [("-phone", PHONE)] if name in ON_A_PHONE else []
    for scheme, mark in (("light", ""), ("dark", "-dark")) if name in IN_THE_DARK else (("", ""),):
        features = [{"name": "prefers-color-scheme", "value": scheme}] if scheme else []
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        for ending, size in (("", DESKTOP), *on_a_phone):
            resize(browser, size)
            browser.save_screenshot(str(folder / f"{name}{ending}{mark}.png"))
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    resize(browser, DESKTOP)


def _set_up(browser: Chrome, link: str) -> None:
    browser.get(link)
    fill(browser, "username", "alice")
    for each in browser.find_elements(By.CSS_SELECTOR, "input[type=password]"):
        each.send_keys(PASSWORD)
    press(browser, "Save and sign in")
    wait_for(browser, "What apps read")


def _question(base: str) -> str:
    """Where a program sends the browser that has just registered itself."""
    metadata = {"client_name": "Claude Code", "redirect_uris": [CALLBACK]}
    headers = {"Content-Type": "application/json"}
    request = Request(f"{base}/oauth/register", json.dumps(metadata).encode(), headers)  # noqa: S310
    with urlopen(request) as answer:  # noqa: S310 - our own server
        client_id = json.load(answer)["client_id"]
    query = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": CALLBACK,
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        "state": "xyz",
    }
    return f"{base}/oauth/authorize?{urlencode(query)}"


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs"))
