"""A server with the cast's records, and browsers in front of it."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection
from selenium.webdriver import Chrome

from tests.browser.chromium import DESKTOP, POLL, SECONDS, chromium, resize
from tests.owners import sign_up
from tests.tools import require_program

if TYPE_CHECKING:
    from tests.world import World

PASSWORD = "correct horse battery"
BUSY = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
AND state <> 'idle'
"""


@pytest.fixture(scope="session")
def _browser(django_db_setup: None) -> Iterator[Chrome]:
    """Quits before the test database is dropped: its open connections keep threads of the server."""
    for name in ("chromium", "chromedriver"):
        require_program(name)
    with chromium() as driver:
        yield driver


@pytest.fixture
def browser(_browser: Chrome) -> Iterator[Chrome]:
    """Yield a browser that is signed in to nothing, and leave the page before its rows are removed."""
    _browser.execute_cdp_cmd("Network.clearBrowserCookies", {})
    resize(_browser, DESKTOP)
    yield _browser
    _browser.switch_to.default_content()
    _browser.get("about:blank")


@pytest.fixture
def served(committed: "World", live_server: Any, settings: Any) -> Iterator["World"]:
    """Yield the cast's records, behind ``live_server``, with an owner who has a password."""

    settings.PDPP_PUBLIC_URL = live_server.url
    sign_up("alice", password=PASSWORD)
    yield committed
    _wait_for_open_requests()


def _wait_for_open_requests() -> None:
    """Wait until no request of a page that was left holds a lock that the flush would wait for."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        with connection.cursor() as cursor:
            cursor.execute(BUSY)
            if cursor.fetchone() == (0,):
                return
        time.sleep(POLL)
    raise AssertionError("a request of the last page does not end")
