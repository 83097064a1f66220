"""All supported protocol versions on one URL."""

import json
import threading
from typing import Any

import pytest

from evidence import limits
from mcp_adapter.rest import RestResponse
from mcp_adapter.streamable_http import thread_offload as default_threads
from tests.mcp_adapter.fake_rest import FakeRest
from tests.mcp_adapter.http import META, MODERN, initialize, modern, rpc, send
from tests.scenarios import scenario

SEARCH = {"name": "search", "arguments": {"q": "lease"}}


@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18", "2025-03-26"])
def test_older_protocol_versions_initialize(version: str) -> None:
    reply = send(initialize(version))

    assert reply.status == 200
    assert reply.body["result"]["protocolVersion"] == version
    assert reply.body["result"]["instructions"]
    assert "mcp-session-id" not in reply.headers


@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18", "2025-03-26", None])
def test_older_call_needs_no_version_header(version: str | None) -> None:
    reply = send(rpc("tools/call", SEARCH), mcp_protocol_version=version)

    assert reply.status == 200
    result = reply.body["result"]
    assert result["structuredContent"]["results"]
    assert "resultType" not in result


def test_unknown_version_initializes_newest_stateful_version() -> None:
    assert send(initialize("1999-01-01")).body["result"]["protocolVersion"] == "2025-11-25"


@pytest.mark.parametrize("method", ["notifications/initialized", "notifications/cancelled"])
@pytest.mark.parametrize("version", ["2025-06-18", MODERN, None])
def test_notification_is_accepted(method: str, version: str | None) -> None:
    params = {"requestId": 1} if method.endswith("cancelled") else {}
    body = {"jsonrpc": "2.0", "method": method, "params": params}

    reply = send(body, mcp_protocol_version=version)

    assert (reply.status, reply.content) == (202, b"")


@scenario("D1")
def test_server_discover_returns_versions_capabilities_and_instructions() -> None:
    result = modern("server/discover").body["result"]

    assert result["supportedVersions"] == [MODERN]
    assert result["instructions"]
    assert result["resultType"] == "complete"
    assert (result["cacheScope"], result["ttlMs"] >= 0) == ("private", True)


@pytest.mark.parametrize(
    "method", ["tools/list", "prompts/list", "resources/list", "resources/templates/list"]
)
def test_modern_lists_have_private_cache_hints(method: str) -> None:
    result = modern(method).body["result"]

    assert result["resultType"] == "complete"
    assert result["cacheScope"] == "private"
    assert result["ttlMs"] >= 0
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "pdpp"
    assert "nextCursor" not in result


def test_modern_call_has_result_type_and_server_info() -> None:
    result = modern("tools/call", SEARCH).body["result"]

    assert result["resultType"] == "complete"
    assert result["isError"] is False
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["version"] == "1"


def test_tools_list_is_identical_in_every_protocol_version() -> None:
    lists = [
        json.dumps(reply.body["result"]["tools"], sort_keys=True)
        for reply in (
            modern("tools/list"),
            send(rpc("tools/list")),
            *(
                send(rpc("tools/list"), mcp_protocol_version=v)
                for v in ("2025-11-25", "2025-03-26")
            ),
        )
    ]

    assert len(set(lists)) == 1


@scenario("C7")
def test_tools_list_response_fits_the_budget() -> None:
    for reply in (modern("tools/list"), send(rpc("tools/list"))):
        assert len(reply.content) <= limits.TOOLS_LIST_BYTES


@pytest.mark.parametrize(
    ("params", "options", "status", "code"),
    [
        ({}, {"mcp_protocol_version": "2027-01-01"}, 400, -32020),
        ({}, {"mcp_method": "prompts/list"}, 400, -32020),
        ({}, {"mcp_method": None}, 400, -32020),
        ({"cursor": "5"}, {}, 400, -32602),
    ],
)
def test_modern_headers_must_match_the_body(
    params: dict[str, Any], options: dict[str, Any], status: int, code: int
) -> None:
    reply = modern("tools/list", params, **options)

    assert (reply.status, reply.body["error"]["code"]) == (status, code)


def test_white_space_around_header_value_is_ignored() -> None:
    assert modern("tools/call", SEARCH, mcp_name="  search\t ").status == 200


