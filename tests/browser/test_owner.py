"""The owner in a real browser: signs in, is asked, narrows, allows, and ends it."""

import json
import re
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit
from urllib.request import Request, urlopen

import pytest
from django.utils import timezone
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest, issue, register_client
from evidence.access.quotas import list_quotas
from evidence.access.tokens import create_token
from evidence.models.grants import Grant, Package
from tests.browser.chromium import (
    DESKTOP,
    PHONE,
    chromium,
    fill,
    overflows,
    press,
    press_at,
    resize,
    text,
    tick,
    wait_for,
    wait_until,
)
from tests.browser.conftest import PASSWORD
from tests.world import BANK, World

pytestmark = pytest.mark.slow

CHOOSE_ENVELOPE = """
window.stays = true;
window.scrollTo({top: 300, behavior: "instant"});
[...document.querySelectorAll("button[name=pick]")].find(each => each.textContent === "Envelope").click();
return window.scrollY;
"""
TICK_ALL = """
for (const each of document.querySelectorAll(".connections input")) each.click();
"""
ANSWER = """
const bar = document.querySelector(".answer");
const sources = bar.querySelector(".from");
if (!sources) return [0, "", "", 0];
const hidden = sources.getBoundingClientRect().bottom
    - bar.querySelector(".brief").getBoundingClientRect().bottom;
return [bar.getBoundingClientRect().height, bar.innerText, sources.innerText, hidden];
"""
OPEN_ALL = """
for (const each of document.querySelectorAll("details:not([open]) > summary"))
    if (each.checkVisibility()) each.parentElement.open = true;
"""
SMALL_PHONE = (375, 812)
HEIGHTS = "return [...document.querySelectorAll('.answer button')].map(each => each.offsetHeight)"
CUT_OFF = """
const fields = [...document.querySelectorAll("input[placeholder]")];
for (const each of fields) each.value = each.placeholder;
return fields.filter(each => each.scrollWidth > each.clientWidth).map(each => each.value);
"""
GAP = """
const [first, second] = [...document.querySelectorAll("main > p .button")];
return second.getBoundingClientRect().top - first.getBoundingClientRect().bottom;
"""
CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
MESSAGES = "/v1/streams/messages/records"


def question(server: Any) -> str:
    """The address to which a client that has just registered sends the browser. Its own is another
    origin: the answer has to get past the policy of the page."""
    callback = server.url.replace("localhost", "127.0.0.1") + "/"
    metadata = {"client_name": "Scribe", "redirect_uris": [callback]}
    headers = {"Content-Type": "application/json"}
    request = Request(  # noqa: S310 - the server of the test
        f"{server.url}/oauth/register", json.dumps(metadata).encode(), headers
    )
    with urlopen(request) as answer:  # noqa: S310 - likewise
        client_id = json.load(answer)["client_id"]
    query = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": callback,
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        "state": "xyz",
    }
    return f"{server.url}/oauth/authorize?{urlencode(query)}"


def sign_in(browser: Chrome) -> None:
    fill(browser, "username", "alice")
    fill(browser, "password", PASSWORD)
    press_at(browser, "main button, form [type=submit]")


def signed_in(world: World) -> Package:
    """What a client holds that was allowed just now."""
    request = GrantRequest(connection_ids=[BANK], streams=[StreamRequest(name="transactions")])
    client = register_client("Scribe", owner_id=world.owner_id, now=timezone.now())
    return issue([request], client=client, now=timezone.now())[0]


def allowed(browser: Chrome) -> Package:
    wait_until(
        browser, lambda it: {"code", "state"} <= parse_qs(urlsplit(it.current_url).query).keys()
    )
    assert "state=xyz" in browser.current_url
    return Package.unscoped.order_by("-created_at")[0]


