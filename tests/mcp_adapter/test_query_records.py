"""query_records against a fake REST API."""

from typing import Any

import pytest

from evidence import limits
from evidence.page_cutter import json_size, wire_size
from evidence.parameters import EXTENSIONS
from mcp_adapter.rest import RestResponse
from tests.mcp_adapter.fake_rest import FakeRest, error_response
from tests.mcp_adapter.hosts import call, error_of, parsed_text, structured, text_of
from tests.scenarios import scenario

LIST = "/v1/streams/messages/records"


def rest_with_mails(count: int = 3, **extra: object) -> FakeRest:
    return FakeRest(
        records=[
            ("cin_work", "messages", f"m{n}", {"id": f"m{n}", "subject": f"Mail {n}", **extra})
            for n in range(count)
        ]
    )


def test_typed_arguments_become_rest_parameters() -> None:
    fake = rest_with_mails()

    call(
        fake, "query_records", stream="messages", connection_id="cin_work",
        filter={"subject": "Mail 1", "size": {"gte": 1, "lt": 2.5}, "seen": False},
        fields=["id", "subject"], sort="-sent_at", order="desc", count="exact", limit=7,
        cursor="c0", view="envelope",
    )  # fmt: skip

    ((path, query),) = fake.calls
    assert path == LIST
    assert query.pop("max_bytes")
    assert query.pop("max_line_bytes")
    assert query == {
        "connection_id": "cin_work",
        "filter[subject]": "Mail 1",
        "filter[size][gte]": "1",
        "filter[size][lt]": "2.5",
        "filter[seen]": "false",
        "fields": "id,subject",
        "view": "envelope",
        "sort": "-sent_at",
        "order": "desc",
        "count": "exact",
        "cursor": "c0",
        "limit": "7",
        "form": "compact",
    }


def test_paging_returns_every_record_once() -> None:
    fake = rest_with_mails(60, body="word " * 100)
    ids: list[str] = []
    extra: dict[str, str] = {}
    while True:
        output = parsed_text(call(fake, "query_records", stream="messages", **extra))
        ids += [item["id"] for item in output["records"]]
        if not output["has_more"]:
            break
        extra = {"cursor": output["next_cursor"]}

    assert ids == [f"cin_work/messages:m{n}" for n in range(60)]


@scenario("C14")
def test_changes_page_shows_bookmark_and_deletions() -> None:
    fake = rest_with_mails(2)
    answer = fake._list("messages", {"changes_since": "beginning"})
    assert isinstance(answer.body, dict)
    answer.body["data"].append(
        {"object": "record", "id": "gone", "stream": "messages", "connection_id": "cin_work",
         "deleted": True, "deleted_at": "2026-09-01T00:00:00Z"}
    )  # fmt: skip
    fake.answers[LIST] = answer

    output = parsed_text(call(fake, "query_records", stream="messages", changes_since="beginning"))

    assert output["next_changes_since"] == "b2"
    assert output["records"][-1] == {
        "id": "cin_work/messages:gone",
        "deleted": True,
        "deleted_at": "2026-09-01T00:00:00Z",
    }


@scenario("D6")
def test_max_bytes_widens_a_page_and_shows_no_less_than_the_default() -> None:
    fake = rest_with_mails(100, body="word " * 60)

    results = [
        call(fake, "query_records", stream="messages", limit=100, **extra)
        for extra in ({}, {"max_bytes": 4_000}, {"max_bytes": 7_000}, {"max_bytes": 50_000})
    ]

    counts = [len(parsed_text(result)["records"]) for result in results]
    sizes = [(json_size(structured(item)), wire_size(text_of(item))) for item in results]
    assert 1 <= counts[0] == counts[1] < counts[2] < counts[3]
    bounds = [(limits.STRUCTURED_BYTES, limits.TEXT_BYTES)] * 2
    bounds += [(limits.STRUCTURED_BYTES, 7_000), (50_000, 50_000)]
    for (data, text), (data_bound, text_bound) in zip(sizes, bounds, strict=True):
        assert data <= data_bound
        assert text <= text_bound


@scenario("D7")
def test_advertised_expand_is_passed_and_returned_unchanged() -> None:
    fake = rest_with_mails(1)
    fake.expand["messages"] = [{"name": "files", "usable": True}]
    answer = fake._list("messages", {})
    assert isinstance(answer.body, dict)
    answer.body["data"][0]["expanded"] = {
        "files": {"object": "list", "data": [], "has_more": False}
    }
    fake.answers[LIST] = answer

    result = call(
        fake, "query_records", stream="messages", expand=["files"], expand_limit={"files": 2}
    )

    assert structured(result)["data"] == answer.body
    assert fake.calls[-1][1]["expand"] == "files"
    assert fake.calls[-1][1]["expand_limit[files]"] == "2"


