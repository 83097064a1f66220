"""Errors: one object in both channels, with what to call next."""

import logging
from collections.abc import Mapping
from typing import Any

import pytest

from mcp_adapter.rest import NO_HEADERS, Params, RestResponse
from tests.mcp_adapter.fake_rest import FakeRest, error_response
from tests.mcp_adapter.hosts import ERAS, call, error_of, parsed_text, structured

LIST = "/v1/streams/messages/records"


@pytest.mark.parametrize("era", ERAS)
def test_rest_error_passes_unchanged_in_both_channels(era: str) -> None:
    answer = error_response(404, "not_found", param="stream", request_id="req_9", something_new=[1])
    assert isinstance(answer.body, dict)

    error = error_of(
        call(FakeRest(answers={LIST: answer}), "query_records", era=era, stream="messages")
    )

    assert error == answer.body["error"]


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
def test_every_error_has_a_next_step(status: int, code: str) -> None:
    result = call(
        FakeRest(answers={LIST: error_response(status, code)}), "query_records", stream="messages"
    )

    assert error_of(result)["code"] == code
    assert structured(result)["next_step"]


@pytest.mark.parametrize("body", [b"<html>Bad gateway</html>", {"detail": "no"}, {"error": "no"}])
def test_unreadable_error_response_becomes_tool_error(body: Any) -> None:
    answers = {LIST: RestResponse(502, body)}

    error = error_of(call(FakeRest(answers=answers), "query_records", stream="messages"))

    assert (error["type"], error["code"]) == ("rs_error", "http_502")


class _Broken:
    """A REST API that raises an unexpected exception."""

    def get(
        self,
        path: str,
        params: Params,
        authority: object,
        *,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> RestResponse:
        """Raise an exception whose message must stay hidden."""
        raise ZeroDivisionError("at_secret_token in /srv/private/path.py")


@pytest.mark.parametrize("era", ERAS)
def test_internal_error_shows_neither_stack_nor_secret(
    era: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.CRITICAL, logger="mcp_adapter.server"):
        result = call(_Broken(), "search", era=era, q="lease")

    assert error_of(result)["code"] == "tool_handler_error"
    assert "secret" not in str(parsed_text(result))
    assert "Zero" not in str(parsed_text(result))


def test_next_step_of_rest_is_kept_if_none_is_known() -> None:
    answer = error_response(400, "some_code_of_tomorrow", next_step="Its own advice.")

    result = call(FakeRest(answers={LIST: answer}), "query_records", stream="messages")

    assert structured(result) == answer.body


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("fetch", {"id": "pdpp://blob/eyJ2IjoxLCJraW5kIjoiYmxvYiIsImJsb2JfaWQiOiJiMSJ9"}),
        ("read_record_field", {"id": "pdpp://stream/messages", "field_path": "body"}),
    ],
)
def test_uri_without_record_is_refused(tool: str, arguments: dict[str, str]) -> None:
    fake = FakeRest()

    assert error_of(call(fake, tool, **arguments))["code"] == "invalid_id"
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
def test_result_that_cannot_fit_is_refused_with_next_step(
    tool: str, arguments: dict[str, Any]
) -> None:
    # A page shows at least what its default does, so only a longer key exceeds it.
    key = "k" * (8_000 if tool == "query_records" else 3_000)
    records = [("cin_work", "messages", key, {"body": "words and words " * 90})]

    result = call(FakeRest(records=records), tool, **arguments, max_bytes=4_000)

    assert error_of(result)["code"] == "result_too_large"
    assert "max_bytes" in error_of(result)["next_step"]


def test_aggregate_with_too_long_labels_is_refused_with_next_step() -> None:
    body = {"metric": "max", "stream": "messages", "value": "v" * 900,
            "meta": {"warnings": [{"code": "partial_results", "message": "m" * 900}]}}  # fmt: skip
    fake = FakeRest(answers={"/v1/streams/messages/aggregate": RestResponse(200, body)})

    result = call(fake, "aggregate", stream="messages", metric="count")

    assert error_of(result)["code"] == "result_too_large"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("GET /v1/schema lists the streams.", "schema lists the streams."),
        ("GET /v1/schema?stream=mail lists it.", "schema(stream=mail) lists it."),
        ("Add streams[]=NAME, and more.", "Add streams, and more."),
    ],
)
def test_errors_of_tools_speak_of_tools(text: str, shown: str) -> None:
    def refused(code: str) -> dict[str, Any]:
        body = {"error": {"type": "t", "code": code, "message": text, "next_step": text}}
        fake = FakeRest(answers={"/v1/search": RestResponse(400, body)})
        return error_of(call(fake, "search", q="lease"))

    error = refused("invalid_request")
    assert (error["message"], error["next_step"]) == (shown, shown)
    assert refused("invalid_expand")["message"] == text, "its next step is required by D8"


def test_refused_expansion_names_the_relation() -> None:
    fake = FakeRest(records=[("cin_work", "messages", "m1", {"body": "lease"})])

    result = call(fake, "query_records", stream="messages", expand=["author"])

    assert error_of(result)["code"] == "invalid_expand"
    assert "'author'" in error_of(result)["message"]
