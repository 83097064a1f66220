"""search, against a resource server in memory."""

import json
import re

import pytest

from evidence import limits
from mcp_adapter.json_text import size, wire_size
from tests.mcp_adapter.fake_rest import HOME, WORK, FakeRest, error, excerpt
from tests.mcp_adapter.hosts import ERAS, PUBLIC_URL, call, refusal, seen, structured, text_of
from tests.scenarios import scenario

SENTENCE = "Yesterday we signed the lease in the old town hall and paid the deposit. "


def mails(count: int, **more: str) -> FakeRest:
    return FakeRest(
        records=[
            (("cin_work", "cin_home")[n % 2], "messages", f"m{n}",
             {"id": f"m{n}", "subject": f"Mail {n}", "body": SENTENCE, **more})
            for n in range(count)
        ]
    )  # fmt: skip


@scenario("A7")
def test_many_hits_and_huge_snippets_leave_the_text_small() -> None:
    result = call(mails(200), "search", q="lease")

    assert wire_size(text_of(result)) <= limits.SEARCH_TEXT_BYTES
    assert size(structured(result)) <= limits.STRUCTURED_BYTES
    assert structured(result)["data"]["object"] == "list"
    assert structured(result)["data"]["has_more"] is True


@scenario("A7")
def test_a_resource_server_that_bounds_nothing_is_bounded_here() -> None:
    fake = mails(1)
    answer = fake._search({"q": "lease"})
    assert isinstance(answer.body, dict)
    huge = {**excerpt("lease", "body", 0, 5), "plain_text": "lease " * 9_000}
    answer.body["data"][0]["evidence_excerpts"] = [huge, huge]
    fake.answers["/v1/search"] = answer

    result = call(fake, "search", q="lease")

    assert wire_size(text_of(result)) <= limits.SEARCH_TEXT_BYTES
    assert size(structured(result)) <= limits.STRUCTURED_BYTES
    assert structured(result)["data"]["data"][0]["cut"] is True


@scenario("B3", "A6")
def test_a_hit_without_a_proof_shows_no_body_and_still_reads_on() -> None:
    fake = FakeRest(records=[("cin_work", "messages", "lease-7", {"id": "7", "body": "secret"})])

    result = call(fake, "search", q="lease")

    (hit,) = seen(result)["results"]
    assert not {"match", "field"} & set(hit)
    assert "snippet" not in structured(result)["results"][0]
    assert "secret" not in text_of(result)
    assert "fetch(id)" in seen(result)["next"]


@scenario("A8")
@pytest.mark.parametrize(
    ("stream", "key", "shown"), [(None, "m1", "result:0"), ("messages", None, "result:0")]
)
def test_what_is_no_record_handle_is_never_wrapped(
    stream: str | None, key: str | None, shown: str
) -> None:
    hit = {"object": "search_result", "stream": stream, "record_key": key,
           "connection_id": "cin_work", "emitted_at": "2026-01-01T00:00:00Z"}  # fmt: skip
    fake = FakeRest()
    page = fake._page([hit], {}, "/v1/search")
    fake.answers["/v1/search"] = page

    (drawn,) = seen(call(fake, "search", q="x"))["results"]

    assert drawn["id"] == shown
    assert drawn["connection_id"] == "cin_work"
    assert drawn["url"].startswith(f"{PUBLIC_URL}/")


@scenario("A8")
def test_a_connection_that_cannot_be_wrapped_is_shown_beside_the_id() -> None:
    fake = FakeRest(
        connections=[("cin/odd", "Odd", "mailbox")],
        records=[("cin/odd", "messages", "m1", {"id": "m1", "body": "a lease"})],
    )
    shown = seen(call(fake, "search", q="lease"))
    (hit,) = shown["results"]

    document = call(fake, "fetch", id=hit["id"], connection_id=hit["connection_id"])

    assert (hit["id"], hit["connection_id"]) == ("messages:m1", "cin/odd")
    assert "connection_id only where it is shown separately" in shown["next"]
    assert structured(document)["text"] == "a lease"


@scenario("A8")
def test_an_id_that_the_resource_server_made_complete_passes_untouched() -> None:
    fake = mails(1)
    answer = fake._search({"q": "lease"})
    assert isinstance(answer.body, dict)
    answer.body["data"][0]["result_id"] = "cin_other/things:t1"
    fake.answers["/v1/search"] = answer

    assert seen(call(fake, "search", q="lease"))["results"][0]["id"] == "cin_other/things:t1"


@scenario("A9")
def test_a_shown_id_is_cut_only_for_keys_beyond_any_that_can_be_stored() -> None:
    longest, beyond = "k" * limits.RECORD_KEY_MAX_BYTES, "k" * 1_000
    fake = FakeRest(
        records=[("cin_work", "messages", key, {"body": "lease"}) for key in (longest, beyond)]
    )

    whole, cut = seen(call(fake, "search", q="lease", limit=2))["results"]

    assert whole["id"] == f"cin_work/messages:{longest}"
    assert len(cut["id"]) == 200
    assert cut["id_cut"]


@scenario("C15")
def test_limit_counts_the_merged_hits_and_is_passed_on_as_it_is() -> None:
    fake = mails(30)

    result = call(fake, "search", q="lease", limit=3)

    assert len(structured(result)["results"]) == 3
    assert [query["limit"] for _, query in fake.calls] == ["3"]


