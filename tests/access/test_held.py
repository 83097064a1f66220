"""The states that the owner is shown are those that a bearer meets."""

import datetime as dt

import pytest
from django.utils import timezone

from evidence.access.grant_states import State, grants_with_state, state_of, tokens_with_state
from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest, revoke_grant, revoke_package, revoke_token
from evidence.models.grants import AccessToken, Grant
from tests.world import BANK, CHAT, World

TRANSACTIONS = "/v1/streams/transactions/records"


@pytest.fixture
def eve(world: World) -> World:
    """Eve's package: a grant that has run out over the bank, a lasting one over the chat."""
    past = timezone.now() - dt.timedelta(minutes=1)
    world.grant(
        "eve",
        GrantRequest(
            connection_ids=[BANK], streams=[StreamRequest(name="transactions")], expires_at=past
        ),
        GrantRequest(connection_ids=[CHAT], streams=[StreamRequest(name="messages")]),
    )
    return world


def token_state(world: World, name: str) -> State:
    tokens = tokens_with_state(timezone.now()).filter(package=world.packages[name])
    return state_of(tokens.get(resource="/v1"))


def states(world: World, name: str) -> list[State]:
    rows = {row.pk: state_of(row) for row in grants_with_state(timezone.now())}
    return [rows[grant.pk] for grant in world.grants[name]]


def test_a_token_is_active_while_anything_behind_it_is(eve: World) -> None:
    assert states(eve, "eve") == [State.EXPIRED, State.ACTIVE]
    assert token_state(eve, "eve") == State.ACTIVE
    assert eve.get("/v1/streams/messages/records", "eve").status == 200


def test_a_token_expires_with_its_last_grant(eve: World) -> None:
    revoke_grant(eve.grants["eve"][1].pk, now=timezone.now())

    assert states(eve, "eve") == [State.EXPIRED, State.REVOKED]
    assert token_state(eve, "eve") == State.EXPIRED
    assert eve.get(TRANSACTIONS, "eve").error["code"] == "grant_expired"


def test_a_package_is_revoked_whatever_its_grants_say(eve: World) -> None:
    revoke_package(eve.packages["eve"].pk, now=timezone.now())

    assert states(eve, "eve") == [State.REVOKED, State.REVOKED]
    assert token_state(eve, "eve") == State.REVOKED
    assert eve.get(TRANSACTIONS, "eve").error["code"] == "grant_revoked"


def test_a_token_ends_alone_and_its_grants_stay(eve: World) -> None:
    revoke_token(eve.tokens["charlie"], now=timezone.now())

    assert states(eve, "charlie") == [State.ACTIVE]
    assert token_state(eve, "charlie") == State.REVOKED
    assert eve.get(TRANSACTIONS, "charlie").status == 401


def test_a_token_runs_out_before_its_grants(eve: World) -> None:
    now = timezone.now()
    AccessToken.unscoped.filter(package=eve.packages["charlie"]).update(expires_at=now)

    assert token_state(eve, "charlie") == State.EXPIRED
    assert eve.get(TRANSACTIONS, "charlie").status == 401


def test_a_superseded_grant_counts_no_more(eve: World) -> None:
    old = eve.grants["charlie"][0]
    Grant.unscoped.filter(pk=old.pk).update(superseded_by=eve.grants["bob"][0])

    assert states(eve, "charlie") == [State.SUPERSEDED]
    assert token_state(eve, "charlie") == State.REVOKED
    assert eve.get(TRANSACTIONS, "charlie").error["code"] == "grant_revoked"


def test_a_token_is_paused_with_the_last_grant_that_is_not(eve: World) -> None:
    lasting = Grant.unscoped.filter(pk=eve.grants["eve"][1].pk)
    lasting.update(paused_at=timezone.now())

    assert states(eve, "eve") == [State.EXPIRED, State.PAUSED]
    assert token_state(eve, "eve") == State.PAUSED
    assert eve.get(TRANSACTIONS, "eve").error["code"] == "grant_paused"

    lasting.update(paused_at=None)
    assert token_state(eve, "eve") == State.ACTIVE
