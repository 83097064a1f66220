"""``GET /v1/search``."""

from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest
from evidence.access.ranking import matches
from evidence.models.records import Record
from evidence.search import lexical
from tests.scenarios import scenario
from tests.world import CHAT, PERSONAL, WORK, World

SEARCH = "/v1/search"


def hits(world: World, who: str = "bob", **query: Any) -> list[tuple[str, str]]:
    answer = world.get(SEARCH, who, **query)
    assert answer.status == 200, answer.body
    return [(hit["connection_id"], hit["record_key"]) for hit in answer.body["data"]]


def test_all_words_must_match(world: World) -> None:
    assert set(hits(world, q="lease deposit")) == {(PERSONAL, "m1"), (PERSONAL, "m2")}
    assert hits(world, q="lease wonderful") == [(PERSONAL, "m2")]


@pytest.mark.parametrize("q", ["leases", "LEASE", "Lindenstrasse", "lindenstraße", "euro"])
def test_case_accents_and_inflection_do_not_matter(world: World, q: str) -> None:
    assert (PERSONAL, "m1") in hits(world, q=q)


@pytest.mark.parametrize("q", ["京都", "お土産", "cafe", "INV-2026/0042", "invoice 0042"])
def test_other_scripts_and_compounds_match(world: World, q: str) -> None:
    assert len(hits(world, q=q)) == 1


def test_phrases_prefixes_or_and_not(world: World) -> None:
    assert hits(world, q='"transfer the deposit"') == [(PERSONAL, "m2")]
    backwards = world.get(SEARCH, q='"deposit the transfer"').body
    assert (backwards["data"], backwards["meta"]["match"]) == ([], "all_words")
    assert hits(world, q="invo*") == [(WORK, "w2")]
    for query in (
        "Halcón OR hx*",
        "deposit -lunch nowhere",
        '"the deposit" nowhere',
        '"=deposit" nowhere',
    ):
        assert hits(world, q=query) == []
    assert set(hits(world, q="canal OR invoice")) == {(PERSONAL, "m3"), (WORK, "w2")}
    assert hits(world, q="deposit -wonderful") == [(PERSONAL, "m1")]
    assert hits(world, q="subject:deposit") == []
    assert hits(world, q="from_name:jonas") == [(PERSONAL, "m3")]


def test_query_without_results_matches_any_word_and_says_so(world: World) -> None:
    answer = world.get(SEARCH, q="invoice unicorn")
    assert answer.ids == ["w2"]
    assert answer.body["meta"]["match"] == "any_word"
    assert next(iter(answer.body)) == "meta"  # said before the hits
    assert world.get(SEARCH, q="invoice").body["meta"]["match"] == "all_words"
    assert "hint" in world.get(SEARCH, q="unicorn").body["meta"]


def test_words_of_hidden_fields_do_not_match(world: World) -> None:
    assert hits(world, q="summer", who="alice") == [(PERSONAL, "m0")]
    assert hits(world, q="summer") == []
    assert hits(world, q="eva@example.org", who="alice") == [(PERSONAL, "m1")]
    assert hits(world, q="eva@example.org") == []
    assert hits(world, q="lease", who="charlie") == []


def test_field_outside_the_grant_is_not_a_field_name(world: World) -> None:
    assert hits(world, q="from_email:eva", who="alice") == [(PERSONAL, "m1")]
    found = meta(world, q="from_email:eva")
    assert found.pop("absent_words") == ["from_email:eva"]
    found["absent_words"] = ["from_nonsense:eva"]
    assert found == meta(world, q="from_nonsense:eva")


def test_several_sources_merge_under_one_limit(world: World) -> None:
    everything = hits(world, who="dora", q="budget")
    assert set(everything) == {(CHAT, "c1"), (WORK, "m1")}
    one = world.get(SEARCH, "dora", q="budget", limit=1)
    assert len(one.ids) == 1
    assert one.body["meta"]["count"] == 2
    rest = world.get(SEARCH, "dora", q="budget", limit=1, cursor=one.body["next_cursor"])
    assert [*one.ids, *rest.ids] == [key for _, key in everything]
    assert rest.body["has_more"] is False


