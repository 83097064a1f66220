"""Test semantic and hybrid search."""

from collections import defaultdict
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries
from pytest_django.fixtures import Settings

from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest
from evidence.search.embedding import configured_embedder
from tests.scenarios import scenario
from tests.world import CHAT, PERSONAL, WORK, World, mail

SEARCH = "/v1/search"
DAY = "2026-04-01T09:00:00Z"
QUESTION = "what does the flat cost"
MODES = ("semantic", "hybrid")


def found(world: World, who: str = "bob", **query: Any) -> list[dict[str, Any]]:
    answer = world.get(SEARCH, who, **query)
    assert answer.status == 200, answer.body
    hits: list[dict[str, Any]] = answer.body["data"]
    return hits


def keys(world: World, who: str = "bob", **query: Any) -> list[str]:
    return [hit["record_key"] for hit in found(world, who, **query)]


def every(world: World, who: str = "bob", **query: Any) -> list[tuple[str, str]]:
    """All hits, page by page."""
    hits: list[tuple[str, str]] = []
    cursor: dict[str, str] = {}
    while True:
        answer = world.get(SEARCH, who, **query, **cursor)
        assert answer.status == 200, answer.body
        hits += [(hit["connection_id"], hit["record_key"]) for hit in answer.body["data"]]
        if not answer.body["has_more"]:
            return hits
        cursor = {"cursor": answer.body["next_cursor"]}


def put(world: World, **bodies: str) -> None:
    world.put(
        *((PERSONAL, "messages", mail(key, DAY, body_text=text)) for key, text in bodies.items())
    )
    world.embed()


def test_semantic_search_finds_records_without_the_query_words(embedded: World) -> None:
    put(embedded, rent="The monthly rent of the apartment is 900 euros.", cat="A cat sleeps.")
    asked = "how expensive is your dwelling"
    assert keys(embedded, q=asked) == []
    assert keys(embedded, q=asked, mode="semantic")[0] == "rent"
    assert keys(embedded, q=asked, mode="hybrid")[0] == "rent"


