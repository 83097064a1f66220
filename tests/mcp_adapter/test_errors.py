"""Errors: one object in both channels, with what to call next."""

import logging
from collections.abc import Mapping
from typing import Any

import pytest

from mcp_adapter.rest import NO_HEADERS, Params, RestAnswer
from tests.mcp_adapter.fake_rest import FakeRest, error
from tests.mcp_adapter.hosts import ERAS, call, refusal, seen, structured

LIST = "/v1/streams/messages/records"


@pytest.mark.parametrize("era", ERAS)
def test_a_refusal_of_the_resource_server_passes_unchanged_in_both_channels(era: str) -> None:
    answer = error(404, "not_found", param="stream", request_id="req_9", something_new=[1])
    assert isinstance(answer.body, dict)

    shown = refusal(
        call(FakeRest(answers={LIST: answer}), "query_records", era=era, stream="messages")
    )

    assert shown == answer.body["error"]


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "invalid_cursor"),
        (400, "some_code_of_tomorrow"),
        (403, "field_not_granted"),
        (404, "not_found"),
        (409, "ambiguous_connection"),
        (410, "cursor_expired"),
        (429, "rate_limit_exceeded"),
        (500, "internal_error"),
    ],
)
def test_every_refusal_says_what_to_call_next(status: int, code: str) -> None:
    result = call(FakeRest(answers={LIST: error(status, code)}), "query_records", stream="messages")

    assert refusal(result)["code"] == code
    assert structured(result)["next_step"]


@pytest.mark.parametrize("body", [b"<html>Bad gateway</html>", {"detail": "no"}, {"error": "no"}])
def test_an_answer_that_is_no_error_of_ours_becomes_one(body: Any) -> None:
    answers = {LIST: RestAnswer(502, body)}

    shown = refusal(call(FakeRest(answers=answers), "query_records", stream="messages"))

    assert (shown["type"], shown["code"]) == ("rs_error", "http_502")


class _Broken:
    """A resource server with a fault in it."""

    def get(
        self,
        path: str,
        params: Params,
        authority: object,
        *,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> RestAnswer:
        """Fail, with something in the message that nobody else may see."""
        raise ZeroDivisionError("at_secret_token in /srv/private/path.py")


@pytest.mark.parametrize("era", ERAS)
def test_a_fault_in_the_server_shows_neither_stack_nor_secret(
    era: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.CRITICAL, logger="mcp_adapter.server"):
        result = call(_Broken(), "search", era=era, q="lease")

    assert refusal(result)["code"] == "tool_handler_error"
    assert "secret" not in str(seen(result))
    assert "Zero" not in str(seen(result))


def test_a_next_step_that_only_the_resource_server_knows_is_enough() -> None:
    answer = error(400, "some_code_of_tomorrow", next_step="Its own advice.")

    result = call(FakeRest(answers={LIST: answer}), "query_records", stream="messages")

    assert structured(result) == answer.body


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("fetch", {"id": "pdpp://blob/eyJ2IjoxLCJraW5kIjoiYmxvYiIsImJsb2JfaWQiOiJiMSJ9"}),
        ("read_record_field", {"id": "pdpp://stream/messages", "field_path": "body"}),
    ],
)
def test_a_uri_that_names_no_record_is_refused_where_one_is_needed(
    tool: str, arguments: dict[str, str]
) -> None:
    fake = FakeRest()

    assert refusal(call(fake, tool, **arguments))["code"] == "invalid_id"
    assert fake.calls == []


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("fetch", {"id": f"cin_work/messages:{'k' * 3_000}"}),
        (
            "read_record_field",
            {"id": f"cin_work/messages:{'k' * 3_000}", "field_path": "body", "limit_chars": 9},
        ),
        ("query_records", {"stream": "messages", "fields": ["body"]}),
    ],
)
def test_what_cannot_be_made_to_fit_is_refused_with_advice(
    tool: str, arguments: dict[str, Any]
) -> None:
    records = [("cin_work", "messages", "k" * 3_000, {"body": "words and words " * 90})]

    result = call(FakeRest(records=records), tool, **arguments, max_bytes=4_000)

    assert refusal(result)["code"] == "result_too_large"
    assert "max_bytes" in refusal(result)["next_step"]


def test_a_number_that_comes_with_too_many_words_is_refused_with_advice() -> None:
    body = {"metric": "count", "stream": "messages", "value": 1,
            "meta": {"warnings": [{"code": "partial_results", "message": "m" * 900}]}}  # fmt: skip
    fake = FakeRest(answers={"/v1/streams/messages/aggregate": RestAnswer(200, body)})

    result = call(fake, "aggregate", stream="messages", metric="count")

    assert refusal(result)["code"] == "result_too_large"
