"""Compare the order of hits with a reference scoring in plain Python."""

import math
from datetime import datetime
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest
from evidence.search import lexical
from evidence.search.analysis.tsquery import impact_tier
from evidence.search.lexical import MOST_ANY_WORD
from tests.world import PERSONAL, WORK, World

WORDS = ("quokka", "zephyr", "kumquat", "xylophone")
DAYS = ("2026-01-10T09:00:00+00:00", "2026-03-05T18:30:00+00:00")
# Title and body weights, and a sum of 4 for a word and 0 to 3 for its tier: what is promised.
WEIGHTS = {"subject": 2.0, "body_text": 1.0}

texts = st.lists(st.sampled_from((*WORDS, "filler", "filler")), max_size=6).map(" ".join)
bodies = st.one_of(texts, texts.map(lambda text: f"{text} {'padding ' * 300}"))
records = st.lists(
    st.tuples(
        st.sampled_from([PERSONAL, WORK]),
        st.fixed_dictionaries(
            {
                "id": st.sampled_from([f"r{n}" for n in range(9)]),
                "received_at": st.sampled_from(DAYS),
                "subject": texts,
                "body_text": bodies,
            }
        ),
    ),
    max_size=9,
    unique_by=lambda each: (each[0], each[1]["id"]),
)
asked = st.lists(st.sampled_from((*WORDS, "unheardof")), min_size=1, max_size=3, unique=True)


def score(record: dict[str, Any], words: dict[str, int]) -> tuple[int, bool]:
    """The points of a record for words with weights, and whether it has all the words."""
    points = [
        points + 4 * (weight - 1) if points else 0
        for word, weight in words.items()
        for points in [max(_points(record, word, field) for field in WEIGHTS)]
    ]
    return sum(points), all(points)


def rarity(written: list[tuple[str, dict[str, Any]]], word: str) -> int:
    """1 for a word of at least 1,000 records, and 1 more for each halving."""
    count = sum(score(record, {word: 1})[1] for _, record in written)
    return 1 + int(math.log2(1_000 / max(count, 1)))


def _points(record: dict[str, Any], word: str, field: str) -> int:
    written = record[field].split()
    if word not in written:
        return 0
    return 4 + impact_tier(written.count(word), length=len(written), weight=WEIGHTS[field])


def expected(written: list[tuple[str, dict[str, Any]]], words: list[str]) -> tuple[list[Any], str]:
    """Connection and key of every hit in order, and which words had to match."""
    weights = dict.fromkeys(words, 1)
    if not any(score(record, weights)[1] for _, record in written):
        weights = {word: rarity(written, word) for word in words}
    scored = [(connection, record, *score(record, weights)) for connection, record in written]
    complete = [each for each in scored if each[3]]
    hits = complete or [each for each in scored if each[2]]
    order = sorted(
        hits,
        key=lambda each: (
            -each[2],
            -datetime.fromisoformat(each[1]["received_at"]).timestamp(),
            each[0],
            each[1]["id"],
        ),
    )
    relaxed = not complete and len(words) > 1
    return [(each[0], each[1]["id"]) for each in order], "any_word" if relaxed else "all_words"


def paged(world: World, q: str, *, limit: int) -> tuple[list[tuple[str, str]], list[dict]]:
    """All hits over all pages, and what each page said."""
    hits, metas, cursor = [], [], {}
    while True:
        answer = world.get("/v1/search", q=q, limit=limit, **cursor)
        assert answer.status == 200, answer.body
        hits += [(hit["connection_id"], hit["record_key"]) for hit in answer.body["data"]]
        metas.append(answer.body["meta"])
        if not answer.body["has_more"]:
            return hits, metas
        cursor = {"cursor": answer.body["next_cursor"]}


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(written=records, words=asked, limit=st.sampled_from([2, 3, 25]))
def test_pages_follow_the_reference_scoring(
    world: World, written: list[tuple[str, dict[str, Any]]], words: list[str], limit: int
) -> None:
    with transaction.atomic():
        world.put(*((connection, "messages", record) for connection, record in written))
        hits, metas = paged(world, " ".join(words), limit=limit)
        transaction.set_rollback(True)
    order, match = expected(written, words)
    assert hits == (order if match == "all_words" else order[:MOST_ANY_WORD])
    for meta in metas:
        assert (meta["match"], meta["count"]) == (match, len(order))
        assert (meta["count_accuracy"], meta["recall"]["complete"]) == ("exact", True)


