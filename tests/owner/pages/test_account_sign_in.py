"""A mailbox whose owner signs in at the provider (OAuth), with a real IMAP server."""

import os
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest
from django.contrib.auth.models import User
from django.test import Client as HttpClient
from django.utils import timezone

from importers.authoring.https_server import Answer, https_server
from importers.core import source_process
from importers.models import SourceAccount
from importers.sources import account_store
from importers.sources.runner import open_account
from tests.importers.cutting_proxy import cutting_proxy
from tests.importers.dovecot import Dovecot, message, run_dovecot
from tests.importers.identity_provider import (
    CLIENT_ID,
    CLIENT_SECRET,
    IdentityProvider,
    answer_url,
    refused,
    token_settings,
)
from tests.importers.imports import records
from tests.importers.syncing import account_of, run_sync
from tests.owner.pages.browser import Browser
from tests.owner.pages.test_live_accounts import draft
from tests.world import World

pytestmark = pytest.mark.slow

USER = "ida@mail.example"
FORM = "/accounts/connect/imap/other"
ACCESS_TOKEN = re.compile(r"eyJ[\w.-]+")


@pytest.fixture(scope="module")
def server() -> Iterator[Dovecot]:
    with token_settings("xoauth2") as tokens, run_dovecot(tokens) as dovecot:
        dovecot.append(USER, message(1), message(2))
        yield dovecot


@pytest.fixture
def http(world: World, alice: Browser) -> HttpClient:
    alice.http.defaults["HTTP_ACCEPT"] = "text/html"
    alice.http.handler.enforce_csrf_checks = False
    return alice.http


