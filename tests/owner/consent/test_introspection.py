"""What a resource server elsewhere is told of a bearer (RFC 7662, contract 1.3)."""

import base64
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.test import Client as HttpClient
from django.utils import timezone
from pytest_django import Settings

from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest, revoke_grant, revoke_package
from tests.owner.consent.client import MCP, ORIGIN, Asking
from tests.world import BANK, NOW, World

SECRET = "the-resource-servers-own"


def ask(token: str | None, *, user: str = "resource-server", secret: str = SECRET) -> Any:
    basic = base64.b64encode(f"{user}:{secret}".encode()).decode()
    body = {} if token is None else {"token": token}
    return HttpClient().post("/introspect", body, headers={"Authorization": f"Basic {basic}"})


@pytest.fixture(autouse=True)
def _asked_with_a_secret(settings: Settings) -> None:
    settings.PDPP_INTROSPECTION_SECRET = SECRET


def test_a_client_token_says_what_it_is_good_for(world: World) -> None:
    [grant] = world.grants["bob"]

    body = ask(world.tokens["bob"]).json()

    [detail] = body.pop("authorization_details")
    assert detail["source"] == {
        "kind": "connector",
        "id": "https://registry.example/connectors/mail",
    }
    [stream] = detail["streams"]
    assert stream["name"] == "messages"
    assert sorted(stream["instance_ids"]) == ["cin_personal", "cin_work"]
    assert "filters" not in stream
    expires = int((NOW + timedelta(days=3650)).timestamp())
    assert body == {
        "active": True,
        "pdpp_token_kind": "client",
        "subject_id": world.owner_id,
        "client_id": world.packages["bob"].client_id,
        "grant_id": grant.grant_id,
        "exp": expires,
        "iss": ORIGIN,
        "aud": ORIGIN,
        "pdpp": {
            "context_kind": "oauth_rar_0_1",
            "client_id": world.packages["bob"].client_id,
            "grant_id": grant.grant_id,
            "subject_id": world.owner_id,
            "issued_at": "2026-11-01T12:00:00Z",
            "source": detail["source"],
            "source_declaration": {"version": "1.0.0"},
        },
    }


def test_a_package_token_names_its_package(world: World) -> None:
    body = ask(world.tokens["dora@mcp"]).json()

    assert (body["pdpp_token_kind"], body["aud"]) == ("mcp_package", MCP)
    package = world.packages["dora"]
    assert body["grant_package_id"] == package.pk
    assert body["package"] == {
        "package_id": package.pk,
        "client": {"client_id": package.client_id},
        "subject": {"id": world.owner_id},
    }
    assert len(body["authorization_details"]) == 3


def test_introspection_returns_the_granted_terms(world: World) -> None:
    agreed: dict[str, Any] = {
        "access_mode": "single_use",
        "purpose_code": "https://purpose.example/tax",
        "purpose_description": "For the tax return",
        "retention": {"max_duration": "P30D", "on_expiry": "delete"},
    }
    ends = timezone.now() + timedelta(hours=1)
    streams = [StreamRequest(name="transactions")]
    request = GrantRequest(connection_ids=[BANK], streams=streams, expires_at=ends, **agreed)
    world.grant("erin", request)

    [detail] = ask(world.tokens["erin"]).json()["authorization_details"]

    assert detail | agreed == detail
    assert detail["type"] == "https://pdpp.dev/data-access"
    with time_machine.travel(ends):
        assert ask(world.tokens["erin"]).json()["inactive_reason"] == "grant_expired"
    revoke_grant(world.grants["erin"][0].pk, now=timezone.now())
    assert ask(world.tokens["erin"]).json()["inactive_reason"] == "grant_revoked"


def test_an_owner_token_has_no_client(world: World) -> None:
    assert ask(world.tokens["alice"]).json() == {
        "active": True,
        "pdpp_token_kind": "owner",
        "subject_id": world.owner_id,
        "iss": ORIGIN,
        "aud": ORIGIN,
    }


@pytest.mark.parametrize("token", ["unknown", "x" * 500, "nul\x00"])
def test_unknown_bearer_is_inactive(world: World, token: str) -> None:
    assert ask(token).json() == {"active": False}


def test_inactive_token_has_a_reason(world: World, asking: Asking) -> None:
    tokens = asking.tokens()
    with time_machine.travel(timezone.now() + timedelta(hours=1)):
        assert ask(tokens["access_token"]).json()["inactive_reason"] == "token_expired"
    asking.refresh(tokens["refresh_token"])
    with time_machine.travel(timezone.now() + timedelta(seconds=11)):
        asking.refresh(tokens["refresh_token"])
    ended = ask(tokens["access_token"]).json()
    assert ended == {
        "active": False,
        "inactive_reason": "refresh_family_revoked",
        "client_id": asking.client_id,
    }
    revoke_package(world.packages["bob"].pk, now=timezone.now())
    assert ask(world.tokens["bob"]).json()["inactive_reason"] == "grant_revoked"
    with time_machine.travel(NOW + timedelta(days=4000)):
        assert ask(world.tokens["charlie"]).json()["active"] is False


@pytest.mark.parametrize(
    "wrong", [{"secret": "guessed"}, {"user": "somebody"}, {"user": "", "secret": ""}]
)
def test_introspection_requires_credentials(world: World, wrong: dict[str, str]) -> None:
    refused = ask(world.tokens["bob"], **wrong)

    assert refused.status_code == 401
    assert refused.json()["error"] == "context.authentication_failed"
    assert refused["WWW-Authenticate"] == 'Basic realm="introspection"'


def test_introspection_is_off_without_a_secret(world: World, settings: Settings) -> None:
    settings.PDPP_INTROSPECTION_SECRET = ""

    assert ask(world.tokens["bob"], secret="").status_code == 401


def test_a_token_has_to_be_named(world: World) -> None:
    refused = ask(None)

    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_request")
