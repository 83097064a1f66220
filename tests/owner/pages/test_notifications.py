"""The page for notifications: add a channel, choose what it carries, test it and remove it."""

from collections.abc import Iterator
from typing import Any

import pytest

from evidence.events import webhook_client
from importers.authoring.https_server import HttpsServer, https_server
from operations.notifications.models import NotificationChannel, NotificationKind
from operations.notifications.store import MAX_CHANNELS, open_address
from tests.operations.notification_receivers import add_channel, announce
from tests.owner.pages.browser import Browser, Page
from tests.world import World

MAIL = {
    "recipient": "alice@home.example",
    "host": "mail.example",
    "security": "tls",
    "port": "465",
    "user": "alice",
    "password": "hush-7f3a",
    "sender": "pdpp@home.example",
}


@pytest.fixture
def alice(alice: Browser) -> Browser:
    alice.http.defaults["HTTP_ACCEPT"] = "text/html"
    return alice


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpsServer]:
    with https_server() as server:
        monkeypatch.setenv("SSL_CERT_FILE", str(server.authority))
        webhook_client.ssl_context.cache_clear()
        yield server
    webhook_client.ssl_context.cache_clear()


def fill(page: Page, values: dict[str, str]) -> Page:
    for name, value in values.items():
        page.form.fill(name, value)
    return page


def add(alice: Browser, transport: str, **values: str) -> Page:
    page = fill(alice.open(f"/notifications/add/{transport}"), values)
    return alice.press(page.form)


def test_owner_adds_tests_changes_and_removes_a_channel(
    world: World, alice: Browser, receiver: HttpsServer
) -> None:
    receiver.pages["/hook-7f3a"] = (200, {}, b"")
    page = alice.open(alice.open("/").link("Notifications"))
    assert "You get no notifications yet." in page.text

    page = add(alice, "webhook", url=receiver.url("/hook-7f3a"), allows_private="on")
    assert "The channel is added." in page.text
    assert "hook-7f3a" not in page.html, "the path of a webhook is its secret"
    page = alice.press(page.form, "action", "test")
    assert "The test was sent." in page.text
    assert [path for _, path, _ in receiver.requests] == ["/hook-7f3a"]

    page.form.untick("An app was paused automatically")
    page = alice.press(page.form, "action", "save")
    assert not page.form.is_ticked("An app was paused automatically")
    assert page.form.is_ticked("A backup failed")
    page = alice.press(page.form, "action", "remove")
    assert not NotificationChannel.unscoped.exists()


def test_page_shows_no_secret(world: World, alice: Browser) -> None:
    add(alice, "mail", **MAIL)
    add(alice, "ntfy", url="https://ntfy.example/secret-topic", token="tk-hush")
    page = alice.open("/notifications")

    assert "Mail to alice@home.example through mail.example" in page.text
    assert "ntfy to ntfy.example" in page.text
    for secret in ("hush", "secret-topic"):
        assert secret not in page.html
    refused = add(alice, "mail", **MAIL | {"recipient": "none"})
    assert MAIL["password"] not in refused.html


def test_broken_channel_is_on_the_home_page(world: World, alice: Browser) -> None:
    add_channel()
    page = alice.open("/notifications")

    page = alice.press(page.form, "action", "test")

    assert "The test was not sent. The channel shows why." in page.text
    assert "The server's address is unknown or not allowed." in page.text
    home = alice.open("/")
    assert "Notifications by webhook have not arrived since" in home.text
    assert home.link("Correct the channel") == "/notifications"


@pytest.mark.parametrize(
    ("transport", "values", "error"),
    [
        ("webhook", {"url": "http://hook.example/x"}, "must be https"),
        ("webhook", {"url": "https://user:pw@hook.example/x"}, "neither a user nor a fragment"),
        ("webhook", {"url": "file:///etc/passwd"}, "must have a host"),
        ("ntfy", {"url": "https://ntfy.example/"}, "Enter the topic too"),
        ("mail", MAIL | {"security": "none"}, "A password needs encryption."),
        ("mail", MAIL | {"host": "mail.example/x"}, "Enter a host name"),
        ("mail", MAIL | {"sender": "a@b.example\r\nBcc: c@d.example"}, "Enter a valid email"),
        (
            "mail",
            MAIL | {"security": "none", "user": "", "password": ""},
            "Without encryption, the server must be in your network.",
        ),
    ],
)
def test_wrong_address_is_refused(
    world: World, alice: Browser, transport: str, values: dict[str, str], error: str
) -> None:
    page = add(alice, transport, **values)

    assert any(error in each for each in page.errors), page.errors
    assert not NotificationChannel.unscoped.exists()


def test_channels_are_bounded(world: World, alice: Browser) -> None:
    for _ in range(MAX_CHANNELS):
        add_channel()

    page = alice.open("/notifications/add/webhook")

    assert f"You have {MAX_CHANNELS} channels." in page.text


def test_only_known_kinds_are_stored(world: World, alice: Browser) -> None:
    channel = add_channel(kinds=["tripwire"])
    alice.http.handler.enforce_csrf_checks = False

    values: dict[str, Any] = {"channel": channel.pk, "action": "save", "kinds": ["digest", "x"]}
    alice.http.post("/notifications", values)
    channel.refresh_from_db()
    assert channel.kinds == ["tripwire"]
    alice.http.post("/notifications", {**values, "kinds": ["digest"]})

    channel.refresh_from_db()
    assert channel.kinds == [NotificationKind.DIGEST]
    assert open_address(channel)
    assert announce() == []