def test_more_matching_words_rank_above_one_frequent_word(
    world: World,
) -> None:
    loud = {"id": "loud", "subject": "quokka quokka", "body_text": "quokka " * 20}
    both = {"id": "both", "subject": "", "body_text": f"quokka zephyr {'padding ' * 300}"}
    for record in (loud, both):
        world.put((WORK, "messages", record | {"received_at": DAYS[0]}))
    answer = world.get("/v1/search", q="quokka zephyr unheardof")
    assert answer.ids == ["both", "loud"]
    assert answer.body["meta"]["match"] == "any_word"


def test_rare_word_ranks_above_two_frequent_ones(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lexical, "FREQUENT_COUNT", 40)
    frequent = [{"id": f"f{number}", "subject": "quokka zephyr"} for number in range(40)]
    for record in ({"id": "rare", "subject": "kumquat"}, *frequent):
        world.put((WORK, "messages", record | {"received_at": DAYS[record["id"] != "rare"]}))
    hits, _ = paged(world, "what is the kumquat of quokka and zephyr unheardof", limit=9)
    assert hits[0] == (WORK, "rare")
    assert len(set(hits)) == len(hits) == MOST_ANY_WORD


def test_rarity_of_a_word_depends_on_visible_records_only(world: World) -> None:
    for key, word in (("a", "quokka"), ("b", "zephyr"), ("c", "zephyr")):
        world.put((WORK, "messages", {"id": key, "received_at": DAYS[0], "subject": word}))
    subjects = StreamRequest(name="messages", fields=("id", "subject"))
    world.grant("gina", GrantRequest(connection_ids=[WORK], streams=[subjects]))
    before = world.get("/v1/search", "gina", q="quokka zephyr unheardof").body
    assert [hit["record_key"] for hit in before["data"]] == ["a", "b", "c"]
    for number in range(20):
        world.put((PERSONAL, "messages", {"id": f"h{number}", "received_at": DAYS[0],
            "subject": "quokka"}))  # fmt: skip
        world.put((WORK, "messages", {"id": "c", "received_at": DAYS[0], "subject": "zephyr",
            "body_text": "quokka"}))  # fmt: skip
    assert world.get("/v1/search", "gina", q="quokka zephyr unheardof").body == before


def test_ties_sort_newest_first_only_if_the_time_is_granted(world: World) -> None:
    for key, day in (("a", DAYS[0]), ("b", DAYS[1])):
        world.put((WORK, "messages", {"id": key, "received_at": day, "subject": "quokka"}))
    subjects = StreamRequest(name="messages", fields=("id", "subject"))
    world.grant("gina", GrantRequest(connection_ids=[WORK], streams=[subjects]))
    assert world.get("/v1/search", "alice", q="quokka").ids == ["b", "a"]
    assert world.get("/v1/search", "gina", q="quokka").ids == ["a", "b"]


@pytest.mark.parametrize("q", ["when is the lease", "Wann ist die lease", "lease, with the or of"])
def test_stop_words_neither_exclude_nor_score(world: World, q: str) -> None:
    plain = world.get("/v1/search", q="lease").body
    asked = world.get("/v1/search", q=q).body
    assert asked["meta"] == plain["meta"]
    assert [hit["score"] for hit in asked["data"]] == [hit["score"] for hit in plain["data"]]


def test_query_of_only_stop_words_matches(world: World) -> None:
    answer = world.get("/v1/search", q="by the end of")
    assert answer.ids == ["w2"]
    assert answer.body["meta"]["match"] == "all_words"


def test_cjk_run_matches_by_its_parts_without_stop_words(world: World) -> None:
    answer = world.get("/v1/search", q="京都でお土産を買いました")
    assert answer.ids == ["m3"]
    assert answer.body["meta"]["match"] == "any_word"
    assert "<mark>京都</mark>" in answer.body["data"][0]["snippet"]["text"]


def test_misspelled_word_matches_spellings_in_visible_texts(world: World) -> None:
    world.put((WORK, "messages", {"id": "h", "received_at": DAYS[0], "subject": "Headphones"}))
    answer = world.get("/v1/search", q="headphnes unheardof")
    assert answer.ids == ["h"]
    meta = answer.body["meta"]
    assert (meta["match"], meta["suggestions"]) == ("any_word", {"headphnes": ["headphones"]})
    assert "'headphnes' (also searched as 'headphones')" in meta["note"]


def test_spellings_of_one_word_count_as_one_word(world: World) -> None:
    for number in range(6):
        world.put((WORK, "messages", {"id": f"t{number}", "received_at": DAYS[1],
            "subject": "Tangerine tangerines tangerin"}))  # fmt: skip
    world.put((WORK, "messages", {"id": "b", "received_at": DAYS[0], "subject": "Birthday"}))
    answer = world.get("/v1/search", q="tangernie birthday")
    assert len(answer.body["meta"]["suggestions"]["tangernie"]) > 1
    assert answer.ids[0] == "b"