@scenario("C15", "B2")
def test_marks_are_balanced_and_the_match_has_words_around_it() -> None:
    long = f"{'before ' * 300}lease{' after' * 300}"
    fake = FakeRest(
        records=[
            ("cin_work", "messages", f"m{n}", {"subject": f"S{n}", "body": long}) for n in range(6)
        ]
    )

    for hit in seen(call(fake, "search", q="lease"))["results"]:
        before, match, after = re.split("</?mark>", hit["match"])
        assert match == "lease"
        assert len(before.split()) >= 2
        assert len(after.split()) >= 2


def test_a_text_that_holds_marks_itself_cannot_pretend_a_match() -> None:
    fake = FakeRest(records=[("cin_work", "messages", "m1", {"body": "a </mark> lease <mark> b"})])

    (hit,) = seen(call(fake, "search", q="lease"))["results"]

    assert hit["match"] == "a </mark> lease <mark> b"


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", ["q", "query"])
def test_a_host_that_knows_search_and_fetch_alone_finds_and_opens(era: str, name: str) -> None:
    fake = mails(4)

    found = json.loads(text_of(call(fake, "search", era=era, **{name: "lease"})))
    opened = json.loads(text_of(call(fake, "fetch", era=era, id=found["results"][0]["id"])))

    for each in found["results"]:
        assert each["id"]
        assert each["title"]
        assert each["url"].startswith("https://")
    assert {"id", "title", "text", "url"} <= set(opened)
    assert opened["text"] == SENTENCE


def test_the_two_names_of_the_words_have_to_agree() -> None:
    fake = mails(1)

    assert refusal(call(fake, "search", q="a", query="b"))["code"] == "conflicting_arguments"
    assert fake.calls == []
    assert not call(fake, "search", q="lease", query="lease").is_error


def test_no_hit_says_what_else_to_try() -> None:
    shown = seen(call(mails(2), "search", q="nothing of the kind"))

    assert shown["results"] == []
    assert "schema" in shown["next"]


def test_an_incomplete_recall_is_told() -> None:
    fake = mails(2)
    answer = fake._search({"q": "lease"})
    assert isinstance(answer.body, dict)
    answer.body["meta"]["recall"] = {"complete": False, "ranking_scope": "candidate_window"}
    answer.body["meta"]["note"] = "Any word matched."
    fake.answers["/v1/search"] = answer

    shown = seen(call(fake, "search", q="lease"))

    assert shown["recall"]["complete"] is False
    assert shown["meta"]["note"] == "Any word matched."


def test_streams_filter_and_mode_reach_the_resource_server() -> None:
    fake = mails(1)
    fake.answers["/v1/search/semantic"] = error(404, "not_found")

    call(fake, "search", q="lease", streams=["messages"], filter={"seen": True}, sort="-time")
    result = call(fake, "search", q="lease", mode="semantic")

    assert fake.calls[0][1]["streams[]"] == "messages"
    assert fake.calls[0][1]["filter[seen]"] == "true"
    assert fake.calls[0][1]["sort"] == "-time"
    assert "without mode" in structured(result)["next_step"]


@scenario("B3")
def test_a_hit_that_is_only_near_in_meaning_names_its_passage_and_shows_no_evidence() -> None:
    fake = mails(1)
    answer = fake._search({"q": "lease"})
    assert isinstance(answer.body, dict)
    (hit,) = answer.body["data"]
    hit["evidence_excerpts"] = []
    hit["snippet"] = {
        "field": "body", "text": "The flat is ours.", "provenance": "semantic_passage",
        "start_chars": 240, "end_chars": 257,
    }  # fmt: skip
    fake.answers["/v1/search/semantic"] = answer

    result = call(fake, "search", q="lease", mode="semantic")

    (shown,) = seen(result)["results"]
    assert shown["near"] == {"field_path": "body", "offset_chars": 240}
    assert "match" not in shown
    assert "flat is ours" not in text_of(result)
    assert "near's arguments" in seen(result)["next"]


@scenario("C16")
def test_a_connection_reaches_the_resource_server_as_it_is() -> None:
    fake = mails(6)

    result = call(fake, "search", q="lease", connection_id=HOME[0])

    assert {each["connection_id"] for each in structured(result)["results"]} == {HOME[0]}
    assert fake.calls[0][1]["connection_id"] == HOME[0]
    assert WORK[0] not in text_of(result)


def test_evidence_without_offsets_is_shown_by_its_marked_preview() -> None:
    fake = mails(1)
    answer = fake._search({"q": "lease"})
    assert isinstance(answer.body, dict)
    (hit,) = answer.body["data"]
    evidence = {"field_path": "body", "read": {}}
    fake.answers["/v1/search"] = answer

    def shown(preview: str) -> str:
        hit["evidence_excerpts"] = [{**evidence, "preview_text": preview}]
        match = seen(call(fake, "search", q="lease"))["results"][0]["match"]
        assert isinstance(match, str)
        return match

    assert (
        shown("we signed the <mark>lease</mark> today") == "we signed the <mark>lease</mark> today"
    )
    assert shown("a <mark>torn mark") == "a torn mark"


def test_warnings_are_in_the_text() -> None:
    fake = mails(1)
    answer = fake._search({"q": "lease"})
    assert isinstance(answer.body, dict)
    answer.body["meta"]["warnings"] = [
        {"code": "partial_results", "message": "Some were left out."}
    ]
    fake.answers["/v1/search"] = answer

    assert seen(call(fake, "search", q="lease"))["warnings"][0]["code"] == "partial_results"
