"""Cursors and bookmarks: what they are good for, and that their length tells nothing."""

from dataclasses import replace
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from evidence.access import cursors
from evidence.access.record_history import Reach
from evidence.access.scope import GrantTerms, Scope, TokenKind
from evidence.errors import Refusal
from evidence.models.accounts import the_owner
from evidence.reading import bookmarks
from tests.world import NOW

QUERY = {"stream": "messages", "order": "desc"}
PLACE = {"at": "2026-01-01", "key": "m1"}
BOB = Scope(
    kind=TokenKind.CLIENT,
    token_id="tok_1",
    owner_id="own_1",
    client_id="cli_1",
    package_id="pkg_1",
    expires_at=None,
    grants=(GrantTerms("grt_1", 1, ()),),
    sources={},
    connections={},
)
SEALED = {"scope": BOB, "query": QUERY}
REACH = Reach(since=7, known=9, until=None)


def test_a_cursor_leads_back_to_its_place() -> None:
    cursor = cursors.seal("list", place=PLACE, **SEALED)
    assert cursors.unseal(cursor, "list", **SEALED) == PLACE


@pytest.mark.parametrize("key", ["", "m", "mm"])
def test_its_length_says_nothing_of_what_it_holds(key: str) -> None:
    place = {"key": key}
    told = cursors.length("list", query=QUERY, place=place)
    assert len(cursors.seal("list", place=place, **SEALED)) == told
    assert told == cursors.length("list", query=QUERY, place={"key": "m"})


@pytest.mark.parametrize(
    ("other", "code", "said"),
    [
        ({"kind": "hits"}, "invalid_cursor", "The cursor belongs to another kind of list."),
        (
            {"scope": replace(BOB, package_id="pkg_2")},
            "invalid_cursor",
            "The cursor belongs to another grant.",
        ),
        (
            {"scope": replace(BOB, grants=(GrantTerms("grt_2", 1, ()),))},
            "cursor_expired",
            "The grant behind this cursor has changed; start again without a cursor.",
        ),
        (
            {"query": QUERY | {"order": "asc", "view": "all"}},
            "invalid_cursor",
            "The cursor belongs to another query: order, view changed.",
        ),
    ],
)
def test_it_is_good_for_nothing_else(other: dict[str, Any], code: str, said: str) -> None:
    cursor = cursors.seal("list", place=PLACE, **SEALED)
    asked: dict[str, Any] = {"kind": "list", "param": "changes_since", **SEALED, **other}
    with pytest.raises(Refusal) as refused:
        cursors.unseal(cursor, asked.pop("kind"), **asked)
    refusal = refused.value
    assert (refusal.code, refusal.param, refusal.message) == (code, "changes_since", said)
    if "query" in other:
        assert "or start again without it" in str(refusal.extra["next_step"])


@pytest.mark.parametrize("cursor", ["", "nonsense", "a", "é", "A" * 9_000])
def test_what_is_no_cursor_of_ours_is_refused(cursor: str) -> None:
    with pytest.raises(Refusal) as refused:
        cursors.unseal(cursor, "list", **SEALED)
    refusal = refused.value
    assert (refusal.param, refusal.message) == (
        "cursor",
        "The cursor is not one of ours, or was changed.",
    )
    assert "Pass next_cursor exactly as it was given" in str(refusal.extra["next_step"])


@pytest.mark.django_db
@pytest.mark.parametrize(("connections", "statements"), [(1, 0), (8, 0), (9, 1), (40, 1)])
def test_bookmarks_of_many_connections_are_stored(
    connections: int, statements: int, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    owner_id = the_owner(NOW).owner_id
    reaches = {f"cin_{number}": REACH for number in range(connections)}
    with django_assert_num_queries(statements):
        text = bookmarks.bookmark(reaches, owner_id=owner_id, now=NOW)
    with django_assert_num_queries(statements):
        known = bookmarks.recalled(text, owner_id=owner_id, connection_ids=[*reaches])
    assert known == reaches
    assert len(text) == bookmarks.length(connections)