def test_single_misspelled_word_gets_a_suggestion(world: World) -> None:
    answer = world.get("/v1/search", q="wonderflu")
    assert answer.ids == []
    meta = answer.body["meta"]
    assert (meta["match"], meta["count"]) == ("all_words", 0)
    assert meta["suggestions"] == {"wonderflu": ["wonderful"]}
    assert "'wonderful' instead of 'wonderflu'" in meta["hint"]
    assert world.get("/v1/search", q="wonderful").ids == ["m2"]


@pytest.mark.parametrize("who", ["bob", "alice"])
def test_suggestions_come_from_visible_texts_only(world: World, who: str) -> None:
    world.put((WORK, "messages", {"id": "s", "received_at": DAYS[0], "subject": "Ordinary",
        "from_email": "quokkafriend@example.org"}))  # fmt: skip
    world.put((WORK, "messages", {"id": "o", "received_at": "2025-01-01T00:00:00Z",
        "subject": "Marzipan"}))  # fmt: skip
    for q, spelling in (("quokkafreind", "quokkafriend"), ("marzipna", "marzipan")):
        meta = world.get("/v1/search", who, q=q).body["meta"]
        sees = who == "alice"
        assert meta.get("suggestions") == ({q: [spelling]} if sees else None)
        assert (spelling in meta["hint"]) is sees


@pytest.mark.parametrize("q", ["bonderful", "ownderful", "wwonderful", "onderful"])
def test_errors_in_the_first_letters_are_corrected(world: World, q: str) -> None:
    meta = world.get("/v1/search", q=q).body["meta"]
    assert meta.get("suggestions") == {q: ["wonderful"]}


def test_wrong_character_in_a_cjk_run_gets_a_suggestion(world: World) -> None:
    meta = world.get("/v1/search", q="京都のお士産").body["meta"]
    assert meta["suggestions"] == {"京都のお士産": ["京都のお土産"]}
    assert "suggestions" not in world.get("/v1/search", "charlie", q="京都のお士産").body["meta"]


def test_pages_of_other_spellings_are_consistent(world: World) -> None:
    for number in range(5):
        world.put((WORK, "messages", {"id": f"h{number}", "received_at": DAYS[number % 2],
            "subject": "Headphones"}))  # fmt: skip
    hits, metas = paged(world, "headphnes unheardof", limit=2)
    assert sorted(key for _, key in hits) == ["h0", "h1", "h2", "h3", "h4"]
    assert all(meta["suggestions"] == {"headphnes": ["headphones"]} for meta in metas)


@pytest.mark.parametrize(
    "written",
    ["2024-03-15", "15.3.2024", "15 March 2024", "Friday, March 15, 2024", "15. März 2024",
     "vendredi 15 mars 2024", "15 de marzo de 2024"],
)  # fmt: skip
def test_full_date_matches_records_of_that_day(world: World, written: str) -> None:
    world.put(
        (WORK, "messages", {"id": "says", "subject": f"Quokka on {written}",
            "received_at": "2024-01-02T10:00:00Z"}),
        (WORK, "messages", {"id": "day", "subject": "Quokka", "received_at": "2024-03-15T10:00:00Z"}),
        (WORK, "messages", {"id": "next", "subject": "Quokka",
            "received_at": "2024-03-16T10:00:00Z"}),
        (WORK, "messages", {"id": "other", "subject": "Zebra",
            "received_at": "2024-03-15T10:00:00Z"}),
    )  # fmt: skip
    answer = world.get("/v1/search", "alice", q=f"quokka {written}")
    assert (answer.ids, answer.body["meta"]["count"]) == (["says", "day"], 2)
    first = world.get("/v1/search", "alice", q=f"quokka {written}", limit=1)
    cursor = first.body["next_cursor"]
    second = world.get("/v1/search", "alice", q=f"quokka {written}", limit=1, cursor=cursor)
    assert (first.ids, second.ids, second.body["has_more"]) == (["says"], ["day"], False)
    assert world.get("/v1/search", "alice", q=f"quokka -zebra {written}").ids == ["says", "day"]
    assert sorted(world.get("/v1/search", "alice", q=written).ids) == ["day", "other", "says"]
    timeless = StreamRequest(name="messages", fields=["id", "subject"])
    world.grant("eve", GrantRequest(connection_ids=[WORK], streams=[timeless]))
    assert world.get("/v1/search", "eve", q=f"quokka {written}").ids == ["says"]
