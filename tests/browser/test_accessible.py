"""Each page of the owner, for whoever does not see it, has no mouse, or has long names on it."""

import copy
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest, issue, register_client
from evidence.access.tokens import create_token
from evidence.models.connections import Connection
from evidence.models.people import PersonCount
from evidence.storing import backup_plans
from operations.notifications.delivery import send_test
from owner.accounts import setup_link
from owner.records import people_index
from tests.browser.chromium import DESKTOP, PHONE, fill, press, resize, wait_for
from tests.browser.test_owner import question, sign_in
from tests.operations.notification_receivers import add_channel
from tests.owner.pages.test_backups import KEY, MADE, add_copy
from tests.world import BANK, MAIL, PERSONAL, World, mail

pytestmark = pytest.mark.slow

RULES = Path(__file__).with_name("rules.js").read_text()
LOOKS = ((PHONE, "dark"), (DESKTOP, "light"))
LONG, HOSTILE = "W" * 200, "مرحبا <b>bold</b> <script>alert(1)</script>"
OWNERS = (
    "/",
    "/search",
    "/search?q=lease",
    "/settings",
    "/day/2026-01-10",
    "/people",
    "/people/{person}",
    "/records/{personal}/messages/?thread=t1",
    "/records/{personal}/messages/",
    "/records/{personal}/messages/m1",
    "/records/{personal}/messages/none",
    "/records/cin_bank/transactions/?month=2026-01",
    "/records/cin_bank/transactions/b1",
    "/demo/remove",
    "/notifications",
    "/notifications/add/mail",
    "/notifications/add/ntfy",
    "/backups",
    "/backups/key",
    "/backups/schedule",
    "/backups/store",
    "/backups/{backup}/drill",
    "/storage",
    "/connect",
    "/connect/doctor",
    "/connected",
    "/connected/pause?client={client}",
    "/connected/narrow?grant={grant}",
    "/ask/{ask}",
    "/admin/",
    "/admin/evidence/grant/",
    "/admin/evidence/grant/{grant}/change/",
    "/connected/give",
    "/admin/evidence/accesstoken/",
    "/admin/evidence/client/{client}/change/",
    "/admin/evidence/connection/",
    "/admin/evidence/connection/{personal}/change/",
    "/admin/evidence/importrun/",
    "/admin/evidence/source/",
    "/admin/evidence/connection/record/look-up/",
    "/admin/evidence/connection/record/list/?connection={personal}&stream=messages",
    "/admin/evidence/connection/record/?connection={personal}&stream=messages&key=m1",
    "/admin/evidence/connection/record/who/?connection={personal}&stream=messages&key=m1",
    "/admin/evidence/connection/erase/?of=stream&connection={personal}&stream=messages",
    "/admin/evidence/connection/keep/?connection={personal}",
    "/activity",
    "/activity?client={client}",
    "/activity/reading?client={client}&since=2026-01-01T00:00:00Z&until=2126-01-01T00:00:00Z",
    "/activity/refused",
    "/admin/evidence/connection/erasures/",
    "/admin/auth/user/second-factor/",
    "/admin/password_change/",
)


def faults(browser: Chrome) -> list[str]:
    """Of the page that is open, at each size and in light and dark."""
    found = []
    for each in browser.find_elements(By.CSS_SELECTOR, "details:not([open])"):
        browser.execute_script("arguments[0].open = true", each)
    for size, scheme in LOOKS:
        resize(browser, size)
        feature = {"name": "prefers-color-scheme", "value": scheme}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        path = browser.current_url.partition("//")[2].partition("/")[2]
        said = browser.execute_script(RULES)
        found += [f"/{path.partition('?')[0]} ({size[0]}, {scheme}): {each}" for each in said]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    resize(browser, DESKTOP)
    return found


@pytest.fixture
def hostile(served: World) -> dict[str, str]:
    """Names as long and as strange as they may be; the parts of the addresses in `OWNERS`."""
    Connection.unscoped.filter(pk=PERSONAL).update(display_name=LONG)
    Connection.unscoped.filter(pk=BANK).update(display_name=HOSTILE)
    client = register_client(LONG, owner_id=served.owner_id, now=timezone.now())
    wanted = GrantRequest(connection_ids=[PERSONAL], streams=[StreamRequest(name="messages")])
    package, [grant] = issue([wanted], client=client, now=timezone.now())
    token = create_token(package, resource="/v1", now=timezone.now())
    send_test(add_channel("ntfy", url=f"https://127.0.0.1/{LONG}"), now=timezone.now())
    asked = served.get("/v1/streams/threads/records", token).error["ask_url"].rpartition("/")[2]
    backup = add_copy(served, name=LONG, place=f"/{LONG}", drill_problem=LONG, drilled_at=MADE).pk
    backup_plans.save_key(served.owner_id, KEY.public_key, now=timezone.now())
    document = copy.deepcopy(MAIL)
    document["version"] = "1.1.0"
    document["streams"][0]["schema"]["properties"]["thread_id"]["x_pdpp_role"] = "thread"
    served.declare(document)
    served.put((PERSONAL, "messages", mail("m8", "2026-01-11T09:00:00Z", thread_id="t1",
        subject=LONG, from_name=HOSTILE, from_email="eva@example.org", body_text=LONG)))  # fmt: skip
    sum(people_index.derive_people())
    person = PersonCount.unscoped.values_list("person", flat=True).get(
        identity="mail:eva@example.org"
    )
    return {
        "person": person,
        "client": client.pk,
        "grant": grant.pk,
        "personal": PERSONAL,
        "ask": asked,
        "backup": str(backup),
    }


def test_pages_without_sign_in_are_accessible(
    served: World, live_server: Any, browser: Chrome
) -> None:
    link = f"{live_server.url}/set-up/{setup_link.create_link(timezone.now())}/"
    found = []
    for address in (f"{live_server.url}/", f"{live_server.url}/none", link):
        browser.get(address)
        found += faults(browser)
    fill(browser, "username", "bob")
    fill(browser, "password", "short")
    fill(browser, "again", "short")
    press(browser, "Save and sign in")
    wait_for(browser, "too short")
    found += faults(browser)
    browser.get(f"{live_server.url}/connect")
    fill(browser, "username", "alice")
    fill(browser, "password", "wrong")
    press(browser, "Sign in")
    wait_for(browser, "Wrong user name or password")
    found += faults(browser)

    assert found == []


def test_the_owner_finds_no_fault_however_long_and_strange_names_are(
    hostile: dict[str, str], live_server: Any, browser: Chrome
) -> None:
    browser.get(question(live_server))
    sign_in(browser)
    wait_for(browser, "Scribe wants to read")
    for each in browser.find_elements(By.CSS_SELECTOR, ".connections label"):
        browser.execute_script("arguments[0].click()", each)
    wait_for(browser, "It will read")
    found = faults(browser)
    for path in OWNERS:
        browser.get(live_server.url + path.format(**hostile))
        assert "Page not found" not in browser.title, path
        found += faults(browser)

    assert found == []


def test_the_keyboard_alone_leads_past_the_menu_to_the_answer_and_shows_where_it_is(
    served: World, live_server: Any, browser: Chrome
) -> None:
    browser.get(question(live_server))
    sign_in(browser)
    wait_for(browser, "Scribe wants to read")
    seen = []
    for _ in range(40):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        at = browser.switch_to.active_element
        seen.append(at.text or at.get_attribute("name") or "")
        assert at.value_of_css_property("outline-style") != "none", seen
        if at.text == "Allow":
            break

    assert seen[0] == "Skip to content"
    assert seen[-1] == "Allow"