@pytest.fixture
def provider(
    server: Dovecot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[IdentityProvider]:
    provider = IdentityProvider(USER)
    with https_server() as started:
        started.handler = provider.answer
        trusted = tmp_path / "trusted.pem"
        trusted.write_bytes(server.authority.read_bytes() + started.authority.read_bytes())
        monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
        provider.url = started.url()
        yield provider


def begin(
    http: HttpClient, server: Dovecot, provider: IdentityProvider, **values: str
) -> dict[str, str]:
    """Enter the account, and return the provider's answer to the sign-in."""
    entered = {
        "user": USER,
        "host": "localhost",
        "port": str(server.port),
        "allows_private": "on",
        "client_id": CLIENT_ID,
        "client_secret": CLIENT_SECRET,
        "authorization_url": f"{provider.url}authorize",
        "token_url": f"{provider.url}token",
        "scope": "mail offline_access",
    }
    return provider.sign_in(link(http.post(FORM, entered | values).content.decode()))


def link(page: str) -> str:
    """Return the address to which the page leads."""
    return unescape(re.findall(r'<a class="button primary" href="(https:[^"]+)"', page)[0])


def connect(http: HttpClient, server: Dovecot, provider: IdentityProvider) -> str:
    page = http.get(answer_url(begin(http, server, provider)), follow=True).content.decode()
    http.post(
        "/accounts/connect/imap", {"draft": draft(page), "containers": ["INBOX"], "connection": ""}
    )
    return SourceAccount.unscoped.get().pk


def credential(pk: str) -> dict[str, str]:
    return account_store.open_credential(account_of(pk))


def let_expire(pk: str) -> None:
    expired = {**credential(pk), "expires_at": timezone.now().isoformat()}
    account_store.update_credential(account_of(pk), expired)


def letters() -> int:
    return sum(str(each.get("subject")).startswith("Letter") for each in records("messages"))


def test_owner_signs_in_and_the_mailbox_is_read(
    http: HttpClient, server: Dovecot, provider: IdentityProvider, caplog: pytest.LogCaptureFixture
) -> None:
    pk = connect(http, server, provider)
    report = run_sync(pk)
    page = http.get(f"/accounts/{pk}").content.decode()
    stored = credential(pk)

    assert (report.created, account_of(pk).problem) == (2, None)
    assert letters() == 2
    (form,) = provider.forms
    assert form["redirect_uri"].endswith("/accounts/signed-in")
    assert stored["refresh_token"] == provider.refresh_token
    assert dict(open_account(account_of(pk))[1].credential) == {
        "access_token": stored["access_token"]
    }
    assert "Sign out" in page
    for secret in (CLIENT_SECRET, stored["refresh_token"], stored["access_token"]):
        shown = page + caplog.text + str(account_of(pk).settings)
        assert secret not in shown
        assert secret.encode() not in bytes(account_of(pk).credential or b"")


def test_server_with_the_standard_mechanism_is_read(
    http: HttpClient, provider: IdentityProvider
) -> None:
    trusted = Path(os.environ["SSL_CERT_FILE"])
    with token_settings("oauthbearer") as tokens, run_dovecot(tokens) as standard:
        standard.append(USER, message(1))
        trusted.write_bytes(trusted.read_bytes() + standard.authority.read_bytes())
        run_sync(connect(http, standard, provider))

    assert letters() == 1


@pytest.mark.parametrize("rotates", [False, True])
def test_expired_access_token_is_renewed(
    http: HttpClient, server: Dovecot, provider: IdentityProvider, rotates: bool
) -> None:
    pk = connect(http, server, provider)
    provider.rotates = rotates
    for _ in range(2):
        let_expire(pk)
        run_sync(pk)

    assert account_of(pk).problem is None
    assert letters() == 2
    assert [form["grant_type"] for form in provider.forms[1:]] == ["refresh_token"] * 2
    assert credential(pk)["refresh_token"] == provider.refresh_token
    assert (provider.forms[2]["refresh_token"] == provider.forms[1]["refresh_token"]) != rotates


def test_access_token_that_the_mail_server_refuses_is_renewed(
    http: HttpClient, server: Dovecot, provider: IdentityProvider
) -> None:
    pk = connect(http, server, provider)
    broken = {**credential(pk), "access_token": "not-a-token"}
    account_store.update_credential(account_of(pk), broken)

    run_sync(pk)
    problem = account_of(pk).problem
    run_sync(pk)

    assert problem is not None
    assert problem["code"] == "token_refused"
    assert account_of(pk).problem is None
    assert letters() == 2


def test_ended_sign_in_asks_the_owner_and_loses_nothing(
    http: HttpClient, server: Dovecot, provider: IdentityProvider
) -> None:
    pk = connect(http, server, provider)
    run_sync(pk)
    let_expire(pk)
    provider.refusal = refused("invalid_grant")
    run_sync(pk)
    page, home = (http.get(path).content.decode() for path in (f"/accounts/{pk}", "/"))
    before = credential(pk)

    provider.refusal = None
    again = http.post(f"/accounts/{pk}/sign-in", {"client_secret": ""}).content.decode()
    response = http.get(answer_url(provider.sign_in(link(again))))
    run_sync(pk)

    assert "The provider ended the sign-in (invalid_grant). Since" in page
    assert "Sign in again" in page
    assert "The provider ended the sign-in (invalid_grant)." in home
    assert before["refresh_token"].startswith("refresh-1")
    assert response.headers["Location"] == f"/accounts/{pk}"
    assert credential(pk)["refresh_token"].startswith("refresh-2")
    assert account_of(pk).problem is None
    assert letters() == 2


@pytest.mark.parametrize(
    ("refusal", "code", "needs_owner"),
    [
        (refused("invalid_client", 401), "client_refused", True),
        (refused("temporarily_unavailable", 503), "sign_in_unavailable", False),
        (refused("invalid_grant", 503), "sign_in_unavailable", False),
        ((502, {}, b"<html>bad gateway"), "sign_in_unavailable", False),
        ((200, {}, b"[1]"), "sign_in_unavailable", False),
        ((200, {}, b'{"access_token": "a b"}'), "sign_in_unavailable", False),
        ((200, {}, b"x" * 200_000), "sign_in_unavailable", False),
    ],
)
def test_failed_renewal_names_its_cause_and_keeps_the_sign_in(
    http: HttpClient,
    server: Dovecot,
    provider: IdentityProvider,
    refusal: Answer,
    code: str,
    needs_owner: bool,
) -> None:
    pk = connect(http, server, provider)
    let_expire(pk)
    before = credential(pk)
    provider.refusal = refusal

    run_sync(pk)

    account = account_of(pk)
    assert account.problem is not None
    assert account.problem["code"] == code
    assert "stranger" not in str(account.problem)
    assert (account.due_at - timezone.now()).total_seconds() > (1_000 if needs_owner else 30)
    assert credential(pk) == before
    provider.refusal = None
    run_sync(pk)
    assert account_of(pk).problem is None


def test_redirect_of_the_token_address_gets_no_secret(
    http: HttpClient, server: Dovecot, provider: IdentityProvider
) -> None:
    pk = connect(http, server, provider)
    let_expire(pk)
    port = urlsplit(provider.url).port
    assert port is not None
    with cutting_proxy(port) as other:
        location = f"https://localhost:{other.port}/token"
        provider.refusal = (307, {"Location": location}, b"")
        asked = len(provider.forms)
        run_sync(pk)

    problem = account_of(pk).problem
    assert problem is not None
    assert problem["code"] == "sign_in_unavailable"
    assert f"leads to localhost:{other.port}, which got nothing" in problem["detail"]
    assert len(provider.forms) == asked + 1


def test_answer_counts_once_in_the_session_that_began(
    http: HttpClient, server: Dovecot, provider: IdentityProvider
) -> None:
    answer = begin(http, server, provider)
    other = HttpClient(HTTP_ACCEPT="text/html")
    other.cookies.clear()
    stranger = other.get(answer_url(answer))
    other.force_login(User.objects.get(username="alice"))

    elsewhere = other.get(answer_url(answer), follow=True).content.decode()
    forged = http.get(answer_url({**answer, "state": "x" * 43}), follow=True).content.decode()
    asked_before = len(provider.forms)
    accepted = http.get(answer_url(answer)).content.decode()
    replayed = http.get(answer_url(answer), follow=True).content.decode()

    assert "/login" in stranger.headers["Location"]
    for refusal in (elsewhere, forged, replayed):
        assert "This sign-in is too old, was used already, or began in another browser." in refusal
    assert asked_before == 0
    assert "Inbox (2)" in accepted
    assert len(provider.forms) == 1


def test_answer_after_half_an_hour_is_refused(
    http: HttpClient, server: Dovecot, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("owner.live_accounts.DRAFT_SECONDS", -1)
    answer = begin(http, server, provider)

    assert "too old" in http.get(answer_url(answer), follow=True).content.decode()
    assert provider.forms == []


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("access_denied", "The sign-in was declined at the provider."),
        ("temporarily_unavailable", "Try again later."),
        ("<script>", "Check the client ID, the scope and the redirect URI there."),
    ],
)
def test_error_of_the_provider_is_told_in_words(
    http: HttpClient, server: Dovecot, provider: IdentityProvider, error: str, said: str
) -> None:
    answer = begin(http, server, provider)

    page = http.get(answer_url({"state": answer["state"], "error": error}), follow=True)

    assert said in page.content.decode()
    assert "<script>" not in page.content.decode()
    assert page.request["PATH_INFO"] == FORM
    for entered in (USER, CLIENT_ID, f"{provider.url}token", str(server.port), "offline_access"):
        assert entered in page.content.decode()
    assert CLIENT_SECRET not in page.content.decode()
    assert provider.forms == []


