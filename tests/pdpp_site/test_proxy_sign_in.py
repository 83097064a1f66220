"""Sign-in through a proxy: who may name the owner, and what that is not enough for."""

import json
import socket
from collections.abc import Iterable, Iterator
from typing import Any, cast

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from django.test import Client
from django.urls import get_resolver

from mcp_adapter.streamable_http import McpEndpoint
from owner import second_factor
from owner.accounts import proxy_sign_in
from pdpp_site.asgi_app import AsgiApp
from pdpp_site.env import Environment
from pdpp_site.wsgi_bridge import StartResponse
from tests.owner.consent.test_second_factor import phone
from tests.owners import sign_up
from tests.pdpp_site.test_site import Endpoint
from tests.pdpp_site.web import Web, served
from tests.world import PERSONAL, World

PASSWORD = "correct horse battery"
PROXY, STRANGER = "127.0.0.9", "127.0.0.2"
ERASE = f"/erase?of=connection&connection={PERSONAL}"


def told(environ: dict[str, Any], start: StartResponse) -> list[bytes]:
    """Answer with what Django would know of the owner's name."""
    names = [name for name in environ if "user" in name.lower()]
    body = json.dumps({name: environ[name] for name in names}).encode()
    start("200 OK", [("Content-Length", str(len(body)))])
    return [body]


@pytest.fixture
def web(settings: Any) -> Iterator[Web]:
    settings.PDPP_PROXY_USER_HEADER = "remote-user"
    settings.PDPP_PROXY_USER_PEERS = [PROXY]
    with served(AsgiApp(application=told, endpoint=cast("McpEndpoint", Endpoint()))) as web:
        yield web


def ask(web: Web, peer: str, *headers: str) -> dict[str, str]:
    head = "".join(f"{each}\r\n" for each in headers)
    request = f"GET /login HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{head}\r\n"
    return exchange(web, peer, request)


def exchange(web: Web, peer: str, request: str) -> dict[str, str]:
    with socket.create_connection(("127.0.0.1", web.port), 60, source_address=(peer, 0)) as line:
        line.sendall(request.encode())
        said = b"".join(iter(lambda: line.recv(65_536), b""))
    body: dict[str, str] = json.loads(said.partition(b"\r\n\r\n")[2].strip())
    return body


def test_listed_peer_names_the_owner(web: Web) -> None:
    assert ask(web, PROXY, "Remote-User: alice") == {"pdpp.proxy_user": "alice"}


@pytest.mark.parametrize("peer", [STRANGER, "127.0.0.1"])
@pytest.mark.parametrize(
    "headers",
    [
        ("Remote-User: alice",),
        ("REMOTE-USER: alice",),
        ("Remote_User: alice",),
        ("Remote-User: alice", f"X-Forwarded-For: {PROXY}"),
        ("Remote-User: alice", f"Forwarded: for={PROXY}"),
    ],
)
def test_header_of_any_other_peer_is_removed(web: Web, peer: str, headers: tuple[str, ...]) -> None:
    assert ask(web, peer, *headers) == {}, "a trusted proxy for addresses may not name the owner"


@pytest.mark.parametrize("peer", [PROXY, STRANGER])
def test_no_trailer_reaches_a_view_or_names_the_owner(web: Web, peer: str) -> None:
    request = (
        "POST /login HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        "Transfer-Encoding: chunked\r\nTrailer: Remote-User, X-User\r\n\r\n"
        "1\r\nx\r\n0\r\nRemote-User: alice\r\nX-User: alice\r\n\r\n"
    )

    assert exchange(web, peer, request) == {}


@pytest.mark.parametrize(
    "headers",
    [
        ("Remote_User: alice",),
        ("REMOTE_USER: alice",),
        ("Remote-User: alice", "Remote-User: mallory"),
        ("Remote-User: alice", "remote_user: mallory"),
        ("X-Remote-User: alice",),
        (),
    ],
)
def test_proxy_that_passes_on_a_clients_header_names_nobody(
    web: Web, headers: tuple[str, ...]
) -> None:
    assert ask(web, PROXY, *headers).get("pdpp.proxy_user") is None


