"""Clients whose id is the address of their own description."""

import json
import socket
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.utils import timezone
from oauth2_provider import cimd
from pytest_django import Settings

from owner.oauth import clients
from owner.oauth.models import Registration
from tests.owner.consent.client import Asking, told
from tests.owner.pages.browser import Page

CLIENT = "https://claude.ai/oauth/claude-code-client-metadata"
DOCUMENT = {
    "client_id": CLIENT,
    "client_name": "Claude Code",
    "client_uri": "https://claude.ai",
    "redirect_uris": ["http://localhost/callback", "http://127.0.0.1/callback"],
    "grant_types": ["authorization_code", "refresh_token"],
    "response_types": ["code"],
    "token_endpoint_auth_method": "none",
}
Serve = Callable[..., list[str]]


@pytest.fixture
def serve(settings: Settings) -> Serve:
    """Lets the fetcher find one document, or fail; the list names what it was sent to fetch."""

    def serving(document: Any, *, seconds: int = 3600) -> list[str]:
        fetched: list[str] = []

        class Fetcher:
            def fetch(self, client_id: str) -> tuple[Any, int]:
                fetched.append(client_id)
                if isinstance(document, Exception):
                    raise document
                return document, seconds

        settings.OAUTH2_PROVIDER = settings.OAUTH2_PROVIDER | {"CIMD_METADATA_FETCHER": Fetcher}
        return fetched

    return serving


def test_client_is_identified_by_its_document(asking: Asking, serve: Serve) -> None:
    fetched = serve(DOCUMENT)
    asking.client_id = CLIENT

    tokens = asking.tokens()

    assert asking.refresh(tokens["refresh_token"]).status_code == 200
    assert fetched == [CLIENT]
    row = Registration.unscoped.get(client_id=CLIENT)
    assert (row.source, row.name, row.auth_method) == ("metadata_document", "Claude Code", "none")


@pytest.mark.parametrize(
    ("redirect_uri", "shown"),
    [
        ("http://localhost:33418/callback", "localhost:33418, an app on this computer"),
        ("http://127.0.0.1/callback", "127.0.0.1:80, an app on this computer"),
        ("http://[::1]:5000/callback", "[::1]:5000, an app on this computer"),
        ("x-claude://callback", "an app on this device that opens “x-claude:” links"),
    ],
)
def test_redirect_to_a_local_app_is_never_verified(
    asking: Asking, serve: Serve, redirect_uri: str, shown: str
) -> None:
    serve(DOCUMENT | {"redirect_uris": [redirect_uri]})
    asking.client_id = CLIENT

    page = Page("/oauth/authorize", asking.ask(redirect_uri=redirect_uri))

    assert "Verified:" not in page.text
    assert "Not verified: claude.ai describes this app" in page.text
    assert "This server cannot tell apps on this computer apart." in page.text
    assert f"Your decision is sent to {shown}" in page.text


def test_redirect_to_the_clients_own_host_is_verified(asking: Asking, serve: Serve) -> None:
    uri = "https://claude.ai:8443/callback"
    serve(DOCUMENT | {"redirect_uris": [uri]})
    asking.client_id = CLIENT

    page = Page("/oauth/authorize", asking.ask(redirect_uri=uri))

    assert "Verified: this app belongs to claude.ai." in page.text
    assert "Your decision is sent to claude.ai:8443" in page.text


def test_no_document_is_fetched_before_sign_in(asking: Asking, serve: Serve) -> None:
    fetched = serve(DOCUMENT)
    asking.client_id = CLIENT

    answer = asking.program.get("/oauth/authorize", asking.parameters())

    assert answer["Location"].startswith("/login?")
    asking.exchange("a-code")
    asking.program.post("/oauth/device_authorization", {"client_id": CLIENT})
    assert fetched == []


def test_stale_document_is_fetched_again(asking: Asking, serve: Serve) -> None:
    fetched = serve(DOCUMENT, seconds=300)
    asking.client_id = CLIENT
    asking.ask()
    asking.ask()
    assert len(fetched) == 1

    with time_machine.travel(timezone.now() + timedelta(seconds=301)):
        asking.ask()
        assert len(fetched) == 2


def test_stored_document_is_used_while_fetching_fails(asking: Asking, serve: Serve) -> None:
    serve(DOCUMENT, seconds=300)
    asking.client_id = CLIENT
    asking.ask()
    serve(cimd.CIMDError("no route"))

    with time_machine.travel(timezone.now() + timedelta(seconds=301)):
        page = asking.ask()

    assert told(asking.answer(page))["code"]


