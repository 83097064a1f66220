"""Signing in with a code: what leads to a token, and everything that does not."""

import pytest

from tests.consent.client import ORIGIN, Asking, told
from tests.mcp_adapter.real import post
from tests.world import World


@pytest.fixture
def asking(world: World) -> Asking:
    return Asking.registered()


def test_the_owner_allows_and_the_client_reads(world: World, asking: Asking) -> None:
    answer = told(asking.answer(asking.ask()))
    assert (answer["state"], answer["iss"]) == ("xyz", ORIGIN)

    tokens = asking.exchange(answer["code"])

    assert tokens.status_code == 200
    assert tokens["Cache-Control"] == "no-store"
    body = tokens.json()
    assert body["token_type"] == "Bearer"
    assert body["expires_in"] == 600
    assert body["scope"] == "pdpp:read offline_access"
    assert body["grant_id"].startswith("grt_")
    [detail] = body["authorization_details"]
    assert detail["source"]["id"] == "https://registry.example/connectors/mail"
    assert post(body["access_token"]).status_code == 200
