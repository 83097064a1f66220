"""Ways to find the first hits of very many: each gives what scoring every match gives."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import product
from typing import Any

import pytest

from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest
from evidence.access.ranking import match_counts, matches, top_k
from evidence.search import lexical as search
from tests.world import CHAT, PERSONAL, WORK, World

WORDS = ("quokka", "zephyr", "kumquat")
DAYS = ("2026-01-10", "2026-01-11", "2026-02-20", None)
SCALE: dict[str, dict[Any, int]] = {
    "walk": {(top_k, "WALKED"): 4, (top_k, "WALKED_AT_MOST"): 0},
    "longer walk": {(top_k, "WALKED"): 2, (top_k, "WALKED_AT_MOST"): 500},
    "index": {(top_k, "WALKED"): 1, (top_k, "WALKED_AT_MOST"): 0},
    "all the rest": {(top_k, "WALKED"): 1, (top_k, "MOST_WAYS"): 3},
}


def records() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every mixture of words, places and times a few times over, ties included."""
    mixtures = product(WORDS, (*WORDS, ""), (1, 4, 300), DAYS)
    for number, (title, other, length, day) in enumerate(mixtures):
        at = None if day is None else f"{day}T0{number % 3}:00:00Z"
        text = f"{other} {title * (number % 2)} {'filler ' * length}"
        data = {"id": f"s{number}", "subject": title * (number % 5 > 1), "body_text": text}
        yield (PERSONAL, WORK)[number % 2], "messages", data | {"received_at": at}
    for number in range(12):
        data = {"id": f"s{number}", "text": f"{WORDS[number % 3]} here", "channel": "x"}
        yield CHAT, "messages", data | {"sent_at": f"2026-01-1{number % 4}T00:00:00Z"}


@pytest.fixture
def crowded(world: World) -> World:
    """Eve sees no times, Frank sees them in one of two sources only."""
    world.put(*records())
    timeless = StreamRequest(name="messages", fields=["id", "subject", "body_text"])
    mail = GrantRequest(connection_ids=[PERSONAL, WORK], streams=[timeless])
    chat = GrantRequest(connection_ids=[CHAT], streams=[StreamRequest(name="messages")])
    world.grant("eve", mail)
    world.grant("frank", mail, chat)
    return world


@pytest.fixture
def scaled(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[Any, int]], None]:
    monkeypatch.setattr(
        match_counts, "NARROW", 0
    )  # No grant sees so little that all of it is read.

    def scale(numbers: dict[Any, int]) -> None:
        for (module, name), number in numbers.items():
            monkeypatch.setattr(module, name, number)

    return scale


def paged(world: World, who: str, q: str, **query: str) -> tuple[list[Any], list[int]]:
    """The hits of all pages, and the counts that the pages told."""
    hits, counts, cursor = [], [], {}
    while True:
        body = world.get("/v1/search", who, q=q, limit=7, **query, **cursor).body
        hits += [(each["connection_id"], each["record_key"], each["score"]["value"])
                 for each in body["data"]]  # fmt: skip
        counts.append(body["meta"]["count"])
        if not body["has_more"]:
            return hits, counts
        cursor = {"cursor": body["next_cursor"]}


@pytest.mark.parametrize("who", ["bob", "eve", "frank", "dora"])
@pytest.mark.parametrize("q", ["quokka", "zephyr kumquat", "quok* OR kumquat", "filler -quokka"])
def test_every_way_gives_the_same_pages(
    crowded: World, scaled: Callable[[dict[Any, int]], None], who: str, q: str
) -> None:
    scaled({(matches, "FEW"): 0, (matches, "SCORED"): 10**6})
    expected = paged(crowded, who, q)
    assert len(expected[0]) == expected[1][0] > 7
    untouched = {place: getattr(*place) for numbers in SCALE.values() for place in numbers}
    for way, numbers in SCALE.items():
        scaled({(matches, "SCORED"): 0, **untouched, **numbers})
        assert paged(crowded, who, q) == expected, way


