"""A newcomer's first quarter of an hour on a new installation, in a real browser."""

import base64
import contextlib
import hashlib
import json
import mailbox
import re
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
from tests.browser.chromium import fill, text, wait_for, wait_until
from tests.browser.conftest import PASSWORD
from tests.pdpp_site.installation import Installation, installed, running

pytestmark = pytest.mark.slow

MAX_CLICKS = 30
CALLBACK = "http://localhost:33418/callback"
VERIFIER = "a-verifier-of-at-least-forty-three-characters-01"
MAILS = 12


class Visitor:
    """Drives a browser and counts its clicks."""

    def __init__(self, browser: Chrome) -> None:
        self.browser = browser
        self.clicks = 0

    def press(self, words: str) -> None:
        self._click(lambda: chromium.press(self.browser, words))

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


def test_from_set_up_to_a_paused_agent(
    installation: tuple[Installation, str], browser: Chrome, tmp_path: Path
) -> None:
    made, link = installation
    visitor, mails = Visitor(browser), tmp_path / "mail.mbox"
    write_mailbox(mails)

    browser.get(link)
    set_up(visitor)
    import_mailbox(visitor, mails)
    open_mail(visitor)
    token = connect_agent(visitor, made)
    answer = call(made, "/v1/search?q=orchard&limit=5", token)
    assert len(answer[1]["data"]) == 5
    see_first_reading(visitor, made)
    pause(visitor)

    assert call(made, "/v1/search?q=orchard", token)[1]["error"]["code"] == "grant_paused"
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
