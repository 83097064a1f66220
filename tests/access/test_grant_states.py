"""The states in the owner's lists match what a bearer token can read."""

import datetime as dt

import pytest
from django.utils import timezone

from evidence.access.grant_states import GrantState, state_of, with_grant_state, with_token_state
from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest, revoke_grant, revoke_package
from evidence.access.tokens import authenticate, revoke_token_id
from evidence.models.grants import AccessToken, Grant
from tests.world import BANK, CHAT, World

TRANSACTIONS = "/v1/streams/transactions/records"


@pytest.fixture
def eve(world: World) -> World:
    """Eve has an expired grant for the bank and an active one for the chat."""
    past = timezone.now() - dt.timedelta(minutes=1)
    world.grant(
        "eve",
        GrantRequest(
            connection_ids=[BANK], streams=[StreamRequest(name="transactions")], expires_at=past
        ),
        GrantRequest(connection_ids=[CHAT], streams=[StreamRequest(name="messages")]),
    )
    return world


def token_state(world: World, name: str) -> GrantState:
    tokens = with_token_state(timezone.now()).filter(package=world.packages[name])
    return state_of(tokens.get(resource="/v1"))


def states(world: World, name: str) -> list[GrantState]:
    rows = {row.pk: state_of(row) for row in with_grant_state(timezone.now())}
    return [rows[grant.pk] for grant in world.grants[name]]


def test_token_is_active_while_one_grant_is_active(eve: World) -> None:
    assert states(eve, "eve") == [GrantState.EXPIRED, GrantState.ACTIVE]
    assert token_state(eve, "eve") == GrantState.ACTIVE
    assert eve.get("/v1/streams/messages/records", "eve").status == 200


def test_token_expires_with_its_last_grant(eve: World) -> None:
    revoke_grant(eve.grants["eve"][1].pk, now=timezone.now())

    assert states(eve, "eve") == [GrantState.EXPIRED, GrantState.REVOKED]
    assert token_state(eve, "eve") == GrantState.EXPIRED
    assert eve.get(TRANSACTIONS, "eve").error["code"] == "grant_expired"


def test_revoked_package_revokes_all_its_grants(eve: World) -> None:
    revoke_package(eve.packages["eve"].pk, now=timezone.now())

    assert states(eve, "eve") == [GrantState.REVOKED, GrantState.REVOKED]
    assert token_state(eve, "eve") == GrantState.REVOKED
    assert eve.get(TRANSACTIONS, "eve").error["code"] == "grant_revoked"


def test_revoking_a_token_keeps_its_grants(eve: World) -> None:
    charlie = authenticate(eve.tokens["charlie"], resource="/v1", now=timezone.now())
    revoke_token_id(charlie.token_id, now=timezone.now())

    assert states(eve, "charlie") == [GrantState.ACTIVE]
    assert token_state(eve, "charlie") == GrantState.REVOKED
    assert eve.get(TRANSACTIONS, "charlie").status == 401


def test_token_expires_before_its_grants(eve: World) -> None:
    now = timezone.now()
    AccessToken.unscoped.filter(package=eve.packages["charlie"]).update(expires_at=now)

    assert token_state(eve, "charlie") == GrantState.EXPIRED
    assert eve.get(TRANSACTIONS, "charlie").status == 401


def test_superseded_grant_is_not_usable(eve: World) -> None:
    old = eve.grants["charlie"][0]
    Grant.unscoped.filter(pk=old.pk).update(superseded_by=eve.grants["bob"][0])

    assert states(eve, "charlie") == [GrantState.SUPERSEDED]
    assert token_state(eve, "charlie") == GrantState.REVOKED
    assert eve.get(TRANSACTIONS, "charlie").error["code"] == "grant_revoked"


def test_token_is_paused_with_its_last_active_grant(eve: World) -> None:
    active = Grant.unscoped.filter(pk=eve.grants["eve"][1].pk)
    active.update(paused_at=timezone.now())

    assert states(eve, "eve") == [GrantState.EXPIRED, GrantState.PAUSED]
    assert token_state(eve, "eve") == GrantState.PAUSED
    assert eve.get(TRANSACTIONS, "eve").error["code"] == "grant_paused"

    active.update(paused_at=None)
    assert token_state(eve, "eve") == GrantState.ACTIVE