@pytest.mark.parametrize("mode", MODES)
def test_model_reads_the_whole_question(
    embedded: World, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    put(embedded, rent="The monthly rent is 900 euros.")
    no_meaning: defaultdict[str, list[float]] = defaultdict(lambda: [0.0] * 256)
    monkeypatch.setattr(configured_embedder(), "embed_query", no_meaning.__getitem__)
    found(embedded, q=QUESTION, mode=mode)
    assert set(no_meaning) == {QUESTION}


def test_meaning_ranks_before_records_with_few_of_the_words(embedded: World) -> None:
    others = " ".join(f"other{number}" for number in range(40))
    put(
        embedded,
        rent="The monthly rent of the apartment is 900 euros.",
        one=f"A train {others}",
        two=f"The train {others}",
    )
    hits = keys(embedded, q="dwelling expensive train", mode="hybrid")
    assert hits[0] == "rent"
    assert {"one", "two"} < set(hits)


def test_semantic_and_hybrid_routes_equal_the_modes(embedded: World) -> None:
    for mode in MODES:
        by_route = embedded.get(f"{SEARCH}/{mode}", q=QUESTION).body
        assert by_route["data"] == found(embedded, q=QUESTION, mode=mode)
        assert by_route["url"] == f"{SEARCH}/{mode}"
        assert embedded.get(f"{SEARCH}/{mode}", q=QUESTION, mode=mode).error["param"] == "mode"


@scenario("B3")
def test_semantic_hit_has_no_excerpts_but_a_link_to_read(embedded: World) -> None:
    long = "Nothing of note happened. " * 30 + "The monthly rent of the apartment is 900 euros."
    put(embedded, rent=long)

    (hit,) = [
        each for each in found(embedded, q="what is the monthly rent", mode="semantic")
        if each["record_key"] == "rent"
    ]  # fmt: skip

    assert hit["retrieval_mode"] == "semantic"
    assert hit["score"]["kind"] == "semantic_distance"
    assert hit["evidence_excerpts"] == hit["matched_fields"] == []
    snippet = hit["snippet"]
    assert snippet["provenance"] == "semantic_passage"
    assert "900 euros" in snippet["text"]
    assert "<mark>" not in snippet["text"]
    read = snippet["read"]
    window = embedded.get(
        read["route"],
        field=read["field"],
        offset_chars=read["offset_chars"],
        limit_chars=snippet["end_chars"] - snippet["start_chars"],
        connection_id=read["connection_id"],
    )
    assert window.body["window"]["text"] == snippet["text"].removeprefix("…").removesuffix("…")


def test_lexical_match_in_hybrid_search_has_excerpts(embedded: World) -> None:
    hit = found(embedded, q="deposit transfer", mode="hybrid")[0]
    assert hit["record_key"] == "m2"
    assert hit["retrieval_sources"] == ["lexical", "semantic"]
    assert set(hit["scores"]) == {"lexical", "semantic"}
    assert hit["evidence_excerpts"][0]["provenance"] == "lexical_match"
    assert "<mark>deposit</mark>" in hit["snippet"]["text"]


def test_lexical_matches_rank_before_semantic_ones(embedded: World) -> None:
    put(embedded, rent="The monthly rent of the apartment is 900 euros.")
    assert keys(embedded, q="lease deposit", mode="hybrid")[:2] == keys(embedded, q="lease deposit")


@pytest.mark.parametrize(
    "q", ['"the lease"', "leas*", "lease OR rent", "lease -rent", "subject:lease"]
)
def test_operators_require_lexical_search(embedded: World, q: str) -> None:
    assert keys(embedded, q=q, mode="hybrid") == keys(embedded, q=q)
    if q.startswith('"'):
        assert keys(embedded, q=q, mode="semantic") == keys(
            embedded, q="the lease", mode="semantic"
        )
        return
    refused = embedded.get(SEARCH, q=q, mode="semantic")
    assert (refused.status, refused.error["param"]) == (400, "q")


@pytest.mark.parametrize("mode", MODES)
def test_newest_first_requires_lexical_search(embedded: World, mode: str) -> None:
    refused = embedded.get(SEARCH, q="lease", mode=mode, sort="-time")
    assert (refused.status, refused.error["param"]) == (400, "sort")


@pytest.mark.parametrize("mode", MODES)
def test_cursors_reach_every_hit_once(embedded: World, mode: str) -> None:
    put(embedded, **{f"k{n}": f"The lease of flat {n} costs {n} euros." for n in range(12)})
    whole = [
        (hit["connection_id"], hit["record_key"])
        for hit in found(embedded, q=QUESTION + " lease", mode=mode, limit=100)
    ]
    assert len(whole) >= 12
    assert every(embedded, q=QUESTION + " lease", mode=mode, limit=3) == whole


@pytest.mark.parametrize("mode", MODES)
def test_pages_do_not_overlap_while_records_change(embedded: World, mode: str) -> None:
    put(embedded, **{f"k{n}": f"The lease of flat {n} costs {n} euros." for n in range(9)})
    query: dict[str, Any] = {"q": "lease costs", "mode": mode, "limit": 4}
    whole = every(embedded, **query)
    first = embedded.get(SEARCH, **query)
    put(embedded, new1="The lease costs.", new2="The lease costs!", new3="Lease costs")
    gone = first.ids[0]
    embedded.send([{"connection_id": PERSONAL, "stream": "messages", "key": gone, "op": "delete"}])
    rest: list[tuple[str, str]] = []
    cursor = first.body["next_cursor"]
    while cursor:
        page = embedded.get(SEARCH, **query, cursor=cursor)
        rest += [(hit["connection_id"], hit["record_key"]) for hit in page.body["data"]]
        cursor = page.body.get("next_cursor")
    shown = [(PERSONAL, key) for key in first.ids]
    assert len({*shown, *rest}) == len(shown) + len(rest)
    assert {*whole} <= {*shown, *rest}


def test_lexical_matches_follow_the_fused_ones(embedded: World) -> None:
    put(embedded, **{f"k{n:03}": f"Lease number {n}." for n in range(130)})
    hits = every(embedded, q="lease", mode="hybrid", limit=60)
    assert len(hits) == len(set(hits))
    assert set(hits) >= set(every(embedded, q="lease", limit=100))
    recall = embedded.get(SEARCH, q="lease", mode="hybrid").body["meta"]["recall"]
    assert recall["ranking_scope"] == "candidate_window"
    assert recall["complete"] is False
    assert recall["candidate_window_limit"] == 100


def test_recall_is_complete_if_everything_was_ranked(embedded: World) -> None:
    for mode in MODES:
        meta = embedded.get(SEARCH, q="lease", mode=mode).body["meta"]
        assert meta["recall"] == {
            "complete": True, "ranking_scope": "all_matches", "truncated": False,
        }  # fmt: skip
        assert meta["search_mode"] == mode
        assert meta["count"] == {"kind": "none"}


def test_streams_without_vectors_are_reported(embedded: World) -> None:
    embedded.put((PERSONAL, "messages", mail("new", DAY, body_text="The rent is due.")))
    meta = embedded.get(SEARCH, q="lease", mode="hybrid").body["meta"]
    assert meta["index_maintenance"]["pending_scopes"] == [
        {"connection_id": PERSONAL, "stream": "messages"}
    ]
    assert meta["recall"]["complete"] is False
    embedded.embed()
    assert "index_maintenance" not in embedded.get(SEARCH, q="lease", mode="hybrid").body["meta"]


def test_hidden_records_without_vectors_are_not_reported(embedded: World) -> None:
    embedded.put((PERSONAL, "messages", mail("old", "2025-02-01T00:00:00Z", body_text="Rent.")))
    meta = embedded.get(SEARCH, q="lease", mode="semantic").body["meta"]
    assert "index_maintenance" not in meta
    assert (
        "index_maintenance"
        in embedded.get(SEARCH, "alice", q="lease", mode="semantic").body["meta"]
    )


def test_schema_lists_search_modes(embedded: World) -> None:
    def modes(who: str) -> dict[str, list[str]]:
        body = embedded.get("/v1/schema", who).body
        return {
            f"{source['connector_key']}/{stream['name']}": stream["search_modes"]
            for source in body["connectors"]
            for stream in source["streams"]
        }

    assert modes("dora") == {
        "mail/messages": ["lexical", "semantic", "hybrid"],
        "mail/threads": [],
        "workspace/messages": ["lexical"],
        "account/transactions": ["lexical"],
    }
    compact = embedded.get("/v1/schema", view="compact").body["connectors"][0]["streams"][0]
    assert compact["search_modes"] == ["lexical", "semantic", "hybrid"]
    assert compact["field_capabilities"]["body_text"].endswith("lex,sem")


@pytest.mark.parametrize("mode", MODES)
def test_streams_without_vectors_lack_semantic_modes(
    embedded: World, settings: Settings, mode: str
) -> None:
    settings.PDPP_EMBEDDER = "none"
    world = embedded
    refused = world.get(SEARCH, q="lease", mode=mode)
    assert (refused.status, refused.error["code"]) == (400, "invalid_request")
    assert refused.error["param"] == "mode"
    assert "Omit mode" in refused.error["next_step"]
    absent = world.get(f"{SEARCH}/{mode}", q="lease")
    assert (absent.status, absent.error["code"]) == (404, "search_mode_unavailable")
    assert absent.error["message"] == refused.error["message"]
    assert keys(world, q="lease")
    (source,) = world.get("/v1/schema").body["connectors"]
    assert source["streams"][0]["search_modes"] == ["lexical"]


def test_grant_without_semantic_fields_lacks_semantic_modes(embedded: World) -> None:
    assert embedded.get(SEARCH, "charlie", q="lease", mode="semantic").error["param"] == "mode"


def test_semantic_search_ignores_hidden_fields(embedded: World) -> None:
    request = StreamRequest(name="messages", fields=["id", "subject"])
    embedded.grant("erin", GrantRequest(connection_ids=[PERSONAL], streams=[request]))
    assert embedded.get(SEARCH, "erin", q="lease", mode="semantic").error["param"] == "mode"
    (source,) = embedded.get("/v1/schema", "erin").body["connectors"]
    assert source["streams"][0]["search_modes"] == ["lexical"]


@pytest.mark.parametrize("mode", MODES)
def test_records_outside_the_grant_do_not_displace_nearest_hits(embedded: World, mode: str) -> None:
    query: dict[str, Any] = {"q": "signed lease deposit", "mode": mode, "limit": 2}
    before = embedded.get(SEARCH, **query).body
    body = "We signed the lease and paid the deposit."
    embedded.connect("cin_other", "mail", "Another mailbox")
    for number in range(30):
        embedded.put(
            ("cin_other", "messages", mail(f"o{number}", DAY, body_text=body)),
            (PERSONAL, "messages", mail(f"p{number}", "2025-01-01T00:00:00Z", body_text=body)),
        )
    embedded.embed()
    after = embedded.get(SEARCH, **query).body
    assert after["data"] == before["data"]
    assert after["has_more"] == before["has_more"]


@pytest.mark.parametrize("mode", MODES)
def test_cursor_is_bound_to_its_mode(embedded: World, mode: str) -> None:
    cursor = embedded.get(SEARCH, q="lease deposit", mode=mode, limit=1).body["next_cursor"]
    refused = embedded.get(SEARCH, q="lease deposit", limit=1, cursor=cursor)
    assert refused.error["code"] == "invalid_cursor"


def test_search_can_be_restricted_to_streams_and_a_connection(embedded: World) -> None:
    for mode in MODES:
        hits = found(embedded, "dora", q="budget review", mode=mode, connection_id=WORK)
        assert {hit["connection_id"] for hit in hits} == {WORK}
    assert {hit["connection_id"] for hit in found(embedded, "dora", q="budget", mode="hybrid")} >= {
        WORK,
        CHAT,
    }


def test_semantic_search_runs_four_queries(
    embedded: World, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    embedded.get(SEARCH, q="signed lease", mode="semantic")
    # the token; how far the vectors have come; the nearest passages; the rows; two of the ledger
    with django_assert_num_queries(10):
        assert embedded.get(SEARCH, q="signed lease", mode="semantic").ids


def test_hybrid_search_runs_six_queries_if_all_words_match(
    embedded: World, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    embedded.get(SEARCH, q="signed lease", mode="hybrid")
    # the token; how far the vectors have come; of the words: whether the limited time is short,
    # their places, their rows; the nearest passages; two of the ledger
    with django_assert_num_queries(12):
        assert embedded.get(SEARCH, q="signed lease", mode="hybrid").ids
