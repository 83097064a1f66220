"""Each page of the owner, for whoever does not see it, has no mouse, or has long names on it."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import resolve
from django.utils import timezone
from selenium.webdriver import Chrome
from selenium.webdriver.common.keys import Keys

from importers.models import SourceAccount
from owner import second_factor
from tests.browser import axe, owner_pages
from tests.browser.axe import find_faults
from tests.browser.chromium import fill, press, wait_for
from tests.browser.conftest import PASSWORD
from tests.browser.test_owner import question, sign_in
from tests.importers.dovecot import Dovecot, message, run_dovecot
from tests.importers.syncing import connect
from tests.owners import set_up_link, sign_up
from tests.pdpp_site.test_hostile_input import path, routes
from tests.world import World

slow = pytest.mark.slow
has_axe = pytest.mark.skipif(not axe.SCRIPT.exists(), reason="needs axe-core: make sign-in")


@pytest.fixture
def mail_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Dovecot]:
    with run_dovecot() as dovecot:
        dovecot.append("ida@mail.example", message(1))
        monkeypatch.setenv("SSL_CERT_FILE", str(dovecot.authority))
        yield dovecot


@pytest.fixture
def values(served: World, mail_server: Dovecot, tmp_path: Path, settings: Any) -> dict[str, str]:
    """The parts of the addresses in `PAGES`."""
    settings.PDPP_VAR = tmp_path
    account = connect(mail_server, "ida@mail.example")
    held = {"through": 1, "since": timezone.now().isoformat(), "containers": [["inbox", 3, 4]]}
    SourceAccount.unscoped.update(held_deletions=held)
    return owner_pages.arrange(served, tmp_path) | {"account": account}


def test_each_page_is_visited(world: World) -> None:
    owner = Client(raise_request_exception=False, headers={"Accept": "text/html"})
    owner.force_login(sign_up("alice"))
    addresses = [each.partition("?")[0] for each in owner_pages.PAGES]
    known = {resolve(each.format_map(defaultdict(lambda: "1"))).route for each in addresses}
    known |= owner_pages.OTHER_TESTS | owner_pages.NO_PAGES

    forgotten = []
    for route, _ in routes():
        if route in known or route.startswith(("v1/", "admin/evidence/")):  # Django's own look
            continue
        answer = owner.get(path(route))
        is_html = answer["Content-Type"].startswith("text/html")
        if is_html and answer.status_code not in {302, 403, 405}:
            forgotten.append(route)

    assert forgotten == []


@slow
@has_axe
def test_pages_without_sign_in_are_accessible(
    served: World, live_server: Any, browser: Chrome
) -> None:
    link = f"{live_server.url}/set-up/{set_up_link()}/"
    found = []
    for address in (f"{live_server.url}/", f"{live_server.url}/none", link):
        browser.get(address)
        found += find_faults(browser)
    fill(browser, "username", "bob")
    fill(browser, "password", "short")
    fill(browser, "again", "short")
    press(browser, "Save and sign in")
    wait_for(browser, "too short")
    found += find_faults(browser)
    browser.get(f"{live_server.url}/connect")
    fill(browser, "username", "alice")
    fill(browser, "password", "wrong")
    press(browser, "Sign in")
    wait_for(browser, "Wrong user name or password")
    found += find_faults(browser)

    assert "\n".join(found) == ""


@slow
@has_axe
def test_the_second_factor_is_accessible(served: World, live_server: Any, browser: Chrome) -> None:
    user = User.objects.get()
    second_factor.start_enrolment(user)
    device = second_factor.pending_device(user)
    assert device is not None
    device.confirmed = True
    device.save()
    browser.get(f"{live_server.url}/connect")
    sign_in(browser)
    wait_for(browser, "code")

    assert find_faults(browser) == []


@slow
@has_axe
def test_each_page_is_accessible_however_long_and_strange_names_are(
    values: dict[str, str], live_server: Any, browser: Chrome
) -> None:
    browser.get(question(live_server))
    sign_in(browser)
    wait_for(browser, "Scribe wants to read")
    browser.execute_script(
        "document.querySelectorAll('.connections label').forEach(it => it.click())"
    )
    wait_for(browser, "It will read")
    found = find_faults(browser)
    for address in owner_pages.PAGES:
        browser.get(live_server.url + address.format(**values))
        assert "Page not found" not in browser.title, address
        found += find_faults(browser)

    assert "\n".join(found) == ""


@slow
@has_axe
@pytest.mark.django_db(transaction=True)
def test_pages_with_nothing_on_them_are_accessible(
    live_server: Any, browser: Chrome, settings: Any, tmp_path: Path
) -> None:
    settings.PDPP_PUBLIC_URL, settings.PDPP_VAR = live_server.url, tmp_path
    sign_up("alice", password=PASSWORD)
    browser.get(f"{live_server.url}/login")
    sign_in(browser)
    wait_for(browser, "alice")
    found = []
    for address in owner_pages.EMPTY:
        browser.get(live_server.url + address)
        found += find_faults(browser)

    assert "\n".join(found) == ""


@slow
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