def test_failed_sign_in_connects_nothing(
    http: HttpClient, server: Dovecot, provider: IdentityProvider
) -> None:
    answer = begin(http, server, provider, client_secret="wrong")
    secret = http.get(answer_url(answer), follow=True).content.decode()
    provider.user = "someone-else@mail.example"
    answer = begin(http, server, provider)
    user = http.get(answer_url(answer), follow=True).content.decode()

    assert "The provider refused the client (invalid_client)." in secret
    assert "The mail server refused the sign-in." in user
    assert not SourceAccount.unscoped.exists()


def test_signing_out_removes_the_sign_in(
    http: HttpClient, server: Dovecot, provider: IdentityProvider
) -> None:
    pk = connect(http, server, provider)
    http.post(f"/accounts/{pk}", {"action": "forget"})
    page = http.get(f"/accounts/{pk}").content.decode()
    http.post(f"/accounts/{pk}", {"action": "replace", "password": "x"})

    assert account_of(pk).credential is None
    assert "You signed out. Sign in again to go on." in page
    again = http.post(f"/accounts/{pk}/sign-in", {"client_secret": CLIENT_SECRET})
    http.get(answer_url(provider.sign_in(link(again.content.decode()))))
    run_sync(pk)
    assert letters() == 2


def test_owner_chooses_other_folders_after_the_token_expired(
    http: HttpClient, server: Dovecot, provider: IdentityProvider
) -> None:
    pk = connect(http, server, provider)
    let_expire(pk)

    page = http.get(f"/accounts/{pk}/choices").content.decode()

    assert "Inbox (2)" in page
    assert not ACCESS_TOKEN.search(page)