def test_unsupported_version_error_lists_supported_versions() -> None:
    meta = {**META, "io.modelcontextprotocol/protocolVersion": "2027-01-01"}

    reply = send(
        rpc("tools/list", {"_meta": meta}),
        mcp_protocol_version="2027-01-01",
        mcp_method="tools/list",
    )

    assert reply.body["error"]["code"] == -32022
    assert MODERN in reply.body["error"]["data"]["supported"]


def test_name_header_must_match_the_tool() -> None:
    reply = modern("tools/call", SEARCH, mcp_name="fetch")

    assert (reply.status, reply.body["error"]["code"]) == (400, -32020)


def test_modern_request_without_meta_is_refused() -> None:
    reply = send(rpc("tools/list"), mcp_protocol_version=MODERN, mcp_method="tools/list")

    assert (reply.status, reply.body["error"]["code"]) == (400, -32602)


@pytest.mark.parametrize(
    "method", ["resources/subscribe", "subscriptions/listen", "logging/setLevel", "nothing/such"]
)
def test_unsupported_method_is_not_found(method: str) -> None:
    params = {"uri": "pdpp://stream/x"} if method == "resources/subscribe" else {}
    reply = modern(method, params, accept="application/json, text/event-stream")

    assert reply.status in {400, 404}
    assert reply.body["error"]["code"] in {-32601, -32602}


@pytest.mark.parametrize("name", ["list_streams", "create_event_subscription", "nothing"])
def test_unknown_tool_error_names_the_tools(name: str) -> None:
    for reply in (
        modern("tools/call", {"name": name, "arguments": {}}),
        send(rpc("tools/call", {"name": name, "arguments": {}})),
    ):
        assert reply.body["error"]["code"] == -32602
        assert "read_record_field" in reply.body["error"]["message"]


@pytest.mark.parametrize(
    "body", [b"not json", b"[]", b'"x"', b'{"jsonrpc":"2.0"}', b"\xff\xfe", b"[" * 5_000]
)
@pytest.mark.parametrize("version", [MODERN, "2025-06-18"])
def test_invalid_request_returns_json_error(body: bytes, version: str) -> None:
    reply = send(body, mcp_protocol_version=version)

    assert reply.status == 400
    assert "error" in reply.body
    assert b"Traceback" not in reply.content
    assert b"pydantic" not in reply.content


@pytest.mark.parametrize(
    "params",
    [{}, {"name": 7}, {"name": "search", "arguments": "q=x"}, {"name": "search", "arguments": [1]}],
)
@pytest.mark.parametrize("version", [MODERN, None])
def test_malformed_call_error_hides_validator_message(
    params: dict[str, Any], version: str | None
) -> None:
    reply = (
        modern("tools/call", params, mcp_name=str(params.get("name", "x")))
        if version
        else send(rpc("tools/call", params))
    )

    assert "error" in reply.body
    assert b"pydantic" not in reply.content
    assert b"CallTool" not in reply.content


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", None])
def test_wrong_content_type_returns_json_error(content_type: str | None) -> None:
    reply = send(rpc("ping"), content_type=content_type)

    assert reply.status in {400, 415}
    assert "error" in reply.body


@pytest.mark.parametrize("version", [MODERN, None])
def test_text_is_sent_as_utf8_without_escapes(version: str | None) -> None:
    reply = modern("tools/call", SEARCH) if version else send(rpc("tools/call", SEARCH))

    assert "日本語".encode() in reply.content
    assert int(reply.headers["content-length"]) == len(reply.content)


@pytest.mark.parametrize("version", [MODERN, None])
def test_invisible_characters_are_escaped_and_parse_unchanged(version: str | None) -> None:
    hidden = "a\u202eb\U000e0041c\u200b lease"
    rest = FakeRest(records=[("cin_work", "messages", "m1", {"subject": "s", "body": hidden})])

    reply = (
        modern("tools/call", SEARCH, rest=rest)
        if version
        else send(rpc("tools/call", SEARCH), rest=rest)
    )

    text = reply.content.decode()
    assert not {"\u202e", "\u200b", "\U000e0041"} & set(text)
    result = reply.body["result"]
    evidence = result["structuredContent"]["data"]["data"][0]["evidence_excerpts"][0]
    assert evidence["plain_text"] == hidden
    assert json.loads(result["content"][0]["text"])["results"][0]["match"].startswith("a\u202eb")


