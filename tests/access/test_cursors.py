"""Cursors and bookmarks are bound to their use, and their length reveals nothing."""

from dataclasses import replace
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from evidence.access import crypto
from evidence.access.change_log import FeedPosition
from evidence.access.scope import GrantTerms, Scope, TokenKind
from evidence.errors import ApiException
from evidence.models.owners import get_or_create_owner
from evidence.read import changes
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
BINDING = {"scope": BOB, "query": QUERY}
POSITION = FeedPosition(since=7, known=9, until=None)


@pytest.mark.parametrize("kind", ["list", "records", "search"])
@pytest.mark.parametrize("key", ["m", "m" * 40, "m" * 80])
def test_cursor_round_trip(kind: str, key: str) -> None:
    place = PLACE | {"key": key}
    for _ in range(400):  # the last character is random
        cursor = crypto.encode_cursor(kind, place=place, **BINDING)
        assert crypto.decode_cursor(cursor, kind, **BINDING) == place


def test_cursor_of_a_list_is_short() -> None:
    query = {"connection_id": "cin_personal", "sort": "-received_at", "filter": "a"} | QUERY
    place = {"t": "2026-02-01T00:00:00+00:00", "c": "cin_personal", "r": "m1", "x": None}
    assert len(crypto.encode_cursor("records", scope=BOB, query=query, place=place)) <= 166


@pytest.mark.parametrize("key", ["", "m", "mm"])
def test_cursor_length_is_independent_of_its_content(key: str) -> None:
    place = {"key": key}
    length = crypto.cursor_length("list", places=[place], **BINDING)
    assert len(crypto.encode_cursor("list", place=place, **BINDING)) == length
    assert length == crypto.cursor_length("list", places=[{"key": "m"}], **BINDING)


@pytest.mark.parametrize("kind", ["list", "records", "search"])
@pytest.mark.parametrize("key", ["", "m" * 200, "é<ß>" * 40, "".join(map(chr, range(33, 233)))])
def test_cursor_length_is_that_of_the_longest_cursor_of_a_page(kind: str, key: str) -> None:
    places = [PLACE | {"key": key[:length]} for length in (0, 20, len(key))]
    lengths = [len(crypto.encode_cursor(kind, place=place, **BINDING)) for place in places]
    assert crypto.cursor_length(kind, places=places, **BINDING) == max(lengths)


@pytest.mark.parametrize(
    ("other", "code", "message"),
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
def test_cursor_is_bound_to_kind_grant_and_query(
    other: dict[str, Any], code: str, message: str
) -> None:
    cursor = crypto.encode_cursor("list", place=PLACE, **BINDING)
    arguments: dict[str, Any] = {"kind": "list", "param": "changes_since", **BINDING, **other}
    with pytest.raises(ApiException) as refused:
        crypto.decode_cursor(cursor, arguments.pop("kind"), **arguments)
    refusal = refused.value
    assert (refusal.code, refusal.param, refusal.message) == (code, "changes_since", message)
    if "query" in other:
        assert "or start again without it" in str(refusal.extra["next_step"])


ISSUED = crypto.encode_cursor("list", place=PLACE, **BINDING)


@pytest.mark.parametrize(
    "cursor", ["", "nonsense", "a", "é", "A" * 9_000, f"{ISSUED[:9]}!{ISSUED[9:]}", f"{ISSUED}\n"]
)
def test_foreign_or_changed_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(ApiException) as refused:
        crypto.decode_cursor(cursor, "list", **BINDING)
    refusal = refused.value
    assert (refusal.param, refusal.message) == (
        "cursor",
        "This server did not issue the cursor, or the cursor was changed.",
    )
    assert "Pass next_cursor exactly as it was returned" in str(refusal.extra["next_step"])


@pytest.mark.django_db
@pytest.mark.parametrize(("connections", "statements"), [(1, 0), (8, 0), (9, 1), (40, 1)])
def test_bookmarks_of_many_connections_are_stored(
    connections: int, statements: int, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    owner_id = get_or_create_owner(NOW).owner_id
    positions = {f"cin_{number}": POSITION for number in range(connections)}
    with django_assert_num_queries(statements):
        text = changes.encode_positions(positions, owner_id=owner_id, now=NOW)
    with django_assert_num_queries(statements):
        decoded = changes.decode_positions(text, owner_id=owner_id, connection_ids=[*positions])
    assert decoded == positions
    assert len(text) == changes.encoded_length(connections)