def test_header_is_removed_only_where_the_setting_names_one(settings: Any) -> None:
    settings.PDPP_PROXY_USER_HEADER, settings.PDPP_PROXY_USER_PEERS = "", []
    with served(AsgiApp(application=told, endpoint=cast("McpEndpoint", Endpoint()))) as web:
        answer = ask(web, PROXY, "Remote-User: alice")

    assert "pdpp.proxy_user" not in answer, "Django reads no other"


@pytest.mark.parametrize("name", ["Cookie", "Host", "X-Forwarded-For", "a b", "x_user", "Größe"])
def test_no_header_that_clients_need_names_the_owner(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("PDPP_PROXY_USER_HEADER", name)

    with pytest.raises(ImproperlyConfigured, match="PDPP_PROXY_USER_HEADER takes a header"):
        Environment().header_name("PDPP_PROXY_USER_HEADER", peers=[PROXY])


@pytest.mark.parametrize("peers", [[], ["*"], ["10.0.0.1", "*"]])
def test_peers_must_be_listed(monkeypatch: pytest.MonkeyPatch, peers: list[str]) -> None:
    assert Environment().header_name("PDPP_PROXY_USER_HEADER", peers=peers) == "", "off by default"
    monkeypatch.setenv("PDPP_PROXY_USER_HEADER", "Remote-User")

    with pytest.raises(ImproperlyConfigured, match="needs PDPP_PROXY_USER_PEERS"):
        Environment().header_name("PDPP_PROXY_USER_HEADER", peers=peers)


def test_nobody_is_signed_in_while_the_setting_is_empty(alice: User, settings: Any) -> None:
    before = behind_proxy()
    before.get("/login")
    settings.PDPP_PROXY_USER_HEADER = ""

    for browser in (behind_proxy(), before):
        assert "/login" in browser.get("/connected")["Location"]
        assert browser.get("/login").status_code == 200


@pytest.fixture
def alice(world: World, settings: Any) -> User:
    settings.PDPP_PROXY_USER_HEADER = "remote-user"
    return sign_up("alice", password=PASSWORD)


def behind_proxy(name: str = "alice") -> Client:
    """A browser whose proxy names somebody; the server puts that into the environment."""
    return Client(**{"pdpp.proxy_user": name}, headers={"Accept": "text/html"})


def test_proxy_signs_the_owner_in(alice: User) -> None:
    browser = behind_proxy()

    answer = browser.get("/connected", follow=True)

    assert answer.redirect_chain == [("/login?next=/connected", 302), ("/connected", 302)]
    assert answer.status_code == 200


@pytest.mark.parametrize("name", ["mallory", "staff", "inactive", "", "Alice", "\xff\xfe"])
def test_only_the_owners_account_is_signed_in(alice: User, name: str) -> None:
    User.objects.create_user("staff", is_staff=True)
    sign_up("inactive", owner_id="inactive")
    User.objects.filter(username="inactive").update(is_active=False)
    users = User.objects.count()
    browser = behind_proxy(name)

    assert browser.get("/connected", follow=True).redirect_chain[-1][0].startswith("/login")
    assert User.objects.count() == users, "no account is created"


def test_header_of_a_request_alone_is_not_read(alice: User) -> None:
    browser = Client(REMOTE_USER="alice", headers={"Remote-User": "alice", "Accept": "text/html"})

    assert "/login" in browser.get("/connected")["Location"]
    assert browser.get("/login").status_code == 200


def test_session_ends_with_the_header(alice: User) -> None:
    browser = behind_proxy()
    browser.get("/login")
    assert browser.get("/connected").status_code == 200

    del browser.defaults["pdpp.proxy_user"]
    without = browser.get("/connected")
    browser.defaults["pdpp.proxy_user"] = "mallory"

    assert "/login" in without["Location"]
    assert "/login" in browser.get("/connected")["Location"]


def test_requests_of_apps_start_no_session(alice: User, world: World) -> None:
    browser = Client(**{"pdpp.proxy_user": "alice"})

    answer = browser.get("/v1/schema", headers={"Authorization": f"Bearer {world.tokens['bob']}"})
    unsigned = browser.get("/v1/schema")

    assert (answer.status_code, unsigned.status_code) == (200, 401)
    assert not browser.cookies


def test_second_factor_is_still_asked_for(alice: User) -> None:
    second_factor.start_enrolment(alice)
    assert second_factor.confirm_enrolment(alice, phone(alice))
    browser = behind_proxy()

    answer = browser.get("/connected", follow=True)

    assert answer.redirect_chain[-1][0] == "/login/second?next=%2Fconnected"


PROTECTED = (
    ERASE,
    "/demo/remove",
    "/notifications/add/mail",
    "/connected/give",
    f"/retention?connection={PERSONAL}",
    "/password",
    "/second-factor",
    "/backups/key",
    "/backups/schedule",
)


def names(patterns: Iterable[Any], prefix: str = "") -> Iterator[str]:
    for each in patterns:
        if hasattr(each, "url_patterns"):
            inner = f"{each.namespace}:" if each.namespace else prefix
            yield from names(each.url_patterns, inner)
        else:
            yield f"{prefix}{each.name}"


def test_each_protected_page_exists() -> None:
    known = set(names(get_resolver().url_patterns))

    assert (proxy_sign_in.PROTECTED | proxy_sign_in.PROTECTED_FORMS) - known == set()


@pytest.mark.parametrize("path", PROTECTED)
def test_proxy_is_not_enough_for_erasing_keys_and_second_factors(alice: User, path: str) -> None:
    browser = behind_proxy()
    browser.get("/login")

    for answer in (browser.get(path), browser.post(path, {"action": "start"})):
        assert answer.status_code == 302, path
        assert answer["Location"].startswith("/login/confirm?next=")
    confirm = answer["Location"]
    assert "Confirm that it is you" in browser.get(confirm).content.decode()
    assert browser.post(confirm, {"code": "wrong"}).status_code == 200
    assert "/login/confirm" in browser.get(path)["Location"]
    assert browser.post(confirm, {"code": PASSWORD}).status_code == 302

    opened = browser.get(path)
    assert (
        opened.status_code == 200 or opened["Location"] == "/"
    )  # without demo data, its page leads home


def test_confirmation_asks_for_the_second_factor_where_there_is_one(alice: User) -> None:
    second_factor.start_enrolment(alice)
    code = phone(alice)
    assert second_factor.confirm_enrolment(alice, code)
    [recovery, other, *_] = second_factor.renew_recovery_codes(alice)
    browser = behind_proxy()
    browser.get("/login")
    browser.post("/login/second", {"code": recovery})
    session = browser.session
    session["confirmed_at"] = 0
    session.save()

    confirm = browser.get(ERASE)["Location"]
    assert browser.post(confirm, {"code": PASSWORD}).status_code == 200
    assert browser.post(confirm, {"code": other}).status_code == 302
    assert browser.get(ERASE).status_code == 200


def test_wrong_confirmations_are_throttled(alice: User) -> None:
    browser = behind_proxy()
    browser.get("/login")
    answers = [browser.post("/login/confirm", {"code": "wrong"}) for _ in range(7)]

    assert answers[-1].status_code == 429
    assert browser.post("/login/confirm", {"code": PASSWORD}).status_code == 429


def test_passkeys_need_a_confirmation_too(alice: User) -> None:
    browser = behind_proxy()
    browser.get("/login")

    refused = browser.post("/login/passkeys/options/add")

    assert refused.status_code == 403
    assert refused.json()["confirm"].startswith("/login/confirm")
    assert "/login/confirm" in browser.post("/login/passkeys/add", {"passkey": "{}"})["Location"]


def test_owner_with_the_password_is_not_asked(alice: User) -> None:
    browser = Client(headers={"Accept": "text/html"})
    browser.post("/login", {"username": "alice", "password": PASSWORD})

    assert browser.get(ERASE).status_code == 200