@pytest.mark.parametrize(
    "wrong",
    [
        cimd.CIMDError("no route"),
        DOCUMENT | {"client_id": "https://claude.ai/another"},
        DOCUMENT | {"client_secret": "s"},
        DOCUMENT | {"redirect_uris": []},
        DOCUMENT | {"redirect_uris": ["http://thief.example/callback"]},
        DOCUMENT | {"grant_types": ["client_credentials"]},
        DOCUMENT | {"client_name": ["Claude"]},
    ],
)
def test_invalid_document_creates_no_client(asking: Asking, serve: Serve, wrong: Any) -> None:
    serve(wrong)

    answer = asking.ask(client_id=CLIENT)

    assert (answer.status_code, "Location" in answer) == (400, False)
    assert not Registration.unscoped.filter(client_id=CLIENT).exists()


@pytest.mark.parametrize("reads", [True, False])
def test_document_support_can_be_disabled(
    asking: Asking, serve: Serve, settings: Settings, *, reads: bool
) -> None:
    """A host that could have come with its document registers then, as any other does."""
    settings.PDPP_CLIENT_DOCUMENTS = reads
    fetched = serve(DOCUMENT)

    said = asking.program.get("/.well-known/oauth-authorization-server").json()
    answer = asking.ask(client_id=CLIENT)

    assert said["client_id_metadata_document_supported"] is reads
    assert ("client_id_metadata_document" in said["pdpp_registration_modes_supported"]) is reads
    assert (answer.status_code, fetched) == ((200, [CLIENT]) if reads else (400, []))
    assert asking.tokens()["access_token"]


def test_a_document_cannot_take_over_another_kind_of_client(asking: Asking, serve: Serve) -> None:
    Registration.unscoped.filter(client_id=asking.client_id).update(client_id=CLIENT)
    fetched = serve(DOCUMENT)

    asking.ask(client_id=CLIENT)

    assert fetched == []


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",  # noqa: S104 nothing listens, it is looked up
        "::1",
        "fe80::1",
        "fd00::1",
        "::ffff:127.0.0.1",
        "64:ff9b::a00:1",
        "2002:7f00:1::",
    ],
)
def test_document_fetch_refuses_private_addresses(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    """Whatever the name resolves to is judged, and one bad address refuses the name."""
    public = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("8.8.8.8", 443))
    private = (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 443))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [public, private])
    monkeypatch.setattr(socket, "create_connection", _never)

    with pytest.raises(clients.MetadataDocumentError, match="non-public"):
        clients.fetch_document(CLIENT, now=timezone.now())


@pytest.mark.parametrize(
    "client_id",
    [
        "https://claude.ai",
        "https://claude.ai/a/../b",
        "https://user@claude.ai/doc",
        "https://claude.ai/doc#part",
        "https://claude.ai:99999/doc",
        "https://" + "a" * 600 + ".example/doc",
    ],
)
def test_invalid_document_url_is_not_resolved(
    monkeypatch: pytest.MonkeyPatch, client_id: str
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", _never)

    with pytest.raises(clients.MetadataDocumentError):
        clients.fetch_document(client_id, now=timezone.now())


@pytest.mark.parametrize(
    ("status", "kind", "body"),
    [
        (302, "application/json", json.dumps(DOCUMENT)),
        (404, "application/json", json.dumps(DOCUMENT)),
        (200, "text/html", json.dumps(DOCUMENT)),
        (200, "application/json", "x" * 20_000),
        (200, "application/json", "[]"),
        (200, "application/json", "{"),
    ],
)
def test_only_a_small_json_document_is_read(
    monkeypatch: pytest.MonkeyPatch, status: int, kind: str, body: str
) -> None:
    """The connection goes to the address that was judged, and follows no redirect."""
    connected: list[str] = []

    class Pool:
        def __init__(self, host: str, **options: Any) -> None:
            connected.append(host)
            assert options["retries"] is False

        def urlopen(self, _method: str, _path: str, **options: Any) -> Any:
            assert options["redirect"] is False
            return _Answer(status, kind, body.encode())

        def close(self) -> None:
            pass

    public = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("8.8.8.8", 443))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [public])
    monkeypatch.setattr("urllib3.HTTPSConnectionPool", Pool)

    with pytest.raises(clients.MetadataDocumentError):
        clients.fetch_document(CLIENT, now=timezone.now())

    assert connected == ["8.8.8.8"]


class _Answer:
    def __init__(self, status: int, kind: str, body: bytes) -> None:
        self.status, self.headers, self._body = status, {"Content-Type": kind}, body

    def read(self, count: int) -> bytes:
        return self._body[:count]

    def release_conn(self) -> None:
        pass


def _never(*_: Any, **__: Any) -> Any:
    raise AssertionError("the network was used")