@pytest.mark.parametrize(
    ("name", "host", "parameters"),
    [
        (
            "google",
            "accounts.google.com",
            {"scope": "https://mail.google.com/", "access_type": "offline", "prompt": "consent"},
        ),
        (
            "microsoft",
            "login.microsoftonline.com",
            {"scope": "https://outlook.office.com/IMAP.AccessAsUser.All offline_access"},
        ),
    ],
)
def test_known_provider_needs_a_client_only(
    http: HttpClient, name: str, host: str, parameters: dict[str, str]
) -> None:
    address = f"/accounts/connect/imap/{name}"
    shown = http.get(address).content.decode()
    values = {"user": USER, "client_id": CLIENT_ID, "client_secret": CLIENT_SECRET}

    page = http.post(address, values).content.decode()

    found = urlsplit(link(page))
    asked = dict(parse_qsl(found.query))
    assert f'href="{address}"' in http.get("/accounts/connect/imap").content.decode()
    assert "/accounts/signed-in</code>" in shown
    assert (found.scheme, found.hostname) == ("https", host)
    assert asked.items() >= parameters.items() | {("login_hint", USER), ("client_id", CLIENT_ID)}
    assert asked["redirect_uri"] in page
    assert CLIENT_SECRET not in page


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"token_url": "http://localhost/token"}, "address that begins with https://"),
        ({"authorization_url": "javascript:alert(1)"}, "address that begins with https://"),
        ({"client_id": ""}, "This field is required."),
    ],
)
def test_wrong_addresses_are_refused(http: HttpClient, values: dict[str, str], said: str) -> None:
    entered = {
        "user": USER,
        "host": "imap.mail.example",
        "port": "993",
        "client_id": CLIENT_ID,
        "authorization_url": "https://id.example/authorize",
        "token_url": "https://id.example/token",
        "scope": "mail",
    }

    assert said in http.post(FORM, entered | values).content.decode()


def test_token_address_must_not_be_private_without_permission(
    http: HttpClient, server: Dovecot, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected: list[str] = []
    monkeypatch.setattr(source_process.socket, "create_connection", connected.append)
    answer = begin(http, server, provider, allows_private="")

    page = http.get(answer_url(answer), follow=True).content.decode()

    assert "The server has a private address" in page
    assert connected == provider.forms == []


def test_source_without_sign_in_has_no_such_page(http: HttpClient) -> None:
    for address in ("/accounts/connect/caldav/google", "/accounts/connect/imap/nobody"):
        assert http.get(address).status_code == 404
