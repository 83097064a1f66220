"""Test search in one stream with list filters."""

from typing import Any

import pytest

from tests.world import PERSONAL, World

SEARCH = "/v1/search"


def keys(world: World, who: str = "dora", **query: Any) -> list[str]:
    answer = world.get(SEARCH, who, **query)
    assert answer.status == 200, answer.body
    return answer.ids


def test_only_filtered_records_match_and_count(world: World) -> None:
    query: dict[str, Any] = {"q": "lease", "streams": "messages", "connection_id": PERSONAL}
    assert set(keys(world, **query)) == {"m0", "m1", "m2"}
    answer = world.get(SEARCH, "dora", **query, filter__size_bytes__gte=500)
    assert set(answer.ids) == {"m1", "m2"}
    assert answer.body["meta"]["count"] == 2
    assert keys(world, **query, filter__from_name="Alice") == ["m2"]
    assert keys(world, **query, filter__from_name="Nobody") == []


def test_filters_combine_with_phrases_paging_and_time(world: World) -> None:
    query: dict[str, Any] = {"q": "lease", "streams": "messages", "connection_id": PERSONAL}
    first = world.get(SEARCH, "dora", **query, filter__size_bytes__gte=500, limit=1)
    again = world.get(SEARCH, "dora", **query, filter__size_bytes__gte=500, limit=1,
        cursor=first.body["next_cursor"])  # fmt: skip
    assert {*first.ids, *again.ids} == {"m1", "m2"}
    newest = keys(world, **query, filter__is_seen="true", sort="-time")
    assert newest == ["m1"]
    assert keys(world, **{**query, "q": '"signed the lease"'}, filter__size_bytes__gte=500) == [
        "m1"
    ]


def test_cursor_is_bound_to_its_filter(world: World) -> None:
    query: dict[str, Any] = {"q": "lease", "streams": "messages", "connection_id": PERSONAL}
    cursor = world.get(SEARCH, "dora", **query, limit=1).body["next_cursor"]
    refused = world.get(SEARCH, "dora", **query, limit=1, cursor=cursor, filter__is_seen="true")
    assert refused.error["code"] == "invalid_cursor"
    assert "filter" in refused.error["message"]


@pytest.mark.parametrize("more", [{}, {"streams": "messages,threads"}])
def test_filter_needs_one_stream_of_one_source(world: World, more: dict[str, str]) -> None:
    refused = world.get(SEARCH, "dora", q="lease", filter__is_seen="true", **more)
    assert (refused.status, refused.error["param"]) == (400, "filter")
    assert "one stream with streams" in refused.error["next_step"]


def test_filters_use_granted_fields_only(world: World) -> None:
    query = {"q": "lease", "streams": "messages"}
    hidden = world.get(SEARCH, "bob", **query, filter__size_bytes__gte=1)
    assert (hidden.status, hidden.error["code"]) == (403, "field_not_granted")
    unknown = world.get(SEARCH, "bob", **query, filter__nonsense="1")
    assert unknown.error["code"] == "unknown_field"
    assert keys(world, "bob", **query, filter__from_name="Eva Lang") == ["m1"]


def test_filters_apply_in_every_mode(embedded: World) -> None:
    query: dict[str, Any] = {"q": "lease deposit", "streams": "messages", "connection_id": PERSONAL}
    for mode in ("semantic", "hybrid"):
        assert "m1" in keys(embedded, **query, mode=mode)
        alone = keys(embedded, **query, mode=mode, filter__from_name="Alice")
        assert alone[0] == "m2"
        assert set(alone) <= {"m2", "m4"}


def test_words_of_a_filter_take_words_prefixes_and_or(world: World) -> None:
    def found(words: str) -> set[str]:
        query = {"q": "lease OR canal", "streams": "messages", "connection_id": PERSONAL}
        return set(keys(world, "bob", **query, filter__from_name__words=words))

    assert found("eva lang") == {"m1"}
    assert found("jon* OR alice") == {"m2", "m3"}
    assert found("eva lang OR jonas unicorn") == {"m1"}  # OR binds weaker than the words
    assert found("alice OR eva -lang") == {"m2"}
    assert found("(alice OR eva) lang") == {"m1"}
    refused = world.get(SEARCH, "bob", q="lease", streams="messages",
        filter__from_name__words='"eva lang"')  # fmt: skip
    assert (refused.status, refused.error["param"]) == (400, "filter[from_name][words]")


def test_or_binds_weaker_than_the_words_beside_it(world: World) -> None:
    assert set(keys(world, "bob", q="canal unicorn OR invoice")) == {"w2"}
    assert keys(world, "bob", q="unicorn OR canal invoice") == []
    assert set(keys(world, "bob", q="(canal OR invoice) -canal")) == {"w2"}
