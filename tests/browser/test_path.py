"""A newcomer's first quarter of an hour on a new installation, in a real browser."""

import base64
import contextlib
import hashlib
import json
import mailbox
import re
import sys
import time
from collections.abc import Callable, Iterator
from email.message import EmailMessage
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.expected_conditions import url_contains

from tests.browser import chromium
from tests.browser.chromium import DESKTOP, PHONE, fill, overflows, text, wait_for, wait_until
from tests.browser.conftest import PASSWORD
from tests.pdpp_site.installation import Installation, installed, running

pytestmark = pytest.mark.slow

MAX_CLICKS = 45
CALLBACK = "http://localhost:33418/callback"
VERIFIER = "a-verifier-of-at-least-forty-three-characters-01"
MAILS = 12


class Visitor:
    """Drives a browser, and counts the clicks and seconds of each step."""

    def __init__(self, browser: Chrome) -> None:
        self.browser = browser
        self.clicks = 0
        self.steps: list[str] = []

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        clicks, began = self.clicks, time.monotonic()
        yield
        seconds = time.monotonic() - began
        self.steps.append(f"{name:12} {self.clicks - clicks:2} clicks {seconds:5.1f} s")
        assert not overflows(self.browser), name

    def press(self, words: str) -> None:
        self._click(lambda: chromium.press(self.browser, words))

    def press_at(self, selector: str) -> None:
        self._click(lambda: chromium.press_at(self.browser, selector))

    def tick(self, words: str) -> None:
        self._click(lambda: chromium.tick(self.browser, words))

    def _click(self, click: Callable[[], None]) -> None:
        click()
        self.clicks += 1


@pytest.fixture
def installation() -> Iterator[tuple[Installation, str]]:
    """Yield a new installation that runs, and its set-up link."""
    with installed() as made, running(made) as server:
        link = re.search(r"http\S+/set-up/\S+", server.printed)
        assert link is not None, server.printed
        yield made, link.group()


def write_mailbox(path: Path, *, place: str = "orchard", sender: str = "Eva") -> None:
    box = mailbox.mbox(path)
    for number in range(MAILS):
        mail = EmailMessage()
        mail["From"] = f"{sender} Lang <{sender.lower()}@example.org>"
        mail["To"] = "alice@example.org"
        mail["Subject"] = f"Harvest plan {number}"
        mail["Date"] = f"Mon, {number + 1:02} Jun 2026 09:00:00 +0000"
        mail["Message-ID"] = f"<harvest-{number}@example.org>"
        mail.set_content(f"The {place} needs {number} hands.")
        box.add(mail)
    box.close()


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_from_set_up_to_an_erased_record(
    installation: tuple[Installation, str], browser: Chrome, tmp_path: Path, size: tuple[int, int]
) -> None:
    made, link = installation
    visitor, mails = Visitor(browser), tmp_path / "mail.mbox"
    write_mailbox(mails)
    chromium.resize(browser, size)

    browser.get(link)
    with visitor.step("set up"):
        set_up(visitor)
    with visitor.step("import"):
        import_mailbox(visitor, mails)
    with visitor.step("find"):
        open_mail(visitor)
    with visitor.step("day"):
        visitor.press("Monday, 8 June 2026")
        wait_until(browser, url_contains("/day/2026-06-08"))
    with visitor.step("person"):
        open_person(visitor)
    with visitor.step("connect"):
        token = connect_agent(visitor, made)
    answer = call(made, "/v1/search?q=orchard&limit=5", token)
    assert len(answer[1]["data"]) == 5
    with visitor.step("narrow"):
        narrow(visitor, made)
    with visitor.step("see activity"):
        see_first_reading(visitor, made)
    with visitor.step("ask for more"):
        allow_more(visitor, made, token)
    with visitor.step("pause"):
        pause(visitor)
    assert call(made, "/v1/search?q=orchard", token)[1]["error"]["code"] == "grant_paused"
    with visitor.step("back up"):
        back_up(visitor, tmp_path / "copies")
    with visitor.step("erase"):
        open_mail(visitor)
        visitor.press("Erase this record")
        wait_for(browser, "is erased permanently")
        visitor.press("Erase this record")
        wait_for(browser, "Erased")

    sys.stdout.write("\n".join([*visitor.steps, f"{'all':12} {visitor.clicks:2} clicks\n"]))
    assert visitor.clicks <= MAX_CLICKS


def set_up(visitor: Visitor, name: str = "alice") -> None:
    fill(visitor.browser, "username", name)
    for name in ("password", "again"):
        fill(visitor.browser, name, PASSWORD)
    visitor.press("Save and sign in")
    wait_for(visitor.browser, "Nothing of yours is here yet.")


