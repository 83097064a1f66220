"""Test that every top-k strategy returns what scoring every match returns."""

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest
from django.db import connection
from pytest_django import DjangoDbBlocker

from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest
from evidence.access.ranking import matches, scores
from evidence.search import lexical as search
from tests.arranged import Arranged
from tests.world import CHAT, PERSONAL, WORK, World

pytestmark = pytest.mark.slow

WORDS = ("quokka", "zephyr", "kumquat")
DAYS = ("2026-01-10", "2026-01-11", "2026-02-20", None)
SCALE: dict[str, dict[Any, int]] = {
    "recency scan": {(scores, "SCAN_ROWS"): 4, (scores, "MAX_SCAN_ROWS"): 0},
    "longer recency scan": {(scores, "SCAN_ROWS"): 2, (scores, "MAX_SCAN_ROWS"): 500},
    "index": {(scores, "SCAN_ROWS"): 1, (scores, "MAX_SCAN_ROWS"): 0},
    "many combinations": {(scores, "SCAN_ROWS"): 1, (scores, "MAX_COMBINATIONS"): 3},
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


def crowd() -> World:
    """Eve sees no times, Frank sees them in one of two sources only."""
    world = World.build()
    world.put(*records())
    timeless = StreamRequest(name="messages", fields=["id", "subject", "body_text"])
    mail = GrantRequest(connection_ids=[PERSONAL, WORK], streams=[timeless])
    chat = GrantRequest(connection_ids=[CHAT], streams=[StreamRequest(name="messages")])
    world.grant("eve", mail)
    world.grant("frank", mail, chat)
    return world


@pytest.fixture(scope="module")
def _crowd(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Arranged[World]:
    with django_db_blocker.unblock():
        return Arranged.by(crowd)


@pytest.fixture
def crowded(_crowd: Arranged[World], db: None) -> World:
    return _crowd.again()


@pytest.fixture
def scaled(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[Any, int]], None]:
    # No grant shows so few rows that all of them are read.
    monkeypatch.setattr(matches, "FEW_VISIBLE_ROWS", 0)

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
@pytest.mark.parametrize(
    "q",
    [
        "quokka",
        "zephyr kumquat",
        "quok* OR kumquat",
        "filler -quokka",
        "quokka here unheardof",  # "here" is rare, so it has a weight
    ],
)
def test_all_ranking_strategies_return_the_same_pages(
    crowded: World, scaled: Callable[[dict[Any, int]], None], who: str, q: str
) -> None:
    scaled({(search, "FREQUENT_COUNT"): 30})
    scaled({(matches, "SCORE_ALL_MAX"): 10**6})
    expected = paged(crowded, who, q)
    found = expected[1][0]
    assert found > 7
    assert len(expected[0]) == (search.MOST_ANY_WORD if "unheardof" in q else found)
    untouched = {place: getattr(*place) for numbers in SCALE.values() for place in numbers}
    for strategy, numbers in SCALE.items():
        scaled({(matches, "SCORE_ALL_MAX"): 0, **untouched, **numbers})
        assert paged(crowded, who, q) == expected, strategy


def test_recency_scan_stops_at_the_least_scanned_connection(
    world: World, scaled: Callable[[dict[Any, int]], None]
) -> None:
    """With few old emails in one connection and many new ones in another, none is skipped."""
    for key, day in (("new", "03-20"), ("old", "01-10"), ("older", "01-09"), ("oldest", "01-08")):
        world.put((PERSONAL, "messages", {"id": key, "subject": "quokka",
            "received_at": f"2026-{day}T00:00:00Z"}))  # fmt: skip
    world.put((WORK, "messages", {"id": "between", "subject": "quokka",
        "received_at": "2026-02-15T00:00:00Z"}))  # fmt: skip
    world.put(*((WORK, "messages", {"id": f"f{day}", "subject": "filler",
        "received_at": f"2026-03-1{day}T00:00:00Z"}) for day in range(9)))  # fmt: skip
    scaled({(matches, "SCORE_ALL_MAX"): 0, (scores, "SCAN_ROWS"): 8})
    assert world.get("/v1/search", q="quokka", limit=2).ids == ["new", "between"]


@pytest.mark.parametrize("who", ["bob", "eve", "dora"])
def test_all_strategies_sort_newest_first(
    crowded: World, scaled: Callable[[dict[Any, int]], None], who: str
) -> None:
    scaled({(search, "FREQUENT_COUNT"): 30})
    scaled({(matches, "SCORE_ALL_MAX"): 10**6})
    expected = paged(crowded, who, "zephyr", sort="-time")
    scaled({(matches, "SCORE_ALL_MAX"): 0})
    for first, longest in ((5, 20), (1, 1), (500, 500)):
        scaled({(matches, "RECENCY_SCAN_SIZE"): first, (matches, "MAX_RECENCY_SCAN_SIZE"): longest})
        assert paged(crowded, who, "zephyr", sort="-time") == expected


ONE_SERVER = pytest.mark.one_server("The coordinator has no statistics of rows on the nodes.")


@pytest.mark.parametrize("has_statistics", [False, pytest.param(True, marks=ONE_SERVER)])
def test_first_letter_errors_are_corrected_by_words_of_rare_fields_and_tiers(
    crowded: World, scaled: Callable[[dict[Any, int]], None], has_statistics: bool
) -> None:
    hidden = {"id": "t", "text": "tarmalade", "sent_at": "2026-01-10T00:00:00Z"}
    long = {"id": "m", "body_text": "marmalade " + "filler " * 900}
    crowded.put((CHAT, "messages", hidden), (WORK, "messages", long))
    matches._known_starts.cache_clear()
    if has_statistics:
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE evidence_searchtext")
    scaled({})
    for _ in range(2):
        meta = crowded.get("/v1/search", "eve", q="narmalade").body["meta"]
        assert meta["suggestions"] == {"narmalade": ["marmalade"]}
    assert bool(matches._known_starts(matches.current_hour())) is has_statistics


@pytest.mark.parametrize("q", ["quokka", "filler", "zephyr kumquat", "filler -zephyr"])
def test_count_is_exact_up_to_its_bound_and_never_lower(
    crowded: World, scaled: Callable[[dict[Any, int]], None], q: str
) -> None:
    known = len(paged(crowded, "bob", q)[0])
    for bound in (known - 1, known, known + 1):
        scaled({(search, "COUNT_LIMIT"): bound})
        meta = crowded.get("/v1/search", q=q).body["meta"]
        accuracy = "exact" if bound >= known else "lower_bound"
        assert (meta["count"], meta["count_accuracy"]) == (min(known, bound), accuracy)