def test_from_the_question_to_the_end_of_the_access(
    served: World, live_server: Any, browser: Chrome
) -> None:
    browser.get(question(live_server))
    sign_in(browser)
    wait_for(browser, "Scribe wants to read your records")
    assert "Not verified" in text(browser)
    tick(browser, "Personal mail")
    wait_for(browser, "5 records")
    tick(browser, "Choose streams and fields")
    tick(browser, "Share only part")
    tick(browser, "Body text")
    wait_for(browser, "the field Body text")
    press(browser, "Allow")

    package = allowed(browser)
    token = create_token(package, resource="/v1", now=timezone.now())
    listed = served.get(MESSAGES, token)
    assert len(listed.ids) == 5
    assert "body_text" not in listed.body["data"][0]["data"]

    browser.get(f"{live_server.url}/connected")
    wait_for(browser, "Scribe")
    assert re.search(r"Last used (now|.* ago)", text(browser))
    press(browser, "Disconnect", within="[aria-label=Scribe]")
    wait_for(browser, "Disconnect Scribe?")
    assert served.get(MESSAGES, token).status == 200
    press(browser, "Disconnect")
    wait_for(browser, "Scribe is disconnected.")
    assert served.get(MESSAGES, token).error["code"] == "grant_revoked"


def test_the_answer_covers_little_of_a_phone_and_names_the_app_and_the_counts(
    served: World, live_server: Any, browser: Chrome
) -> None:
    browser.get(question(live_server))
    sign_in(browser)
    wait_for(browser, "Scribe wants to read your records")
    resize(browser, PHONE)
    browser.execute_script(TICK_ALL)
    wait_for(browser, "It can see all your records")
    wait_until(browser, lambda it: "will read" in it.execute_script(ANSWER)[1])
    height, said, sources, hidden = browser.execute_script(ANSWER)

    assert height <= PHONE[1] / 8
    assert "Scribe will read" in said
    assert "Allow" in said.splitlines()
    assert all(each in sources for each in ("Bank", "Mail"))
    assert hidden <= 1, "pixels of the sources that are cut off"
    words = text(browser)
    seen = ("records of Messages", "It will read", "Access expires", "Limits")
    assert [each for each in seen if each not in words] == []
    height = browser.execute_script("return document.documentElement.scrollHeight")
    assert height <= 2500, "the streams of each source are folded"
    for words in ("Not verified", "Your decision is sent to", "Nothing stays hidden"):
        assert words in text(browser), "shown without opening anything"
    resize(browser, DESKTOP)


def test_typing_a_limit_and_choosing_a_view_neither_bounce_nor_jump(
    served: World, live_server: Any, browser: Chrome
) -> None:
    browser.get(question(live_server))
    sign_in(browser)
    wait_for(browser, "Scribe wants to read your records")
    tick(browser, "Personal mail")
    wait_for(browser, "Scribe will read 6 records from Mail.")
    tick(browser, "Choose streams and fields")
    tick(browser, "Share only part")
    before = browser.execute_script(CHOOSE_ENVELOPE)
    wait_for(browser, "the fields Conversation, From name, From email, Labels")
    assert browser.execute_script("return [window.stays, window.scrollY]") == [True, before]

    tick(browser, "Limits (optional)")
    fill(browser, "limits-max_records_day", "50")
    wait_for(browser, "at most 50 records per day per source")
    limit = browser.find_element(By.NAME, "limits-max_records_day")
    assert browser.switch_to.active_element == limit, "the summary replaces no field"
    limit.send_keys("0", Keys.ENTER)
    wait_for(browser, "at most 500 records per day per source")
    limit.send_keys("0")
    assert browser.execute_script("return window.stays")
    press(browser, "Allow")

    [grant] = Grant.unscoped.filter(package=allowed(browser))
    assert [quota.most for quota in list_quotas(grant.pk, now=timezone.now())] == [5000]


def test_an_answer_pressed_before_the_count_is_shown_again_without_scripts(
    served: World, live_server: Any
) -> None:
    with chromium(scripts=False) as browser:
        browser.get(question(live_server))
        sign_in(browser)
        wait_for(browser, "Scribe wants to read")
        tick(browser, "Bank account")
        press(browser, "Allow")
        wait_for(browser, "Your changes updated the summary")
        assert "3 records" in text(browser)
        press(browser, "Allow")
        allowed(browser)