def test_a_walk_waits_for_the_mailbox_that_it_knows_least_of(
    world: World, scaled: Callable[[dict[Any, int]], None]
) -> None:
    """Few old mails in one, many new ones in the other: what lies between is not passed over."""
    for key, day in (("new", "03-20"), ("old", "01-10"), ("older", "01-09"), ("oldest", "01-08")):
        world.put((PERSONAL, "messages", {"id": key, "subject": "quokka",
            "received_at": f"2026-{day}T00:00:00Z"}))  # fmt: skip
    world.put((WORK, "messages", {"id": "between", "subject": "quokka",
        "received_at": "2026-02-15T00:00:00Z"}))  # fmt: skip
    world.put(*((WORK, "messages", {"id": f"f{day}", "subject": "filler",
        "received_at": f"2026-03-1{day}T00:00:00Z"}) for day in range(9)))  # fmt: skip
    scaled({(matches, "FEW"): 0, (matches, "SCORED"): 0, (top_k, "WALKED"): 8})
    assert world.get("/v1/search", q="quokka", limit=2).ids == ["new", "between"]


@pytest.mark.parametrize("who", ["bob", "eve", "dora"])
def test_the_newest_come_first_by_every_way(
    crowded: World, scaled: Callable[[dict[Any, int]], None], who: str
) -> None:
    scaled({(matches, "FEW"): 0, (matches, "SCORED"): 10**6})
    expected = paged(crowded, who, "zephyr", sort="-time")
    for walks in ((5, 20), (1,), (500,)):
        scaled({(matches, "SCORED"): 0, (matches, "WALKS"): walks})  # type: ignore[dict-item]
        assert paged(crowded, who, "zephyr", sort="-time") == expected
    scaled({(matches, "FEW"): 10**6})
    assert paged(crowded, who, "zephyr", sort="-time") == expected


@pytest.mark.parametrize("q", ["quokka", "filler", "zephyr kumquat", "filler -zephyr"])
def test_a_count_is_exact_up_to_its_bound_and_never_less(
    crowded: World, scaled: Callable[[dict[Any, int]], None], q: str
) -> None:
    known = len(paged(crowded, "bob", q)[0])
    for sampled, in_turn, bound in product((1, 16), (0, 1, 500), (known - 1, known, known + 1)):
        scaled({(match_counts, "SAMPLED"): sampled, (match_counts, "READ_IN_TURN"): in_turn})
        scaled({(search, "COUNTED_UP_TO"): bound})
        meta = crowded.get("/v1/search", q=q).body["meta"]
        accuracy = "exact" if bound >= known else "lower_bound"
        assert (meta["count"], meta["count_accuracy"]) == (min(known, bound), accuracy)


def test_a_large_count_is_not_made_again_until_something_changes(
    crowded: World, scaled: Callable[[dict[Any, int]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []

    def counted(branches: Any, most: int, *, count: Any = match_counts._counted) -> Any:
        made.append(most)
        return count(branches, most)

    monkeypatch.setattr(match_counts, "_counted", counted)
    monkeypatch.setattr(match_counts, "_known", OrderedDict())
    scaled({(match_counts, "LARGE"): 1, (matches, "FEW"): 0})
    since = datetime(2026, 2, 1, tzinfo=UTC)
    late = StreamRequest(name="messages", fields=["id", "subject", "body_text"], since=since)
    crowded.grant("gina", GrantRequest(connection_ids=[PERSONAL, WORK], streams=[late]))

    def count(who: str) -> int:
        told: int = crowded.get("/v1/search", who, q="quokka").body["meta"]["count"]
        return told

    known = count("eve")
    assert count("eve") == known
    assert len(made) == 1
    crowded.put((PERSONAL, "messages", {"id": "more", "subject": "quokka", "body_text": "quokka"}))
    assert count("eve") == known + 1
    assert len(made) == 2
    assert count("frank") > known + 1
    assert count("gina") < known
    assert len(made) == 4
