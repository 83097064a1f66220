"""Programs introduce themselves."""

import base64
import json
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.utils import timezone

from evidence import limits
from owner.oauth.models import Registration
from owner.oauth.requests import delete_unused_registrations
from tests.owner.consent.client import CALLBACK, Asking
from tests.world import World

pytestmark = pytest.mark.slow

HOSTS = {
    "client_name": "Claude Code",
    "redirect_uris": ["http://localhost:33418/callback"],
    "grant_types": ["authorization_code", "refresh_token"],
    "response_types": ["code"],
    "token_endpoint_auth_method": "none",
    "application_type": "native",
    "scope": "pdpp:read offline_access",
    "client_uri": "https://claude.ai",
}
"""What hosts send, to the letter (hosts.md)."""


def test_registration_returns_the_metadata(asking: Asking) -> None:
    answer = asking.register(**HOSTS, resource="https://x.example/mcp", jwks={"keys": []})

    assert answer.status_code == 201
    body = answer.json()
    assert body.pop("client_id").startswith("cli_")
    assert isinstance(body.pop("client_id_issued_at"), int)
    assert body == HOSTS


@pytest.mark.parametrize("method", ["none", "client_secret_basic", "client_secret_post"])
def test_every_way_to_prove_oneself_is_answered_as_asked(world: World, method: str) -> None:
    asking = Asking.registered(token_endpoint_auth_method=method)
    answer = asking.register(token_endpoint_auth_method=method).json()
    assert answer["token_endpoint_auth_method"] == method
    asking.client_id = answer["client_id"]
    if method == "none":
        assert "client_secret" not in answer
        assert asking.exchange(asking.code()).status_code == 200
        return

    secret = answer["client_secret"]
    assert answer["client_secret_expires_at"] == 0
    assert asking.exchange(asking.code()).json()["error"] == "invalid_client"
    assert asking.exchange(asking.code(), client_secret="wrong").json()["error"] == (
        "invalid_client"
    )
    assert asking.exchange(asking.code(), client_secret=secret).status_code == 200
    basic = base64.b64encode(f"{asking.client_id}:{secret}".encode()).decode()
    asking.program.defaults["HTTP_AUTHORIZATION"] = f"Basic {basic}"
    assert asking.exchange(asking.code(), client_id=None).status_code == 200
    asking.program.defaults["HTTP_AUTHORIZATION"] = "Basic AAAA"
    refused = asking.exchange(asking.code(), client_id=None)
    assert (refused.status_code, refused["WWW-Authenticate"]) == (401, 'Basic realm="token"')


def test_a_program_without_an_address_gets_the_device_grant(asking: Asking) -> None:
    answer = asking.register(redirect_uris=[], client_name="PDPP CLI").json()

    assert answer["grant_types"][0] == "urn:ietf:params:oauth:grant-type:device_code"
    assert answer["response_types"] == []


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"redirect_uris": ["http://claude.ai/callback"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["javascript:alert(1)"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["data:text/html,x"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https://x.example/#here"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https://me@x.example/"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https://*.x.example/"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https://*/"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https://a*.x.example/"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https://%2a.x.example/"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["http://*.localhost/"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["x-app://*/callback"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["/callback"]}, "invalid_redirect_uri"),
        ({"redirect_uris": [7]}, "invalid_redirect_uri"),
        ({"redirect_uris": "https://x.example/"}, "invalid_redirect_uri"),
        ({"redirect_uris": [], "grant_types": ["authorization_code"]}, "invalid_redirect_uri"),
        ({"grant_types": ["client_credentials"]}, "invalid_client_metadata"),
        ({"grant_types": "authorization_code"}, "invalid_client_metadata"),
        ({"response_types": ["token"], "grant_types": ["authorization_code"]},
         "invalid_client_metadata"),
        ({"token_endpoint_auth_method": "private_key_jwt"}, "invalid_client_metadata"),
        ({"client_name": 7}, "invalid_client_metadata"),
        ({"client_name": "nul\x00"}, "invalid_client_metadata"),
    ],
)  # fmt: skip
def test_what_could_not_work_is_refused(asking: Asking, wrong: dict[str, Any], error: str) -> None:
    answer = asking.register(**wrong)

    assert (answer.status_code, answer.json()["error"]) == (400, error)


@pytest.mark.parametrize("body", ["", "[]", "null", "{", '"text"'])
def test_metadata_is_an_object(asking: Asking, body: str) -> None:
    answer = asking.program.post("/oauth/register", body, "application/json")

    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_client_metadata")


def test_metadata_is_sent_as_json(asking: Asking) -> None:
    """A browser sends a web page's JSON elsewhere only after it has asked."""
    metadata = json.dumps({"redirect_uris": [CALLBACK]})
    sent = {
        kind: asking.program.post("/oauth/register", metadata, kind)
        for kind in ("application/json", "application/json; charset=utf-8", "text/plain")
    }
    assert [answer.status_code for answer in sent.values()] == [201, 201, 400]
    assert sent["text/plain"].json()["error"] == "invalid_client_metadata"


def test_oversized_metadata_is_refused(asking: Asking) -> None:
    answer = asking.register(contacts=["x" * limits.REGISTRATION_BYTES])

    assert answer.status_code == 400


def test_registrations_per_address_are_limited(asking: Asking) -> None:
    for _ in range(limits.REGISTRATIONS_PER_ADDRESS - 1):
        assert asking.register().status_code == 201

    refused = asking.register()

    assert (refused.status_code, refused.json()["error"]) == (429, "slow_down")
    assert int(refused["Retry-After"]) > 0
    elsewhere = asking.program.post(
        "/oauth/register",
        {"redirect_uris": [CALLBACK]},
        "application/json",
        REMOTE_ADDR="198.51.100.7",
    )
    assert elsewhere.status_code == 201
    with time_machine.travel(timezone.now() + timedelta(hours=1, seconds=1)):
        assert asking.register().status_code == 201


def test_total_registrations_are_limited(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REGISTRATIONS_PER_HOUR", 1)

    assert asking.register().status_code == 429


def test_a_registration_that_nobody_signed_in_with_is_forgotten(asking: Asking) -> None:
    unused = asking.register().json()["client_id"]
    asking.tokens()
    later = timezone.now() + timedelta(seconds=limits.REGISTRATION_UNUSED_SECONDS + 1)

    assert delete_unused_registrations(later) == 1

    assert not Registration.unscoped.filter(pk=unused).exists()
    assert Registration.unscoped.filter(pk=asking.client_id).exists()
