"""Streams that the gate opens, and its errors."""

from dataclasses import replace
from itertools import permutations

import pytest
from django.utils import timezone

from evidence.access.gate import Gate
from evidence.access.grant_states import terms_of
from evidence.access.owner_scope import GRANT_PREVIEW, grant_scope, preview_scope
from evidence.access.record_details import fetch_many_related
from evidence.access.records import RecordKey
from evidence.access.scope import GrantTerms, Only, Scope, StreamTerms, TokenKind
from evidence.access.tokens import authenticate
from evidence.errors import (
    ConnectionNotFound,
    FieldNotGranted,
    GrantPaused,
    MissingAccess,
    NotFound,
    StreamNotGranted,
    UnknownField,
)
from tests.world import BANK, CHAT, MAIL, PERSONAL, WORK, World

MESSAGES, THREADS = "/v1/streams/messages/records", "/v1/streams/threads/records"


@pytest.fixture
def bobs(world: World) -> Scope:
    return authenticate(world.tokens["bob"], resource="/v1", now=timezone.now())


def connections(scope: Scope) -> list[str]:
    return [facts.connection_id for facts in Gate(scope).stream("messages").connections]


def test_connection_of_two_grants_counts_once(bobs: Scope) -> None:
    twice = replace(bobs, grants=(*bobs.grants, *bobs.grants))
    once, again = (Gate(scope).stream("messages") for scope in (bobs, twice))
    assert connections(twice) == connections(bobs) == [PERSONAL, WORK]
    assert again.page(limit=100, descending=True) == once.page(limit=100, descending=True) != []


def test_grant_shows_no_connection_of_another_source(bobs: Scope, world: World) -> None:
    """This also holds if another grant covers that source and a stream of the same name."""
    [grant] = bobs.grants
    [terms] = grant.streams
    wide = replace(
        grant, streams=(replace(terms, connection_ids=terms.connection_ids | {BANK, CHAT}),)
    )
    doras = authenticate(world.tokens["dora"], resource="/v1", now=timezone.now())
    [chats] = [grant for grant in doras.grants if CHAT in grant.streams[0].connection_ids]
    none = replace(chats, streams=(replace(chats.streams[0], connection_ids=frozenset({BANK})),))
    for grants in ((wide,), (wide, none), (none, wide)):
        assert connections(replace(bobs, grants=grants)) == [PERSONAL, WORK]


@pytest.mark.parametrize("name", ["mail", MAIL["connector_id"]])
def test_gate_of_a_connector_opens_its_source_only(world: World, name: str) -> None:
    doras = authenticate(world.tokens["dora"], resource="/v1", now=timezone.now())
    [source] = Gate(doras, connector_id=name).sources
    assert source.facts.connector_key == "mail"
    assert [visible.stream.name for visible in source.streams] == ["messages", "threads"]
    with pytest.raises(NotFound) as error:
        assert Gate(doras, connector_id="unknown").sources
    assert error.value.param == "connector_id"
    assert error.value.extra["next_step"] == "GET /v1/schema lists the connectors."


def test_stream_of_another_connection_is_not_granted(world: World) -> None:
    doras = authenticate(world.tokens["dora"], resource="/v1", now=timezone.now())
    assert [
        facts.connection_id
        for facts in Gate(doras).stream("messages", connection_id=CHAT).connections
    ] == [CHAT]
    grants = [replace(grant, streams=tuple(map(_personal_threads, grant.streams)))
              for grant in doras.grants]  # fmt: skip
    gate = Gate(replace(doras, grants=tuple(grants)))
    assert gate.stream("threads", connection_id=PERSONAL).granted
    for name, kind in (("threads", StreamNotGranted), ("nothing", NotFound)):
        with pytest.raises(kind) as error:
            gate.stream(name, connection_id=WORK)
        assert error.value.param == "stream"
        assert error.value.extra["next_step"] == "GET /v1/schema lists the streams."


def _personal_threads(terms: StreamTerms) -> StreamTerms:
    threads = replace(terms, connection_ids=frozenset({PERSONAL}))
    return threads if terms.name == "threads" else terms


def test_refusal_names_the_grant_that_would_have_to_include_the_stream(bobs: Scope) -> None:
    """The first grant of the source, or the first that covers the named connection."""
    [grant] = bobs.grants
    [terms] = grant.streams

    def of(name: str, connection_id: str, source_pk: int = grant.source_pk) -> GrantTerms:
        streams = (replace(terms, connection_ids=frozenset({connection_id})),)
        return replace(grant, grant_id=name, source_pk=source_pk, streams=streams)

    gate = Gate(
        replace(bobs, grants=(of("other", BANK, 0), of("first", PERSONAL), of("second", WORK)))
    )
    for connection_id, name in ((None, "first"), (PERSONAL, "first"), (WORK, "second")):
        with pytest.raises(StreamNotGranted) as refused:
            gate.stream("threads", connection_id=connection_id)
        assert refused.value.missing == MissingAccess(name, "mail", "threads")