@scenario("D8")
@pytest.mark.parametrize(
    ("tool", "arguments", "param"),
    [
        ("query_records", {"stream": "messages", "expand": ["files"]}, "expand"),
        ("query_records", {"stream": "messages", "expand_limit": {"files": 1}}, "expand_limit"),
        ("fetch", {"id": "cin_work/messages:m1", "expand": ["files"]}, "expand"),
    ],
)
@pytest.mark.parametrize("advertised", [None, []])
def test_expand_without_relations_is_refused_before_reading(
    tool: str, arguments: dict[str, object], param: str, advertised: list[dict[str, object]] | None
) -> None:
    fake = rest_with_mails()
    if advertised is not None:
        fake.expand["messages"] = advertised

    error = error_of(call(fake, tool, **arguments))

    assert error["code"] == "invalid_expand"
    assert error["param"] == param
    assert "messages" in error["message"]
    assert "GET /v1/schema" in error["message"]
    assert fake.paths() == ["/v1/schema"]


@scenario("D9")
def test_changed_schema_applies_to_the_next_call() -> None:
    fake = rest_with_mails()
    expanding = {"stream": "messages", "expand": ["files"], "connection_id": "cin_work"}
    assert call(fake, "query_records", **expanding).is_error

    fake.expand["messages"] = [{"name": "files"}]

    assert not call(fake, "query_records", **expanding).is_error
    assert fake.calls[0][1] == {
        "view": "compact",
        "stream": "messages",
        "connection_id": "cin_work",
    }


@scenario("D9")
@pytest.mark.parametrize(
    "schema",
    [error_response(500, "internal_error"), error_response(404, "not_found"), RestResponse(200, b"no json"),
     RestResponse(200, {"connectors": []}), RestResponse(200, {})],
)  # fmt: skip
def test_unreadable_schema_leaves_expand_to_rest(schema: RestResponse) -> None:
    fake = rest_with_mails()
    fake.answers["/v1/schema"] = schema
    fake.answers[LIST] = error_response(400, "invalid_expand", message="Its own words.")

    error = error_of(call(fake, "query_records", stream="messages", expand=["files"]))

    assert error["message"] == "Its own words."


def test_stream_uri_is_accepted_as_stream() -> None:
    fake = rest_with_mails()

    assert not call(fake, "query_records", stream="pdpp://stream/messages").is_error
    assert fake.paths() == [LIST]


def test_export_command_is_shell_safe() -> None:
    fake = rest_with_mails(3)

    output = parsed_text(
        call(fake, "query_records", stream="messages", limit=1, filter={"subject": "x'; rm -rf ~"})
    )

    viewed = parsed_text(call(fake, "query_records", stream="messages", limit=1, view="envelope"))
    assert viewed["export"] == "pdpp export messages --view envelope"
    assert output["export"] == ("pdpp export messages --param 'filter[subject]=x'\"'\"'; rm -rf ~'")


def test_connection_that_fits_no_handle_is_shown_next_to_it() -> None:
    fake = FakeRest(
        connections=[("cin/odd", "Odd", "mailbox")],
        records=[("cin/odd", "messages", "m1", {"id": "m1"})],
    )

    (record,) = parsed_text(call(fake, "query_records", stream="messages"))["records"]

    assert (record["id"], record["connection_id"]) == ("messages:m1", "cin/odd")
    assert not call(fake, "fetch", id=record["id"], connection_id=record["connection_id"]).is_error


def test_text_shows_warnings_and_sources() -> None:
    fake = rest_with_mails(2)
    fake.records.append(("cin_home", "messages", "h1", {"id": "h1"}))
    answer = fake._list("messages", {})
    assert isinstance(answer.body, dict)
    answer.body["meta"]["warnings"] = [{"code": "limit_clamped", "message": "Lowered."}]
    fake.answers[LIST] = answer

    output = parsed_text(call(fake, "query_records", stream="messages"))

    assert output["warnings"] == [{"code": "limit_clamped", "message": "Lowered."}]
    assert output["sources"] == [
        {"connection_id": "cin_work", "source": "Work mail (mailbox)", "records": 2},
        {"connection_id": "cin_home", "source": "Home mail (mailbox)", "records": 1},
    ]


class IgnoresLimits(FakeRest):
    """A server of another kind: it knows neither `limit` nor the parameters beyond the contract."""

    def get(self, path: str, params: Any, *args: Any, **options: Any) -> RestResponse:
        known = [pair for pair in params if pair[0] not in (*EXTENSIONS, "limit")]
        return super().get(path, [*known, ("limit", "100")], *args, **options)


def test_of_a_server_that_ignores_the_limit_the_first_records_are_shown() -> None:
    mails = rest_with_mails(60, body="word " * 60)
    result = call(IgnoresLimits(records=mails.records), "query_records", stream="messages", limit=5)

    data = structured(result)["data"]
    shown = [record["id"] for record in data["data"]]
    assert shown == [f"m{n}" for n in range(len(shown))]
    assert data["meta"]["ended_by"] == "max_bytes"
    assert data["meta"]["left"] == 60 - len(shown) > 0
    assert data["has_more"]
    assert "next_cursor" not in data
    assert "page" not in structured(result)["next"]
