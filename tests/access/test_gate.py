"""What the gate opens, and what it says where it stays shut."""

from dataclasses import replace

import pytest
from django.utils import timezone

from evidence.access.gate import Gate
from evidence.access.grant_states import terms_of
from evidence.access.owner_scope import NOT_ISSUED, held_scope, tried_scope
from evidence.access.record_parts import Key, several
from evidence.access.scope import Only, Scope, TokenKind
from evidence.access.tokens import authenticate
from evidence.errors import FieldNotGranted, UnknownField
from tests.world import BANK, CHAT, PERSONAL, WORK, World

MESSAGES, THREADS = "/v1/streams/messages/records", "/v1/streams/threads/records"


@pytest.fixture
def bobs(world: World) -> Scope:
    return authenticate(world.tokens["bob"], resource="/v1", now=timezone.now())


def connections(scope: Scope) -> list[str]:
    return [facts.connection_id for facts in Gate(scope).stream("messages").connections]


def test_a_connection_that_two_grants_name_counts_once(bobs: Scope) -> None:
    twice = replace(bobs, grants=(*bobs.grants, *bobs.grants))
    once, again = (Gate(each).stream("messages") for each in (bobs, twice))
    assert connections(twice) == connections(bobs) == [PERSONAL, WORK]
    assert again.page(limit=100, descending=True) == once.page(limit=100, descending=True) != []


def test_a_grant_that_names_a_connection_of_another_source_shows_nothing_of_it(
    bobs: Scope, world: World
) -> None:
    """Not even where another grant is of that source, and both have a stream of that name."""
    [grant] = bobs.grants
    [terms] = grant.streams
    wide = replace(
        grant, streams=(replace(terms, connection_ids=terms.connection_ids | {BANK, CHAT}),)
    )
    doras = authenticate(world.tokens["dora"], resource="/v1", now=timezone.now())
    [chats] = [each for each in doras.grants if CHAT in each.streams[0].connection_ids]
    none = replace(chats, streams=(replace(chats.streams[0], connection_ids=frozenset({BANK})),))
    for grants in ((wide,), (wide, none), (none, wide)):
        assert connections(replace(bobs, grants=grants)) == [PERSONAL, WORK]


def test_a_link_that_is_hidden_leads_nowhere(bobs: Scope) -> None:
    [grant] = bobs.grants
    [terms] = grant.streams
    without = replace(terms, fields=Only(frozenset({"id", "subject"})))
    scope = replace(bobs, grants=(replace(grant, streams=(without,)),))
    with pytest.raises(FieldNotGranted):
        several(Gate(scope).stream("messages"), "thread_id", [Key(PERSONAL, "t1")], limit=1)


def test_what_is_tried_or_looked_through_is_not_the_owners_own(world: World) -> None:
    [grant] = world.grants["bob"]
    terms = [each for each, _ in terms_of(grant)]
    tried = tried_scope([(grant.source_id, terms)], owner_id=world.owner_id)
    held = held_scope(grant, owner_id=world.owner_id)
    for scope in (tried, held):
        assert (scope.kind, scope.token_id) == (TokenKind.CLIENT, NOT_ISSUED)
        assert [each.streams for each in scope.grants] == [tuple(terms)]


def test_a_field_is_refused_in_the_name_of_the_grants_that_hide_it(bobs: Scope) -> None:
    [grant] = bobs.grants
    [terms] = grant.streams
    here = replace(terms, connection_ids=frozenset({PERSONAL}))
    there = replace(terms, connection_ids=frozenset({WORK}), filters=Only(frozenset({"id"})))
    hidden = replace(there, fields=Only(frozenset({"id"})))
    for other, refused in ((there, "shows “subject”, but"), (hidden, "freezes the fields id;")):
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


def test_a_stream_of_several_sources_is_not_guessed(world: World) -> None:
    error = world.get(MESSAGES, "dora").error
    assert error["code"] == "ambiguous_connection"
    assert error["message"].startswith("Several sources have a stream 'messages'")


def test_a_connection_decides_whose_declaration_is_meant(world: World) -> None:
    error = world.get(THREADS, "dora", connection_id=BANK).error
    assert error["code"] == "not_found", "its source has no such stream, whatever others have"


def test_a_field_that_is_not_there_is_refused_by_the_name_it_was_asked_by(bobs: Scope) -> None:
    with pytest.raises(UnknownField) as error:
        Gate(bobs).stream("messages").shown_field("nothing", param="fields")
    assert error.value.param == "fields"