def test_unknown_connection_is_refused_with_the_next_step(bobs: Scope) -> None:
    with pytest.raises(ConnectionNotFound) as refused:
        Gate(bobs).stream("messages", connection_id=BANK)
    assert refused.value.param == "connection_id"
    assert refused.value.extra["next_step"] == "GET /v1/schema lists the connections."


def test_name_of_a_paused_grant_is_refused_as_paused(world: World) -> None:
    doras = authenticate(world.tokens["dora"], resource="/v1", now=timezone.now())
    [bank] = [grant for grant in doras.grants if BANK in grant.streams[0].connection_ids]
    others = tuple(grant for grant in doras.grants if grant is not bank)
    gate = Gate(replace(doras, grants=others, paused=(bank,)))
    for arguments, param in (
        ({"name": "transactions"}, "stream"),
        ({"name": "messages", "connection_id": BANK}, "connection_id"),
    ):
        with pytest.raises(GrantPaused) as error:
            gate.stream(**arguments)
        assert error.value.param == param
        assert error.value.extra["next_step"] == (
            "GET /v1/schema lists what can be read until the owner resumes it."
        )
        assert error.value.clause == f"Grant {bank.grant_id} includes it, and is paused."


def test_order_of_grants_changes_no_stream(world: World) -> None:
    doras = authenticate(world.tokens["dora"], resource="/v1", now=timezone.now())
    for grants in permutations(doras.grants):
        names = [visible.stream.name for visible in Gate(replace(doras, grants=grants)).streams()]
        assert names == ["transactions", "messages", "threads", "messages"]


def test_owner_may_filter_by_every_field(world: World) -> None:
    alices = authenticate(world.tokens["alice"], resource="/v1", now=timezone.now())
    visible = Gate(alices).stream("transactions")
    assert visible.filter_field("memo", param="filter").name == "memo"


def test_hidden_foreign_key_cannot_be_expanded(bobs: Scope) -> None:
    [grant] = bobs.grants
    [terms] = grant.streams
    without = replace(terms, fields=Only(frozenset({"id", "subject"})))
    scope = replace(bobs, grants=(replace(grant, streams=(without,)),))
    with pytest.raises(FieldNotGranted):
        fetch_many_related(
            Gate(scope).stream("messages"), "thread_id", [RecordKey(PERSONAL, "t1")], limit=1
        )


def test_preview_scope_is_a_client_scope(world: World) -> None:
    [grant] = world.grants["bob"]
    terms = [stream_terms for stream_terms, _ in terms_of(grant)]
    preview = preview_scope([(grant.source_id, terms)], owner_id=world.owner_id)
    issued = grant_scope(grant, owner_id=world.owner_id)
    for scope in (preview, issued):
        assert (scope.kind, scope.token_id) == (TokenKind.CLIENT, GRANT_PREVIEW)
        assert [grant.streams for grant in scope.grants] == [tuple(terms)]


def test_refusal_names_the_grants_that_hide_the_field(bobs: Scope) -> None:
    [grant] = bobs.grants
    [terms] = grant.streams
    here = replace(terms, connection_ids=frozenset({PERSONAL}))
    there = replace(terms, connection_ids=frozenset({WORK}), filters=Only(frozenset({"id"})))
    hidden = replace(there, fields=Only(frozenset({"id"})))
    for other, refused in ((there, "shows “subject”, but"), (hidden, "includes the fields id;")):
        grants = (
            replace(grant, grant_id="grt_1", streams=(here,)),
            replace(grant, grant_id="grt_2", streams=(other,)),
        )
        visible = Gate(replace(bobs, grants=grants)).stream("messages")
        with pytest.raises(FieldNotGranted) as error:
            visible.filter_field("subject", param="filter[subject]")
        assert error.value.param == "filter[subject]"
        assert str(error.value.clause).startswith(f"Grant grt_2 {refused}")
        assert "grt_1" not in str(error.value.clause)


def test_stream_of_several_sources_is_ambiguous(world: World) -> None:
    error = world.get(MESSAGES, "dora").error
    assert error["code"] == "ambiguous_connection"
    assert error["message"].startswith("Several sources have a stream 'messages'")


def test_connection_selects_the_declaration(world: World) -> None:
    error = world.get(THREADS, "dora", connection_id=BANK).error
    assert error["code"] == "not_found", "the source of the connection has no such stream"


def test_unknown_field_error_names_the_parameter(bobs: Scope) -> None:
    with pytest.raises(UnknownField) as error:
        Gate(bobs).stream("messages").shown_field("nothing", param="fields")
    assert error.value.param == "fields"
