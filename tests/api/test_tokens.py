"""Who may ask, and how soon an end of it holds."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest, revoke_grant, revoke_package
from evidence.access.scope import TokenKind
from evidence.access.tokens import authenticate, create_owner_token, create_token, revoke_token_id
from evidence.errors import WrongTokenKind
from evidence.models.grants import AccessToken, Grant
from tests.world import BANK, CHAT, NOW, World

LIST = "/v1/streams/messages/records"


def test_a_granted_token_reads(world: World) -> None:
    assert world.get(LIST).status == 200


def test_no_token_is_sent_to_the_metadata_document(world: World) -> None:
    answer = world.get(LIST, who=None)
    assert answer.status == 401
    metadata = "http://127.0.0.1:8000/.well-known/oauth-protected-resource"
    assert answer.headers["WWW-Authenticate"] == f'Bearer resource_metadata="{metadata}"'
    assert answer.error["resource_metadata"] == metadata
    assert world.get("/.well-known/oauth-protected-resource", who=None).status == 200


@pytest.mark.parametrize("bearer", ["pdpp_at_unknown", "x" * 5_000, "é", "a b"])
def test_an_unknown_token_is_an_invalid_one(world: World, bearer: str) -> None:
    answer = world.get(LIST, who=bearer.encode().decode("latin-1"))
    assert (answer.status, answer.error["code"]) == (401, "authentication_error")
    assert 'error="invalid_token"' in answer.headers["WWW-Authenticate"]


def test_an_oversized_token_is_not_looked_up(
    world: World, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(2):  # a savepoint
        assert world.get(LIST, who="x" * 201).status == 401


def test_the_scheme_is_exactly_bearer(world: World) -> None:
    sent = {"Authorization": f"bearer {world.tokens['bob']}"}
    assert Client(headers=sent).get(LIST).status_code == 401


def test_a_token_works_at_its_own_resource_only(world: World) -> None:
    answer = world.get(LIST, who="bob@mcp")
    assert (answer.status, answer.error["code"]) == (401, "authentication_error")
    assert "/mcp" in answer.error["message"]


def test_a_revoked_token_ends_at_once_and_its_siblings_do_not(world: World) -> None:
    other = create_token(world.packages["bob"], resource="/v1", now=NOW)
    bob = authenticate(world.tokens["bob"], resource="/v1", now=NOW)
    assert revoke_token_id(bob.token_id, now=NOW)
    assert world.get(LIST).status == 401
    assert world.get(LIST, who=other).status == 200


def test_an_expired_token_ends(world: World) -> None:
    before = NOW - timedelta(days=9)
    token = create_token(
        world.packages["bob"], resource="/v1", now=before, expires_at=NOW - timedelta(days=1)
    )
    assert world.get(LIST, who=token).status == 401
    assert world.get(LIST, who="bob").status == 200


def test_a_revoked_grant_ends_at_once(world: World) -> None:
    assert revoke_grant(world.grants["bob"][0].grant_id, now=NOW)
    answer = world.get(LIST)
    assert (answer.status, answer.error["code"]) == (403, "grant_revoked")


def test_an_expired_grant_has_its_own_code(world: World) -> None:
    world.grant(
        "erin",
        GrantRequest(
            connection_ids=[BANK],
            streams=[StreamRequest(name="transactions")],
            expires_at=NOW + timedelta(seconds=1),
        ),
    )
    answer = world.get("/v1/streams/transactions/records", who="erin")
    assert (answer.status, answer.error["code"]) == (403, "grant_expired")


def test_one_revoked_grant_of_a_package_leaves_the_others(world: World) -> None:
    mail, chat, bank = world.grants["dora"]
    assert revoke_grant(mail.grant_id, now=NOW)
    assert world.get("/v1/streams/threads/records", who="dora").status == 404
    assert world.get(LIST, who="dora").ids == ["c2", "c1"]
    assert revoke_grant(chat.grant_id, now=NOW)
    assert revoke_grant(bank.grant_id, now=NOW)
    assert world.get(LIST, who="dora").error["code"] == "grant_revoked"


def test_a_superseded_grant_ends_and_its_replacement_works(world: World) -> None:
    mail, chat, _bank = world.grants["dora"]
    Grant.unscoped.filter(grant_id=chat.grant_id).update(superseded_by=mail.grant_id)
    assert world.get(LIST, who="dora", connection_id=CHAT).error["code"] == "connection_not_found"
    assert world.get(LIST, who="dora").status == 200


def test_a_grant_cannot_be_changed_once_issued(world: World) -> None:
    grant = Grant.unscoped.get(grant_id=world.grants["bob"][0].grant_id)
    for change in ({"streams": []}, {"expires_at": None, "purpose_code": "x"}):
        with pytest.raises(IntegrityError, match="cannot change"), transaction.atomic():
            Grant.unscoped.filter(grant_id=grant.grant_id).update(**change)
    assert world.get(LIST).status == 200


def test_a_revoked_package_ends_all_of_its_tokens(world: World) -> None:
    assert revoke_package(world.packages["dora"].package_id, now=NOW)
    assert world.get("/v1/schema", who="dora").error["code"] == "grant_revoked"
    assert world.get("/v1/schema", who="bob").status == 200


def test_ending_twice_changes_nothing(world: World) -> None:
    grant_id = world.grants["bob"][0].grant_id
    assert revoke_grant(grant_id, now=NOW)
    assert not revoke_grant(grant_id, now=NOW + timedelta(days=1))


def test_the_owner_reads_everything_and_alone_may_write(world: World) -> None:
    assert world.get("/v1/streams/transactions/records", who="alice").status == 200
    assert (
        world.call("POST", "/v1/ingest/messages", "alice", connection_id="cin_work").status == 200
    )
    refused = world.call("POST", "/v1/ingest/messages", "bob", connection_id="cin_work")
    assert (refused.status, refused.error["code"]) == (403, "permission_error")


def test_an_owner_token_expires_too(world: World) -> None:
    token = create_owner_token(
        owner_id=world.owner_id, now=NOW, expires_at=NOW + timedelta(seconds=1)
    )
    assert world.get("/v1/schema", who=token).status == 401


def test_no_bearer_is_kept_in_the_database(world: World) -> None:
    kept = [bytes(row.digest) for row in AccessToken.unscoped.all()]
    for token in world.tokens.values():
        assert token.encode() not in kept
        assert all(token.encode() not in digest for digest in kept)


def test_an_owner_token_is_refused_as_such_where_agents_come_in(world: World) -> None:
    """Not as unknown: the owner learns what to do instead."""
    with pytest.raises(WrongTokenKind, match="a grant of its own"):
        authenticate(world.tokens["alice"], resource="/mcp", now=NOW)
    assert authenticate(world.tokens["alice"], resource="/v1", now=NOW).kind is TokenKind.OWNER