def test_search_can_be_restricted_to_streams_and_a_connection(world: World) -> None:
    assert hits(world, who="dora", q="budget", connection_id=CHAT) == [(CHAT, "c1")]
    assert hits(world, who="dora", q="deposit", **{"streams[]": "transactions"}) != []
    assert world.get(SEARCH, q="a", streams="threads").error["code"] == "grant_stream_not_allowed"
    unknown = world.get(SEARCH, q="a", streams="nonsense").error
    assert (unknown["code"], unknown["param"]) == ("not_found", "streams")
    assert hits(world, who="dora", q="budget", connector_id="workspace") == [(CHAT, "c1")]


def test_cursor_of_one_source_is_invalid_for_another(world: World) -> None:
    query = {"q": "lease OR deposit OR canal OR budget", "limit": 1}
    cursor = world.get(SEARCH, "dora", **query, connector_id="mail").body["next_cursor"]
    other = world.get(SEARCH, "dora", **query, connector_id="workspace", cursor=cursor)
    assert (other.status, other.error["code"]) == (400, "invalid_cursor")


def test_search_can_sort_newest_first(world: World) -> None:
    assert hits(world, q="lease OR budget OR canal", sort="-time") == [
        (PERSONAL, "m3"),
        (WORK, "m1"),
        (PERSONAL, "m2"),
        (PERSONAL, "m1"),
    ]


@scenario("B9")
def test_hit_has_excerpts_and_links_to_read_more(world: World) -> None:
    hit = world.get(SEARCH, q="wonderful").body["data"][0]
    excerpt = hit["evidence_excerpts"][0]
    assert excerpt["field_path"] == "body_text"
    assert excerpt["preview_text"] == (
        "<mark>Wonderful</mark>, I will transfer the deposit tomorrow."
    )
    assert excerpt["truncated"] is False
    read = excerpt["read"]
    window = world.get(
        read["route"], field=read["field"], connection_id=read["connection_id"], q="wonderful"
    ).body["window"]
    assert (window["match_start_chars"], window["match_end_chars"]) == (
        excerpt["match_start_chars"],
        excerpt["match_end_chars"],
    )
    record = world.get(hit["record_url"].partition("?")[0], connection_id=hit["connection_id"])
    assert record.body["version"] == hit["version"]


def test_excerpts_show_granted_fields_only(world: World) -> None:
    for hit in world.get(SEARCH, q="eva OR mara OR alice").body["data"]:
        assert {each["field_path"] for each in hit["evidence_excerpts"]} <= {
            "subject", "from_name", "body_text",
        }  # fmt: skip


def test_newer_record_wins_ties(world: World) -> None:
    world.put(
        *((WORK, "messages", {"id": key, "received_at": f"2026-0{month}-01T00:00:00Z",
            "subject": "Zebra"}) for month, key in enumerate("zyxw", 1)))  # fmt: skip
    assert [key for _, key in hits(world, q="zebra")] == ["w", "x", "y", "z"]


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ({}, "q"),
        ({"q": ""}, "q"),
        ({"q": "-only"}, "q"),
        ({"q": "x" * 2_000}, "q"),
        ({"q": "a", "mode": "semantic"}, "mode"),
        ({"q": "a", "subject_id": "owner"}, "subject_id"),
        ({"q": "a", "sort": "time"}, "sort"),
        ({"q": "a", "cursor": "x"}, "cursor"),
    ],
)
def test_invalid_query_error_names_the_parameter(
    world: World, query: dict[str, str], param: str
) -> None:
    answer = world.get(SEARCH, **query)
    assert (answer.status, answer.error["param"]) == (400, param)


def test_query_error_has_the_position_of_the_character(world: World) -> None:
    assert world.get(SEARCH, q="x" * 2_000).error["position"] == 1_000


def test_changed_record_matches_its_new_words_only(world: World) -> None:
    world.put((WORK, "messages", {"id": "w2", "received_at": "2026-02-03T07:00:00Z",
        "subject": "Receipt"}))  # fmt: skip
    assert hits(world, q="invoice") == []
    assert hits(world, q="receipt") == [(WORK, "w2")]


