"""Tokens are stored and revoked once, and authenticate into what their package may see now."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest, revoke_package
from evidence.access.quotas import set_quotas
from evidence.access.scope import ConnectionFacts, QuotaUsage, Scope, SourceFacts, TokenKind
from evidence.access.tokens import (
    authenticate,
    create_owner_token,
    create_token,
    package_scope,
    revoke_token_id,
    token_exists,
)
from evidence.errors import (
    ApiException,
    AuthenticationRequired,
    GrantConsumed,
    GrantExpired,
    GrantPaused,
    GrantRevoked,
    WrongTokenKind,
)
from evidence.models.connections import Connection
from evidence.models.grants import AccessToken, Grant
from tests.world import BANK, CHAT, NOW, PERSONAL, WORK, World

LATER = NOW + timedelta(days=1)
LONG = timedelta(days=9)
MOMENT = timedelta(microseconds=1)


def scope_of(world: World, who: str, *, resource: str = "/v1") -> Scope:
    return authenticate(world.tokens.get(who, who), resource=resource, now=NOW)


def test_scope_names_caller_connections_and_sources(world: World) -> None:
    scope = scope_of(world, "dora")

    row = AccessToken.unscoped.get(package=world.packages["dora"], resource="/v1")
    package = world.packages["dora"]
    assert (scope.kind, scope.token_id, scope.owner_id, scope.client_id) == (
        TokenKind.PACKAGE, row.pk, world.owner_id, package.client_id,
    )  # fmt: skip
    assert (scope.package_id, scope.expires_at) == (package.pk, row.expires_at)
    grant_ids = sorted(grant.pk for grant in world.grants["dora"])
    assert [grant.grant_id for grant in scope.grants] == grant_ids
    assert [*scope.connections] == [BANK, PERSONAL, WORK, CHAT]
    personal = Connection.unscoped.get(pk=PERSONAL)
    source = personal.source
    assert scope.connections[PERSONAL] == ConnectionFacts(
        PERSONAL,
        "Personal mail",
        ("en", "de"),
        source.pk,
        (),
        (tuple(personal.indexed_languages), personal.indexed_analyser),
    )
    assert scope.sources[source.pk] == SourceFacts(
        source.pk,
        "connector",
        "https://registry.example/connectors/mail",
        "mail",
        "Mail",
        source.current_declaration_id or 0,
    )


def test_token_kind_follows_the_number_of_grants(world: World) -> None:
    bank = GrantRequest(connection_ids=[BANK], streams=[StreamRequest(name="transactions")])
    chat = GrantRequest(connection_ids=[CHAT], streams=[StreamRequest(name="messages")])
    one, two = world.grant("erin", bank), world.grant("frank", bank, chat)
    kinds = [scope_of(world, token).kind for token in ("alice", one, two)]
    assert kinds == [TokenKind.OWNER, TokenKind.CLIENT, TokenKind.PACKAGE]
    assert scope_of(world, one).token_id.startswith("tok_")


def test_owner_scope_has_no_package_and_all_streams(world: World) -> None:
    expires = NOW + timedelta(hours=1)
    token = create_owner_token(owner_id=world.owner_id, now=NOW, expires_at=expires)
    scope = scope_of(world, token)
    assert (scope.client_id, scope.package_id, scope.paused) == (None, None, ())
    assert scope.expires_at == expires
    assert {terms.name for grant in scope.grants for terms in grant.streams} == {
        "messages", "threads", "transactions",
    }  # fmt: skip


def test_connection_of_an_undeclared_source_is_not_in_the_scope(world: World) -> None:
    source = Connection.unscoped.get(pk=CHAT).source
    source.current_declaration = None
    source.save()
    assert CHAT not in scope_of(world, "dora").connections


def test_approval_creates_one_token_per_resource(world: World) -> None:
    package = world.packages["bob"]
    create_token(package, resource="/v1", now=NOW, approval="apr_1")
    create_token(package, resource="/mcp", now=NOW, approval="apr_1")

    with pytest.raises(IntegrityError), transaction.atomic():
        create_token(package, resource="/mcp", now=NOW, approval="apr_1")
    with CaptureQueriesContext(connection) as queries:
        assert token_exists("apr_1", package_id=package.pk)
    lock = queries.captured_queries[0]["sql"]
    assert "FOR NO KEY UPDATE" in lock
    assert package.pk in lock
    assert not token_exists("apr_2", package_id=package.pk)


def test_revoking_again_keeps_the_first_time(world: World) -> None:
    token_id = scope_of(world, "bob").token_id
    assert revoke_token_id(token_id, now=NOW)
    assert not revoke_token_id(token_id, now=LATER)
    assert not revoke_token_id("tok_unknown", now=NOW)
    assert AccessToken.unscoped.get(pk=token_id).revoked_at == NOW
    with pytest.raises(AuthenticationRequired, match="has been revoked"):
        scope_of(world, "bob")
    assert scope_of(world, "bob@mcp", resource="/mcp").package_id == world.packages["bob"].pk


def test_token_ends_at_its_expiry(world: World) -> None:
    token = create_token(world.packages["bob"], resource="/v1", now=NOW, expires_at=LATER)
    assert AccessToken.unscoped.get(expires_at=LATER).created_at == NOW
    assert authenticate(token, resource="/v1", now=LATER - MOMENT).expires_at == LATER
    with pytest.raises(AuthenticationRequired, match="has expired"):
        authenticate(token, resource="/v1", now=LATER)


@pytest.mark.parametrize("bearer", ["pdpp_at_unknown", "", "x" * 200, "x" * 201])
def test_unknown_token_is_refused(world: World, bearer: str) -> None:
    with pytest.raises(AuthenticationRequired, match="is not known") as refused:
        scope_of(world, bearer)
    assert refused.value.caller is None
    with CaptureQueriesContext(connection) as queries, pytest.raises(AuthenticationRequired):
        scope_of(world, bearer)
    assert bool(queries.captured_queries) is (len(bearer) <= 200)


def test_refusal_of_a_known_token_names_its_caller(world: World) -> None:
    bob = scope_of(world, "bob")
    with pytest.raises(AuthenticationRequired, match="issued for /v1, not for /mcp") as refused:
        scope_of(world, "bob", resource="/mcp")
    assert refused.value.caller == (world.owner_id, bob.client_id, bob.token_id)
    with pytest.raises(WrongTokenKind, match="a grant of its own") as owner:
        scope_of(world, "alice", resource="/mcp")
    assert owner.value.caller is None


def test_quota_usage_is_in_the_scope(world: World) -> None:
    grant_id = world.grants["bob"][0].pk
    assert scope_of(world, "bob").grants[0].limits == ()
    set_quotas(grant_id, {("records", "day"): 5}, now=NOW)
    [grant] = scope_of(world, "bob").grants
    start = NOW.replace(hour=0)
    assert grant.limits == (QuotaUsage("records", "day", 5, 0, start),)
    assert grant.source_pk == Connection.unscoped.get(pk=PERSONAL).source_id
    assert not grant.single_use
    once = GrantRequest(
        connection_ids=[BANK],
        streams=[StreamRequest(name="transactions")],
        access_mode="single_use",
    )
    assert scope_of(world, world.grant("otto", once)).grants[0].single_use


@pytest.mark.parametrize(
    ("columns", "kind"),
    [
        ({"revoked_at": NOW}, GrantRevoked),
        ({"paused_at": NOW}, GrantPaused),
        ({"readable_until": NOW}, GrantConsumed),
        ({"paused_at": NOW, "readable_until": NOW}, GrantConsumed),
        ({"revoked_at": NOW, "readable_until": NOW}, GrantRevoked),
    ],
)
def test_package_without_an_active_grant_is_refused(
    world: World, columns: dict[str, object], kind: type[ApiException]
) -> None:
    Grant.unscoped.filter(package=world.packages["bob"]).update(**columns)
    for arguments in ({}, {"resource": "/mcp"}):
        with pytest.raises(ApiException) as refused:
            scope_of(world, "bob@mcp" if arguments else "bob", **arguments)
        assert type(refused.value) is kind
        assert refused.value.caller is not None
    with pytest.raises(kind):
        package_scope(world.packages["bob"].pk, on_behalf_of="sub_1", now=NOW)


def test_expired_grant_is_refused_after_revoked_and_superseded_ones(world: World) -> None:
    first, second, third = world.grants["dora"]
    expired = Grant.unscoped.create(
        grant_id="grt_expired", package=world.packages["dora"], source=third.source,
        declaration=third.declaration, streams=third.streams, purpose_code="x",
        issued_at=NOW - LONG, expires_at=NOW,
    )  # fmt: skip
    Grant.unscoped.filter(pk=first.pk).update(superseded_by=second)
    Grant.unscoped.filter(pk__in=[second.pk, third.pk]).update(revoked_at=NOW)
    with pytest.raises(GrantExpired):
        scope_of(world, "dora")
    Grant.unscoped.filter(pk=expired.pk).update(revoked_at=NOW)
    with pytest.raises(GrantRevoked):
        scope_of(world, "dora")


def test_paused_grant_is_named_but_not_granted(world: World) -> None:
    paused = world.grants["dora"][1]
    Grant.unscoped.filter(pk=paused.pk).update(paused_at=NOW, access_mode="continuous")
    scope = scope_of(world, "dora")
    assert [grant.grant_id for grant in scope.paused] == [paused.pk]
    assert paused.pk not in {grant.grant_id for grant in scope.grants}
    assert len(scope.grants) == 2
    assert [terms.name for terms in scope.paused[0].streams] == ["messages"]


def test_package_scope_equals_the_scope_of_its_token(world: World) -> None:
    package = world.packages["bob"]
    scope = package_scope(package.pk, on_behalf_of="sub_1", now=NOW)
    assert scope == replace(scope_of(world, "bob"), token_id="sub_1", expires_at=None)
    assert revoke_package(package.pk, now=NOW)
    for package_id in (package.pk, "pkg_unknown"):
        with pytest.raises(GrantRevoked):
            package_scope(package_id, on_behalf_of="sub_1", now=NOW)
    with pytest.raises(GrantRevoked):
        scope_of(world, "bob")
