"""No answer of any address, good or bad, lets a browser load, frame or guess anything."""

import re
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from owner.accounts import sign_in_throttle
from pdpp_site.security_headers import SECURITY_HEADERS
from tests.owners import sign_up
from tests.pdpp_site.test_site import site
from tests.pdpp_site.web import served
from tests.world import World

pytestmark = pytest.mark.slow

PERSON = {"Accept": "text/html"}


def addresses(patterns: list[URLPattern | URLResolver], prefix: str = "/") -> set[str]:
    """An address for every route; what a converter stands for is not there."""
    found = set()
    for pattern in patterns:
        text = prefix + re.split(r"[\^\[(]", str(pattern.pattern), maxsplit=1)[0]
        if isinstance(pattern, URLResolver):
            found |= addresses(pattern.url_patterns, text)
        else:
            found.add(re.sub(r"<[^>]+>", "1", text))
    return found


def check(answer: Any, address: str) -> None:
    headers = {name.lower(): value for name, value in answer.headers.items()}
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy, address
    # The page of the API draws itself with a library that writes styles; it shows no record.
    styled = address == "/docs/"
    policy = policy.replace("style-src 'self' 'unsafe-inline'", "") if styled else policy
    for loose in ("unsafe-inline", "unsafe-eval", "*", "http:", "https:"):
        assert loose not in policy, (address, policy)
    for needed in ("frame-ancestors 'none'", "base-uri 'none'"):
        assert needed in policy or "sandbox" in policy, (address, policy)
    for name in ("X-Content-Type-Options", "X-Frame-Options", "Cross-Origin-Opener-Policy"):
        assert headers[name.lower()] == SECURITY_HEADERS[name], address
    assert headers["referrer-policy"] in {"same-origin", "strict-origin", "no-referrer"}, address


@pytest.mark.parametrize("method", ["get", "post"])
@pytest.mark.parametrize("signed_in", [True, False])
def test_every_address_is_fenced(world: World, signed_in: bool, method: str) -> None:
    browser = Client(raise_request_exception=False)
    if signed_in:
        browser.force_login(sign_up("alice"))

    found = addresses(get_resolver().url_patterns) - {"/admin/logout/"}
    assert len(found) > 90
    statuses = set()
    for address in sorted(found):
        answer = getattr(browser, method)(address, headers=PERSON)
        statuses.add(answer.status_code)
        assert answer.status_code < 500, address
        check(answer, address)
        if answer.streaming:
            list(answer.streaming_content)
    assert len(statuses) > 4


def test_answers_with_records_are_fenced(world: World) -> None:
    for path in ("/v1/streams/messages/records", "/v1/schema", "/v1/search", "/v1/nothing"):
        headers = {"Authorization": f"Bearer {world.tokens['bob']}"}
        check(Client(headers=headers).get(path), path)


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/static/owner/ui.css", "/static/nothing.css"])
def test_files_are_fenced(client: Client, path: str) -> None:
    answer = client.get(path)
    check(answer, path)
    answer.close()


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/mcp", "/healthz", "/readyz", "/v1/schema"])
@pytest.mark.parametrize("host", ["localhost", "evil.example"])
def test_what_never_comes_to_django_is_fenced(path: str, host: str) -> None:
    with served(site()) as web:
        check(web.get(path, Host=host), path)


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (OperationalError("secret"), 503, "service_unavailable"),
        (KeyError("secret"), 500, "internal_error"),
    ],
)
@pytest.mark.parametrize("accept", ["text/html", "application/json", "*/*"])
def test_a_failure_is_typed_for_programs_and_a_page_for_people(
    monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, code: str, accept: str
) -> None:
    def fail(*args: object, **more: object) -> None:
        raise error

    monkeypatch.setattr(sign_in_throttle, "record_attempt", fail)
    client = Client(raise_request_exception=False)

    answer = client.get("/set-up/x/", headers={"Accept": accept})

    assert answer.status_code == status
    check(answer, accept)
    assert ("Retry-After" in answer) == (status == 503)
    assert "secret" not in answer.content.decode()
    assert answer["Request-Id"] in answer.content.decode()
    if accept == "text/html":
        assert "<h1>" in answer.content.decode()
    else:
        assert answer.json()["error"]["code"] == code


def test_an_unknown_address_is_answered_in_the_requested_format() -> None:
    assert Client().get("/nothing").json()["error"]["code"] == "not_found"
    assert "Page not found" in Client().get("/nothing", headers=PERSON).content.decode()


def test_a_form_without_csrf_token_asks_to_reload() -> None:
    strict = Client(enforce_csrf_checks=True)

    answer = strict.post("/login", headers=PERSON)

    assert answer.status_code == 403
    assert "reload the page" in answer.content.decode()
    assert strict.post("/login").json()["error"]["code"] == "permission_error"