def test_page_of_hits_respects_max_bytes(world: World) -> None:
    world.put(
        *((WORK, "messages", {"id": f"k{n}", "received_at": "2026-04-01T00:00:00Z",
            "subject": "Kangaroo " * 30, "body_text": "kangaroo 🦘 " * 300})
          for n in range(9)))  # fmt: skip
    answer = world.get(SEARCH, q="kangaroo", max_bytes=4000)
    assert 1 <= len(answer.ids) < 9
    assert answer.body["has_more"] is True
    assert answer.body["meta"]["count"] == 9


def test_search_query_counts(
    world: World, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    hits(world, q="lease")
    # The token with all that hangs on it; how many hits there are; their places; their rows; four of the ledger, a savepoint.
    with django_assert_num_queries(10):
        hits(world, q="lease")


def test_record_deleted_during_a_search_is_omitted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Positions are queried before records."""
    before = hits(world, q="lease deposit")
    assert set(before) == {(PERSONAL, "m1"), (PERSONAL, "m2")}

    load_records = matches.load_records

    def load_after_deletion(streams: Any, found: Any) -> Any:
        Record.unscoped.filter(record_key="m1").delete()
        return load_records(streams, found)

    monkeypatch.setattr(matches, "load_records", load_after_deletion)
    assert hits(world, q="lease deposit") == [(PERSONAL, "m2")]


def test_hostile_text_does_not_hide_a_phrase_of_another_record(
    world: World,
) -> None:
    for number in range(3):
        world.put((WORK, "messages", {"id": f"h{number}", "received_at": "2026-06-01T00:00:00Z",
            "subject": "the deposit transfer", "body_text": "1.5-2/deposit " * 300_000}))  # fmt: skip
    answer = world.get(SEARCH, "bob", q='"transfer the deposit"')
    assert answer.ids == ["m2"]
    assert answer.body["meta"]["recall"]["complete"] is False


def meta(world: World, **query: Any) -> dict[str, Any]:
    answer = world.get(SEARCH, **query)
    assert answer.status == 200, answer.body
    found: dict[str, Any] = answer.body["meta"]
    return found


def test_words_that_match_nothing_visible_are_named(world: World) -> None:
    assert meta(world, q="invoice unicorn")["absent_words"] == ["unicorn"]
    assert meta(world, q="lease OR unicorn")["absent_words"] == ["unicorn"]
    assert meta(world, q="summer")["absent_words"] == ["summer"]
    assert "absent_words" not in meta(world, q="lease invoice")
    assert "absent_words" not in meta(world, q="lease")


@pytest.mark.parametrize(
    ("q", "loose", "exact"),
    [
        ("signing", [(PERSONAL, "m2"), (PERSONAL, "m1")], []),
        ("signed", [(PERSONAL, "m2"), (PERSONAL, "m1")], [(PERSONAL, "m1"), (PERSONAL, "m2")]),
        ("cafe", [(PERSONAL, "m3")], []),
        ("café", [(PERSONAL, "m3")], [(PERSONAL, "m3")]),
        ("CAFÉ", [(PERSONAL, "m3")], []),
        ("Lindenstrasse", [(PERSONAL, "m1")], []),
        ("Lindenstraße", [(PERSONAL, "m1")], [(PERSONAL, "m1")]),
        ("plan", [], []),
    ],
)
def test_exact_words_match_as_written(world: World, q: str, loose: Any, exact: Any) -> None:
    assert set(hits(world, q=q)) == set(loose)
    assert set(hits(world, q=q, match="exact")) == set(exact)
    assert set(hits(world, q=f'"={q}"')) == set(exact)
    assert set(hits(world, q=f'"={q}"', mode="lexical")) == set(exact)


def test_exact_words_that_match_nothing_are_absent_and_get_no_spellings(world: World) -> None:
    found = meta(world, q="cafe", match="exact")
    assert (found["count"], found["absent_words"]) == (0, ["cafe"])
    assert "suggestions" not in found
    some = world.get(SEARCH, q='"=cafe" canal')
    assert (some.ids, some.body["meta"]["absent_words"]) == ([], ["cafe"])


def test_exact_words_can_exclude_and_mark_only_themselves(world: World) -> None:
    assert (PERSONAL, "m3") in hits(world, q='meet -"=cafe"')
    assert hits(world, q='meet -"=café"') == []
    hit = world.get(SEARCH, q="Lease", match="exact").body["data"][0]
    assert hit["evidence_excerpts"][0]["preview_text"].count("<mark>Lease</mark>") == 1
    assert all("<mark>lease" not in each["preview_text"] for each in hit["evidence_excerpts"])


def test_hits_say_which_words_they_have_in_other_forms(world: World) -> None:
    [hit] = world.get(SEARCH, q="invoices").body["data"]
    assert hit["word_forms"] == {"invoices": ["Invoice", "invoice"]}
    [hit] = world.get(SEARCH, q="invoice").body["data"]
    assert "word_forms" not in hit
    spelt = world.get(SEARCH, q="invoise canal").body["data"]
    assert {hit["record_key"]: hit["word_forms"] for hit in spelt} == {
        "w2": {"invoise": ["Invoice", "invoice"], "canal": []},
        "m3": {"invoise": []},
    }


def test_match_takes_only_exact(world: World) -> None:
    answer = world.get(SEARCH, q="lease", match="fuzzy")
    assert (answer.status, answer.error["param"]) == (400, "match")


def test_phrases_are_counted_exactly_on_every_page(world: World) -> None:
    world.put(*((PERSONAL, "messages", {"id": f"p{n}", "received_at": f"2026-05-{n + 1:02}T00:00:00Z",
                 "subject": "Blue kettle" if n % 2 else "Kettle, blue"}) for n in range(20)))  # fmt: skip
    query: dict[str, Any] = {"q": '"blue kettle"', "limit": 4}
    counts = []
    while True:
        body = world.get("/v1/search", **query).body
        counts.append((body["meta"]["count"], body["meta"]["count_accuracy"]))
        if not body["has_more"]:
            break
        query["cursor"] = body["next_cursor"]

    assert counts == [(10, "exact")] * 3


def test_more_candidates_than_are_read_give_a_lower_bound(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.put(*((PERSONAL, "messages", {"id": f"p{n}", "received_at": "2026-05-01T00:00:00Z",
                 "subject": "Blue kettle"}) for n in range(12)))  # fmt: skip
    monkeypatch.setattr(lexical, "COUNT_LIMIT", 9)

    body = world.get("/v1/search", q='"blue kettle"', limit=4).body

    assert (body["meta"]["count"], body["meta"]["count_accuracy"]) == (9, "lower_bound")
    assert (body["has_more"], body["meta"]["recall"]["complete"]) == (True, True)


def test_few_texts_are_read_for_a_phrase_that_cannot_be_counted_exactly(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading all candidates would give a lower bound as well, only a higher one."""
    world.put(*((PERSONAL, "messages", {"id": f"p{n}", "received_at": "2026-05-01T00:00:00Z",
                 "subject": "Blue kettle"}) for n in range(12)))  # fmt: skip
    for name, most in (("COUNT_LIMIT", 9), ("UNCOUNTED_LIMIT", 5), ("UNCOUNTED_CANDIDATES", 7)):
        monkeypatch.setattr(lexical, name, most)

    body = world.get("/v1/search", q='"blue kettle"', limit=4).body

    assert (len(body["data"]), body["has_more"]) == (4, True)
    assert (body["meta"]["count"], body["meta"]["count_accuracy"]) == (5, "lower_bound")


def test_no_hit_among_the_candidates_read_is_no_proof_of_absence(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.put(*((PERSONAL, "messages", {"id": f"p{n}", "received_at": "2026-05-01T00:00:00Z",
                 "subject": "A kettle"}) for n in range(12)))  # fmt: skip
    complete = world.get("/v1/search", q='"=A+"', limit=4).body
    monkeypatch.setattr(lexical, "COUNT_LIMIT", 9)

    stopped = world.get("/v1/search", q='"=A+"', limit=4).body

    assert complete["meta"]["hint"].startswith("Nothing visible matches.")
    assert (stopped["data"], stopped["meta"]["recall"]["complete"]) == ([], False)
    assert "may match" in stopped["meta"]["hint"]
    assert (stopped["has_more"], "next_cursor" in stopped) == (False, False)


def test_name_with_an_accent_never_meets_a_function_word(world: World) -> None:
    world.connect("cin_spanish", "mail", "Correo", languages=["en", "es"])
    world.put(("cin_spanish", "messages", {"id": "room", "received_at": "2026-05-02T00:00:00Z",
        "from_name": "The Atlas Room", "subject": "The menu of the week"}))  # fmt: skip
    world.grant("eve", GrantRequest(connection_ids=["cin_spanish"],
        streams=[StreamRequest(name="messages")]))  # fmt: skip
    words: dict[str, Any] = {"streams": "messages", "filter__from_name__words": "Théo"}
    without = world.get(SEARCH, "eve", q="Théo").body
    assert (without["data"], without["meta"]["absent_words"]) == ([], ["Théo"])
    assert "suggestions" not in without["meta"]
    assert world.get(SEARCH, "eve", q="menu", **words).ids == []
    world.put(("cin_spanish", "messages", {"id": "theo", "received_at": "2026-05-01T00:00:00Z",
        "from_name": "Théo Martin", "subject": "A menu"}))  # fmt: skip
    assert world.get(SEARCH, "eve", q="Théo").ids == ["theo"]
    assert world.get(SEARCH, "eve", q="menu", **words).ids == ["theo"]


def test_absent_words_are_said_of_what_was_searched(world: World) -> None:
    def said(**query: Any) -> tuple[str, str]:
        found = meta(world, **query)
        return found["searched"], found.get("note") or found["hint"]

    canal = said(q="invoice canal", connection_id=WORK)
    assert canal == (
        f"within connection {WORK}",
        f"No record within connection {WORK} has all the words. "
        "These have the most of them. "
        f"Nothing visible within connection {WORK} has 'canal'.",
    )
    within = "after 2026-02-01, before 2026-12-01, in stream messages"
    times: dict[str, Any] = {"after": "2026-02-01", "before": "2026-12-01", "streams": "messages"}
    assert said(q="unicorn", **times)[1].startswith(f"Nothing visible {within} matches.")
    filtered: dict[str, Any] = {
        "connection_id": PERSONAL, "streams": "messages", "filter__from_name": "Eva Lang",
    }  # fmt: skip
    within = f"within connection {PERSONAL}, in stream messages, with filter[from_name]"
    assert said(q="wonderflu", connector_id="mail")[1] == (
        "Nothing visible within source mail matches. What is visible there has 'wonderful' "
        "instead of 'wonderflu'."
    )
    assert said(q="unicorn", **filtered)[0] == within
    assert "searched" not in meta(world, q="unicorn")


def test_list_of_absent_words_says_that_it_is_cut(world: World) -> None:
    words = [f"unicorn{letter}" for letter in "abcdefghi"]
    most = meta(world, q=" ".join(words[:8]))
    assert (most["absent_words"], "absent_words_truncated" in most) == (words[:8], False)
    more = meta(world, q=" ".join(words))
    assert (more["absent_words"], more["absent_words_truncated"]) == (words[:8], True)


def test_excerpt_is_of_the_body_where_title_and_sender_match(world: World) -> None:
    body = f"{'filler ' * 60}the quokka and its kumquat arrive on 14 March 2026. {'filler ' * 60}"
    world.put((PERSONAL, "messages", {"id": "q", "received_at": "2026-05-02T00:00:00Z",
        "subject": "Quokka, kumquat", "from_name": "Quokka Kumquat", "body_text": body}))  # fmt: skip
    [hit] = world.get(SEARCH, q="quokka kumquat", form="compact").body["data"]
    [shown] = hit["evidence_excerpts"]
    assert shown["field_path"] == "body_text"
    assert (
        "<mark>quokka</mark> and its <mark>kumquat</mark> arrive on 14 March 2026"
        in (shown["preview_text"])
    )
    assert shown["preview_text"].lstrip("…").startswith(("filler", "the"))


def test_no_excerpt_begins_in_the_middle_of_a_word(world: World) -> None:
    body = f"{'antidisestablishmentarianism' * 4}, the quokka {'antidisestablishmentarianism ' * 9}"
    world.put((PERSONAL, "messages", {"id": "q", "received_at": "2026-05-02T00:00:00Z",
        "subject": "Words", "body_text": body}))  # fmt: skip
    for form in ({}, {"form": "compact"}):
        [hit] = world.get(SEARCH, q="quokka", **form).body["data"]
        text = hit["evidence_excerpts"][0]["preview_text"]
        assert text.startswith(("…the <mark>", "…<mark>quokka"))
