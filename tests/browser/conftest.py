"""A server with the cast's records, and browsers in front of it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from selenium.webdriver import Chrome

from tests.browser.chromium import MISSING, chromium

if TYPE_CHECKING:
    from tests.world import World

PASSWORD = "correct horse battery"


@pytest.fixture(scope="session")
def _browser(django_db_setup: None) -> Iterator[Chrome]:
    """Quits before the test database is dropped: its open connections keep threads of the server."""
    if MISSING:
        pytest.skip(f"not installed: {', '.join(MISSING)}")
    with chromium() as driver:
        yield driver


@pytest.fixture
def browser(_browser: Chrome) -> Chrome:
    """Signed in to nothing."""
    _browser.get("about:blank")
    _browser.execute_cdp_cmd("Network.clearBrowserCookies", {})
    return _browser


@pytest.fixture
def served(committed: "World", live_server: Any, settings: Any) -> "World":
    """The cast's records, behind ``live_server``, with an owner who has a password."""
    from django.contrib.auth.models import User

    settings.PDPP_PUBLIC_URL = live_server.url
    User.objects.create_superuser("alice", password=PASSWORD)
    return committed