def import_mailbox(visitor: Visitor, mails: Path) -> None:
    visitor.press("Import an export")
    wait_for(visitor.browser, "Send exports as you downloaded them")
    visitor.browser.find_element(By.NAME, "file").send_keys(str(mails))
    visitor.press("Send")
    wait_for(visitor.browser, "Import it")
    visitor.press("Import it")
    wait_for(visitor.browser, "Done")
    assert f"{MAILS} new records" in text(visitor.browser)


def open_mail(visitor: Visitor) -> None:
    fill(visitor.browser, "q", "orchard")
    visitor.press("Search")
    wait_for(visitor.browser, f"{MAILS} records")
    visitor.press("Harvest plan 7")
    wait_for(visitor.browser, "The orchard needs 7 hands.")


def open_person(visitor: Visitor) -> None:
    """People are collected in the background after an import."""

    def is_listed(browser: Chrome) -> bool:
        browser.refresh()
        return "Eva Lang" in text(browser)

    visitor.press("People")
    wait_until(visitor.browser, is_listed)
    visitor.press("Eva Lang")
    wait_for(visitor.browser, "Conversations")


def narrow(visitor: Visitor, made: Installation) -> None:
    """Take the stream of attachments from the agent."""
    visitor.browser.get(f"{made.url}/")
    visitor.press("Apps")
    wait_for(visitor.browser, "Connected apps")
    visitor.press_at("a[href*='narrow']")
    wait_for(visitor.browser, "Narrow what Scribe reads")
    if "Share only part" not in text(visitor.browser):
        visitor.tick("Choose streams and fields")
    visitor.tick("Files in mail")
    wait_for(visitor.browser, "Files in mail: hides")
    visitor.press("Narrow access")
    wait_for(visitor.browser, "Scribe can now read less.")


def allow_more(visitor: Visitor, made: Installation, token: str) -> None:
    """Answer the request that the agent's refusal leads to."""
    refused = call(made, "/v1/streams/attachments/records", token)[1]["error"]
    visitor.browser.get(refused["ask_url"])
    wait_for(visitor.browser, "Scribe asks to read more")
    visitor.press("Allow once")
    wait_for(visitor.browser, "Scribe can now read")


def back_up(visitor: Visitor, folder: Path) -> None:
    folder.mkdir()
    visitor.press("Home")
    wait_for(visitor.browser, "What needs attention")
    visitor.press("Backups")
    visitor.press("Create a recovery key")
    visitor.press("Show the words")
    visitor.press("I have written them down")
    wait_for(visitor.browser, "Folder on the server")
    fill(visitor.browser, "folder", str(folder))
    visitor.press("Save")
    visitor.press("Back up now")
    wait_for(visitor.browser, "Opens with recovery key")
    assert list(folder.iterdir())


def connect_agent(visitor: Visitor, made: Installation) -> str:
    """Allow an agent, and return the token that it gets."""
    metadata = {"client_name": "Scribe", "redirect_uris": [CALLBACK]}
    client_id = call(made, "/oauth/register", body=json.dumps(metadata).encode())[1]["client_id"]
    challenge = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest())
    query = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": CALLBACK,
        "code_challenge": challenge.decode().rstrip("="),
        "code_challenge_method": "S256",
        "resource": f"{made.url}/v1",
    }
    visitor.browser.get(f"{made.url}/oauth/authorize?{urlencode(query)}")
    wait_for(visitor.browser, "Scribe wants to read your records")
    visitor.tick("Mail")
    wait_for(visitor.browser, f"{MAILS} records")
    visitor.press("Allow")
    wait_until(visitor.browser, url_contains("code="))
    exchange = {
        "grant_type": "authorization_code",
        "code": parse_qs(urlsplit(visitor.browser.current_url).query)["code"][0],
        "client_id": client_id,
        "redirect_uri": CALLBACK,
        "code_verifier": VERIFIER,
    }
    answer = call(made, "/oauth/token", form=urlencode(exchange))
    token: str = answer[1]["access_token"]
    return token


def see_first_reading(visitor: Visitor, made: Installation) -> None:
    visitor.browser.get(f"{made.url}/")
    wait_for(visitor.browser, "Scribe")
    visitor.press("Activity")
    wait_for(visitor.browser, "Scribe read 5 ")


def pause(visitor: Visitor) -> None:
    visitor.press("Apps")
    wait_for(visitor.browser, "Connected apps")
    visitor.press("Pause")
    wait_for(visitor.browser, "Scribe is")


def call(
    made: Installation, path: str, token: str = "", *, body: bytes = b"", form: str = ""
) -> tuple[int, dict[str, Any]]:
    """Call the server as the agent does; a body is posted."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    headers |= {"Content-Type": "application/json" if body else "application/x-www-form-urlencoded"}
    with contextlib.closing(made.connect()) as connection:
        connection.request("POST" if body or form else "GET", path, body or form or None, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
