"""Passkeys in a real browser, with the authenticator that Chromium simulates."""

from collections.abc import Iterator
from typing import Any

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.virtual_authenticator import VirtualAuthenticatorOptions

from owner.models import Passkey
from tests.browser.chromium import fill, press, wait_for
from tests.browser.conftest import PASSWORD
from tests.world import World

pytestmark = pytest.mark.slow

PAGE = "/second-factor"


@pytest.fixture
def authenticator(browser: Chrome) -> Iterator[Chrome]:
    options = VirtualAuthenticatorOptions(
        transport=VirtualAuthenticatorOptions.Transport.INTERNAL,
        has_user_verification=True,
        is_user_verified=True,
    )
    browser.add_virtual_authenticator(options)
    yield browser
    browser.remove_virtual_authenticator()


def enter(browser: Chrome, url: str) -> None:
    browser.get(url)
    fill(browser, "username", "alice")
    fill(browser, "password", PASSWORD)
    press(browser, "Sign in")


def test_owner_adds_a_passkey_signs_in_with_it_and_turns_it_off(
    served: World, live_server: Any, authenticator: Chrome
) -> None:
    browser = authenticator
    enter(browser, f"{live_server.url}/login?next={PAGE}")
    wait_for(browser, "Off: anyone with your password")
    fill(browser, "name", "My laptop")
    press(browser, "Add a passkey")
    wait_for(browser, "Recovery codes")
    browser.get(live_server.url + PAGE)
    wait_for(browser, "My laptop")

    browser.execute_cdp_cmd("Network.clearBrowserCookies", {})
    enter(browser, f"{live_server.url}/login?next={PAGE}")
    wait_for(browser, "Use your passkey, or enter a recovery code.")
    press(browser, "Use a passkey")
    wait_for(browser, "My laptop")
    assert Passkey.unscoped.get().sign_count > 1

    press(browser, "Use a passkey")
    wait_for(browser, "Now choose what to do.")
    press(browser, "Turn off")
    wait_for(browser, "Off: anyone with your password")
    assert not Passkey.unscoped.exists()


def test_other_names_of_the_server_say_where_passkeys_work(
    served: World, live_server: Any, browser: Chrome, settings: Any
) -> None:
    settings.PDPP_PUBLIC_URL = "https://records.example"
    enter(browser, f"{live_server.url}/login?next={PAGE}")

    wait_for(browser, "To use passkeys, open this server at https://records.example.")

    assert not browser.find_element(By.NAME, "name").is_displayed()
