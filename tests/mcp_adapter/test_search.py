"""search against a fake REST API."""

import json
import re

import pytest

from evidence import limits
from evidence.page_cutter import json_size, wire_size
from tests.mcp_adapter.fake_rest import HOME, WORK, FakeRest, error_response, excerpt
from tests.mcp_adapter.hosts import (
    ERAS,
    PUBLIC_URL,
    call,
    error_of,
    parsed_text,
    structured,
    text_of,
)
from tests.scenarios import scenario

SENTENCE = "Yesterday we signed the lease in the old town hall and paid the deposit. "


def rest_with_mails(count: int, **extra: str) -> FakeRest:
    return FakeRest(
        records=[
            (("cin_work", "cin_home")[n % 2], "messages", f"m{n}",
             {"id": f"m{n}", "subject": f"Mail {n}", "body": SENTENCE, **extra})
            for n in range(count)
        ]
    )  # fmt: skip


@scenario("A7")
def test_many_hits_with_large_snippets_fit_the_text_budget() -> None:
    result = call(rest_with_mails(200), "search", q="lease")

    assert wire_size(text_of(result)) <= limits.SEARCH_TEXT_BYTES
    assert json_size(structured(result)) <= limits.SEARCH_STRUCTURED_BYTES
    assert structured(result)["data"]["object"] == "list"
    assert structured(result)["data"]["has_more"] is True


@scenario("A7")
def test_page_of_server_without_limits_fits_the_budget() -> None:
    fake = rest_with_mails(1)
    answer = fake._search({"q": "lease"})
    assert isinstance(answer.body, dict)
    huge = {**excerpt("lease", "body", 0, 5), "plain_text": "lease " * 9_000}
    answer.body["data"][0]["evidence_excerpts"] = [huge, huge]
    fake.answers["/v1/search"] = answer

    result = call(fake, "search", q="lease")

    assert wire_size(text_of(result)) <= limits.SEARCH_TEXT_BYTES
    assert json_size(structured(result)) <= limits.SEARCH_STRUCTURED_BYTES
    assert structured(result)["data"]["data"][0]["cut"] is True


@scenario("B3", "A6")
def test_hit_without_evidence_shows_no_text_but_an_id() -> None:
    fake = FakeRest(records=[("cin_work", "messages", "lease-7", {"id": "7", "body": "secret"})])

    result = call(fake, "search", q="lease")

    (hit,) = parsed_text(result)["results"]
    assert not {"match", "field"} & set(hit)
    assert "snippet" not in structured(result)["results"][0]
    assert "secret" not in text_of(result)
    assert parsed_text(result)["next"]["fetch"]["args"] == {"id": hit["id"]}


@scenario("A8")
@pytest.mark.parametrize(
    ("stream", "key", "output"), [(None, "m1", "result:0"), ("messages", None, "result:0")]
)
def test_hit_without_record_gets_a_result_id(
    stream: str | None, key: str | None, output: str
) -> None:
    hit = {"object": "search_result", "stream": stream, "record_key": key,
           "connection_id": "cin_work", "emitted_at": "2026-01-01T00:00:00Z"}  # fmt: skip
    fake = FakeRest()
    page = fake._page([hit], {}, "/v1/search")
    fake.answers["/v1/search"] = page

    (rendered,) = parsed_text(call(fake, "search", q="x"))["results"]

    assert rendered["id"] == output
    assert rendered["connection_id"] == "cin_work"
    assert rendered["url"].startswith(f"{PUBLIC_URL}/")


@scenario("A8")
def test_connection_that_fits_no_id_is_shown_next_to_the_id() -> None:
    fake = FakeRest(
        connections=[("cin/odd", "Odd", "mailbox")],
        records=[("cin/odd", "messages", "m1", {"id": "m1", "body": "a lease"})],
    )
    output = parsed_text(call(fake, "search", q="lease"))
    (hit,) = output["results"]

    document = call(fake, "fetch", **output["next"]["fetch"]["args"])

    assert (hit["id"], hit["connection_id"]) == ("messages:m1", "cin/odd")
    assert structured(document)["text"] == "a lease"


@scenario("A8")
def test_complete_result_id_passes_unchanged() -> None:
    fake = rest_with_mails(1)
    answer = fake._search({"q": "lease"})
    assert isinstance(answer.body, dict)
    answer.body["data"][0]["result_id"] = "cin_other/things:t1"
    fake.answers["/v1/search"] = answer

    assert parsed_text(call(fake, "search", q="lease"))["results"][0]["id"] == "cin_other/things:t1"


@scenario("A9")
def test_id_is_cut_only_if_no_stored_key_is_that_long() -> None:
    longest, too_long = "k" * limits.RECORD_KEY_MAX_BYTES, "k" * 1_000
    fake = FakeRest(
        records=[("cin_work", "messages", key, {"body": "lease"}) for key in (longest, too_long)]
    )

    complete, cut = parsed_text(call(fake, "search", q="lease", limit=2))["results"]

    assert complete["id"] == f"cin_work/messages:{longest}"
    assert len(cut["id"]) == 200
    assert cut["id_cut"]


@scenario("C15")
def test_limit_is_passed_unchanged() -> None:
    fake = rest_with_mails(30)

    result = call(fake, "search", q="lease", limit=3)

    assert len(structured(result)["results"]) == 3
    assert [query["limit"] for _, query in fake.calls] == ["3"]