def test_lone_surrogate_is_sent_as_escape() -> None:
    rest = FakeRest(
        records=[("cin_work", "messages", "m1", {"subject": "s", "body": "lease \ud800é"})]
    )

    reply = modern("tools/call", SEARCH, rest=rest)

    assert b"\\ud800" in reply.content
    assert reply.body["result"]["structuredContent"]["results"]


def test_endpoint_runs_tools_in_threads_by_default() -> None:
    threads: set[str] = set()

    class Noting(FakeRest):
        def get(self, *args: Any, **options: Any) -> RestResponse:
            """Answer, and note where."""
            threads.add(threading.current_thread().name)
            return super().get(*args, **options)

    rest = Noting(records=[("cin_work", "messages", "m1", {"body": "lease"})])

    reply = send(rpc("tools/call", SEARCH), rest=rest, offload=default_threads(2))

    assert reply.status == 200
    assert all(name.startswith("mcp") for name in threads)
    assert threads


@pytest.mark.parametrize("version", [MODERN, None])
def test_request_id_cannot_replace_the_result(version: str | None) -> None:
    meta = {"_meta": META} if version else {}
    body = {**rpc("tools/call", {**SEARCH, **meta}), "id": '{"raw":"0000000000000000"}'}
    headers = {"mcp_protocol_version": MODERN, "mcp_method": "tools/call", "mcp_name": "search"}

    reply = send(body, **(headers if version else {}))

    assert reply.body["id"] == '{"raw":"0000000000000000"}'
    assert reply.body["result"]["structuredContent"]["results"]


@pytest.mark.parametrize("request_id", [None, {}, 1.5, True, ["1"]])
@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18", MODERN, None])
def test_invalid_request_id_is_an_invalid_request(request_id: Any, version: str | None) -> None:
    body = {**rpc("tools/list", {"_meta": META} if version == MODERN else None), "id": request_id}

    reply = send(body, mcp_protocol_version=version, mcp_method="tools/list")

    assert reply.status == 400
    assert (reply.body["id"], reply.body["error"]["code"]) == (None, -32600)


@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18", None])
@pytest.mark.parametrize("method", ["tools/list", "server/discover"])
def test_body_of_newest_revision_without_its_header_is_a_mismatch(
    version: str | None, method: str
) -> None:
    reply = send(rpc(method, {"_meta": META}), mcp_protocol_version=version)

    assert (reply.status, reply.body["id"], reply.body["error"]["code"]) == (400, 1, -32020)


@pytest.mark.parametrize("version", ["2025-11-25", MODERN])
@pytest.mark.parametrize(
    "body",
    [b"[]", b"1", b'{"jsonrpc":"1.0","id":1,"method":"ping"}', b'{"jsonrpc":"2.0","id":1}',
     b'{"jsonrpc":"2.0","id":1,"method":5}', b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}'],
)  # fmt: skip
def test_body_that_is_no_message_is_an_invalid_request(body: bytes, version: str) -> None:
    reply = send(body, mcp_protocol_version=version, mcp_method="ping")

    assert (reply.status, reply.body["error"]["code"]) == (400, -32600)


@pytest.mark.parametrize(
    "method", ["tools/list", "resources/list", "resources/templates/list", "prompts/list"]
)
def test_unknown_cursor_is_an_invalid_parameter(method: str) -> None:
    for reply in (send(rpc(method, {"cursor": "x"})), modern(method, {"cursor": "x"})):
        assert reply.body["error"]["code"] == -32602


@pytest.mark.parametrize("uri", ["pdpp://record/cin_work/messages:none", "https://x.example"])
def test_resource_error_carries_its_uri(uri: str) -> None:
    old = send(rpc("resources/read", {"uri": uri})).body["error"]
    new = modern("resources/read", {"uri": uri}).body["error"]

    assert (old["code"], new["code"]) == (-32002, -32602)
    assert old["data"]["uri"] == new["data"]["uri"] == uri
