"""What the gate opens, and what it says where it stays shut."""

from dataclasses import replace

import pytest
from django.utils import timezone

from evidence.access.gate import Gate
from evidence.access.scope import Scope
from evidence.access.tokens import authenticate
from tests.world import BANK, PERSONAL, WORK, World

MESSAGES, THREADS = "/v1/streams/messages/records", "/v1/streams/threads/records"


@pytest.fixture
def bobs(world: World) -> Scope:
    return authenticate(world.tokens["bob"], resource="/v1", now=timezone.now())


def connections(scope: Scope) -> list[str]:
    return [facts.connection_id for facts in Gate(scope).stream("messages").connections]


def test_a_connection_that_two_grants_name_counts_once(bobs: Scope) -> None:
    twice = replace(bobs, grants=(*bobs.grants, *bobs.grants))
    assert connections(twice) == connections(bobs) == [PERSONAL, WORK]


def test_a_grant_that_names_a_connection_of_another_source_shows_nothing_of_it(bobs: Scope) -> None:
    [grant] = bobs.grants
    [terms] = grant.streams
    wide = replace(terms, connection_ids=terms.connection_ids | {BANK})
    beyond = replace(bobs, grants=(replace(grant, streams=(wide,)),))
    assert connections(beyond) == [PERSONAL, WORK]


def test_a_stream_of_several_sources_is_not_guessed(world: World) -> None:
    error = world.get(MESSAGES, "dora").error
    assert error["code"] == "ambiguous_connection"
    assert error["message"].startswith("Several sources have a stream 'messages'")


def test_a_connection_decides_whose_declaration_is_meant(world: World) -> None:
    error = world.get(THREADS, "dora", connection_id=BANK).error
    assert error["code"] == "not_found", "its source has no such stream, whatever others have"