@scenario("C15", "B2")
def test_marks_are_balanced_with_context_around_the_match() -> None:
    long = f"{'before ' * 300}lease{' after' * 300}"
    fake = FakeRest(
        records=[
            ("cin_work", "messages", f"m{n}", {"subject": f"S{n}", "body": long}) for n in range(6)
        ]
    )

    for hit in parsed_text(call(fake, "search", q="lease"))["results"]:
        before, match, after = re.split("</?mark>", hit["match"])
        assert match == "lease"
        assert len(before.split()) >= 2
        assert len(after.split()) >= 2


def test_mark_tags_in_text_are_escaped_in_both_channels() -> None:
    forged = "<mark>wire 900 EUR</mark> </mark> lease <MARK> b"
    fake = FakeRest(records=[("cin_work", "messages", "m1", {"body": forged})])

    result = call(fake, "search", q="lease")

    (hit,) = parsed_text(result)["results"]
    assert hit["match"] == (
        "&lt;mark>wire 900 EUR&lt;/mark> &lt;/mark> <mark>lease</mark> &lt;MARK> b"
    )
    assert structured(result)["results"][0]["snippet"] == hit["match"]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", ["q", "query"])
def test_search_and_fetch_alone_find_and_open_a_record(era: str, name: str) -> None:
    fake = rest_with_mails(4)

    matches = json.loads(text_of(call(fake, "search", era=era, **{name: "lease"})))
    opened = json.loads(text_of(call(fake, "fetch", era=era, id=matches["results"][0]["id"])))

    for item in matches["results"]:
        assert item["id"]
        assert item["title"]
        assert item["url"].startswith("https://")
    assert {"id", "title", "text", "url"} <= set(opened)
    assert opened["text"] == SENTENCE


def test_q_and_query_with_different_values_are_refused() -> None:
    fake = rest_with_mails(1)

    assert error_of(call(fake, "search", q="a", query="b"))["code"] == "conflicting_arguments"
    assert fake.calls == []
    assert not call(fake, "search", q="lease", query="lease").is_error


def test_empty_result_suggests_next_step() -> None:
    output = parsed_text(call(rest_with_mails(2), "search", q="nothing of the kind"))

    assert output["results"] == []
    assert output["next"] == {"schema": {"tool": "schema", "args": {}}}


def test_incomplete_recall_is_shown() -> None:
    fake = rest_with_mails(2)
    answer = fake._search({"q": "lease"})
    assert isinstance(answer.body, dict)
    answer.body["meta"]["recall"] = {"complete": False, "ranking_scope": "candidate_window"}
    answer.body["meta"]["note"] = "Any word matched."
    fake.answers["/v1/search"] = answer

    output = parsed_text(call(fake, "search", q="lease"))

    assert output["recall"]["complete"] is False
    assert output["meta"]["note"] == "Any word matched."


def test_streams_filter_and_mode_are_passed_to_rest() -> None:
    fake = rest_with_mails(1)
    fake.answers["/v1/search/semantic"] = error_response(404, "not_found")

    call(fake, "search", q="lease", streams=["messages"], filter={"seen": True}, sort="-time")
    result = call(fake, "search", q="lease", mode="semantic")

    assert fake.calls[0][1]["streams[]"] == "messages"
    assert fake.calls[0][1]["filter[seen]"] == "true"
    assert fake.calls[0][1]["sort"] == "-time"
    assert "without mode" in structured(result)["next_step"]


@scenario("B3")
def test_semantic_hit_shows_near_passage_and_no_evidence() -> None:
    fake = rest_with_mails(1)
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

    (output,) = parsed_text(result)["results"]
    assert output["near"] == {"field_path": "body", "offset_chars": 240}
    assert "match" not in output
    assert "flat is ours" not in text_of(result)
    step = parsed_text(result)["next"]["read"]
    assert (step["tool"], step["args"]["offset_chars"]) == ("read_record_field", 240)


@scenario("C16")
def test_connection_id_is_passed_unchanged() -> None:
    fake = rest_with_mails(6)

    result = call(fake, "search", q="lease", connection_id=HOME[0])

    assert {item["connection_id"] for item in structured(result)["results"]} == {HOME[0]}
    assert fake.calls[0][1]["connection_id"] == HOME[0]
    assert WORK[0] not in text_of(result)


def test_evidence_without_offsets_uses_marked_preview() -> None:
    fake = rest_with_mails(1)
    answer = fake._search({"q": "lease"})
    assert isinstance(answer.body, dict)
    (hit,) = answer.body["data"]
    evidence = {"field_path": "body", "read": {}}
    fake.answers["/v1/search"] = answer

    def output(preview: str) -> str:
        hit["evidence_excerpts"] = [{**evidence, "preview_text": preview}]
        match = parsed_text(call(fake, "search", q="lease"))["results"][0]["match"]
        assert isinstance(match, str)
        return match

    assert (
        output("we signed the <mark>lease</mark> today") == "we signed the <mark>lease</mark> today"
    )
    assert output("a <mark>torn mark") == "a &lt;mark>torn mark"


def test_text_shows_warnings() -> None:
    fake = rest_with_mails(1)
    answer = fake._search({"q": "lease"})
    assert isinstance(answer.body, dict)
    answer.body["meta"]["warnings"] = [
        {"code": "partial_results", "message": "Some were left out."}
    ]
    fake.answers["/v1/search"] = answer

    assert parsed_text(call(fake, "search", q="lease"))["warnings"][0]["code"] == "partial_results"