def test_an_app_asks_for_more_and_the_owner_answers_from_the_link(
    served: World, live_server: Any, browser: Chrome
) -> None:
    refused = served.get(MESSAGES, fields="subject,size_bytes,labels")

    browser.get(refused.error["ask_url"])
    sign_in(browser)
    wait_for(browser, "Bob asks to read more")
    assert "Labels and Size of Messages in Mail" in text(browser)
    for size in (PHONE, DESKTOP):
        resize(browser, size)
        assert not overflows(browser)
    press(browser, "Allow for an hour")
    wait_for(browser, "Bob can now read Labels and Size of Messages in Mail for an hour.")

    assert served.get(MESSAGES, fields="subject,size_bytes,labels").status == 200
    browser.get(refused.error["ask_url"])
    wait_for(browser, "You answered this on")


def test_a_small_phone_cuts_off_and_crowds_nothing(
    served: World, live_server: Any, browser: Chrome
) -> None:
    refused = served.get(MESSAGES, fields="subject,size_bytes")
    browser.get(refused.error["ask_url"])
    sign_in(browser)
    wait_for(browser, "Bob asks to read more")
    resize(browser, SMALL_PHONE)
    assert len(set(browser.execute_script(HEIGHTS))) == 1, "each button has one line"
    browser.get(f"{live_server.url}/people")
    wait_for(browser, "People")
    assert browser.execute_script(CUT_OFF) == []
    browser.get(f"{live_server.url}/connected")
    wait_for(browser, "Make a token")
    assert browser.execute_script(GAP) >= 8


def test_an_app_is_paused_in_one_press_and_disconnected_in_two(
    served: World, live_server: Any, browser: Chrome
) -> None:
    browser.get(f"{live_server.url}/connected")
    sign_in(browser)
    wait_for(browser, "Connected apps")
    press(browser, "Pause")  # of Bob, who comes first
    wait_for(browser, "Bob is paused")
    assert served.get(MESSAGES, "bob").status == 403
    press(browser, "Undo")
    wait_for(browser, "Bob can read again")
    assert served.get(MESSAGES, "bob").status == 200
    press(browser, "Disconnect")
    wait_for(browser, "Disconnect Bob?")
    press(browser, "Disconnect")
    wait_for(browser, "Bob is disconnected")

    assert served.get(MESSAGES, "bob").status == 403
    assert served.get("/v1/streams/transactions/records", "charlie").status == 200


def test_the_connect_page_sees_a_sign_in_and_the_first_call_by_itself(
    served: World, live_server: Any, browser: Chrome
) -> None:
    browser.get(f"{live_server.url}/connect")
    sign_in(browser)
    wait_for(browser, "Waiting for a connection")
    assert f"claude mcp add --transport http pdpp {live_server.url}/mcp" in text(browser)

    package = signed_in(served)
    wait_for(browser, "Waiting for its first request")
    token = create_token(package, resource="/v1", now=timezone.now())
    served.get("/v1/streams/transactions/records", token)
    wait_for(browser, "Connected. First request")


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
@pytest.mark.parametrize("page", ["question", "/connect", "/connected"])
def test_no_page_has_to_be_moved_sideways(
    served: World, live_server: Any, browser: Chrome, page: str, size: tuple[int, int]
) -> None:
    address = question(live_server) if page == "question" else live_server.url + page
    browser.get(address)
    sign_in(browser)
    wait_for(browser, "alice")
    resize(browser, size)

    assert not overflows(browser)
    browser.execute_script(OPEN_ALL)
    assert not overflows(browser)


def test_pages_are_one_line_on_a_phone_for_the_keyboard_too(
    served: World, live_server: Any, browser: Chrome
) -> None:
    browser.get(f"{live_server.url}/connected")
    sign_in(browser)
    wait_for(browser, "alice")
    resize(browser, PHONE)
    links = browser.find_elements(By.CSS_SELECTOR, ".top nav a")

    assert len({each.rect["y"] for each in links}) == 1
    assert min(each.rect["height"] for each in links) >= 44
    assert links[-1].rect["x"] + links[-1].rect["width"] <= PHONE[0], "without scrolling"
    links[-2].send_keys(Keys.TAB)
    last = browser.switch_to.active_element
    assert last.text == links[-1].text
    assert last.value_of_css_property("outline-style") != "none"
    bounds = browser.execute_script("return arguments[0].getBoundingClientRect().right", last)
    assert bounds <= PHONE[0]
    last.send_keys(Keys.TAB)
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    wait_until(browser, lambda it: it.find_element(By.LINK_TEXT, "Settings").is_displayed())
