"""query_records, against a resource server in memory."""

import pytest

from evidence import limits
from mcp_adapter.json_text import size, wire_size
from mcp_adapter.rest import RestAnswer
from tests.mcp_adapter.fake_rest import FakeRest, error
from tests.mcp_adapter.hosts import call, refusal, seen, structured, text_of
from tests.scenarios import scenario

LIST = "/v1/streams/messages/records"


def mails(count: int = 3, **more: object) -> FakeRest:
    return FakeRest(
        records=[
            ("cin_work", "messages", f"m{n}", {"id": f"m{n}", "subject": f"Mail {n}", **more})
            for n in range(count)
        ]
    )


def test_typed_arguments_become_the_parameters_of_the_rest_read() -> None:
    fake = mails()

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
    }


def test_paging_by_the_shown_cursor_meets_every_record_once() -> None:
    fake = mails(60, body="word " * 100)
    met: list[str] = []
    more: dict[str, str] = {}
    while True:
        shown = seen(call(fake, "query_records", stream="messages", **more))
        met += [each["id"] for each in shown["records"]]
        if not shown["has_more"]:
            break
        more = {"cursor": shown["next_cursor"]}

    assert met == [f"cin_work/messages:m{n}" for n in range(60)]


@scenario("C14")
def test_a_page_of_changes_shows_its_bookmark_and_what_was_deleted() -> None:
    fake = mails(2)
    answer = fake._list("messages", {"changes_since": "beginning"})
    assert isinstance(answer.body, dict)
    answer.body["data"].append(
        {"object": "record", "id": "gone", "stream": "messages", "connection_id": "cin_work",
         "deleted": True, "deleted_at": "2026-09-01T00:00:00Z"}
    )  # fmt: skip
    fake.answers[LIST] = answer

    shown = seen(call(fake, "query_records", stream="messages", changes_since="beginning"))

    assert shown["next_changes_since"] == "b2"
    assert shown["records"][-1] == {
        "id": "cin_work/messages:gone",
        "deleted": True,
        "deleted_at": "2026-09-01T00:00:00Z",
    }


@scenario("D6")
def test_the_size_is_the_callers_choice_and_small_by_default() -> None:
    fake = mails(100, body="word " * 60)

    results = [
        call(fake, "query_records", stream="messages", limit=100, **more)
        for more in ({"max_bytes": 4_000}, {}, {"max_bytes": 50_000})
    ]

    counts = [len(seen(result)["records"]) for result in results]
    totals = [size(structured(each)) + wire_size(text_of(each)) for each in results]
    assert 1 <= counts[0] < counts[1] < counts[2]
    assert totals[0] <= 4_000
    assert totals[1] <= limits.STRUCTURED_BYTES + limits.TEXT_BYTES
    assert totals[2] <= 50_000


@scenario("D7")
def test_expand_where_it_is_advertised_is_passed_on_and_comes_through_unchanged() -> None:
    fake = mails(1)
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
def test_expand_where_none_is_advertised_is_refused_before_the_records_are_read(
    tool: str, arguments: dict[str, object], param: str, advertised: list[dict[str, object]] | None
) -> None:
    fake = mails()
    if advertised is not None:
        fake.expand["messages"] = advertised

    shown = refusal(call(fake, tool, **arguments))

    assert shown["code"] == "invalid_expand"
    assert shown["param"] == param
    assert "messages" in shown["message"]
    assert "GET /v1/schema" in shown["message"]
    assert fake.paths() == ["/v1/schema"]


@scenario("D9")
def test_a_changed_schema_holds_on_the_next_call() -> None:
    fake = mails()
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
    [error(500, "internal_error"), error(404, "not_found"), RestAnswer(200, b"no json"),
     RestAnswer(200, {"connectors": []}), RestAnswer(200, {})],
)  # fmt: skip
def test_where_the_schema_cannot_be_read_the_resource_server_decides(schema: RestAnswer) -> None:
    fake = mails()
    fake.answers["/v1/schema"] = schema
    fake.answers[LIST] = error(400, "invalid_expand", message="Its own words.")

    shown = refusal(call(fake, "query_records", stream="messages", expand=["files"]))

    assert shown["message"] == "Its own words."


def test_a_stream_uri_names_the_stream() -> None:
    fake = mails()

    assert not call(fake, "query_records", stream="pdpp://stream/messages").is_error
    assert fake.paths() == [LIST]


def test_an_export_line_is_safe_to_paste() -> None:
    fake = mails(3)

    shown = seen(
        call(fake, "query_records", stream="messages", limit=1, filter={"subject": "x'; rm -rf ~"})
    )

    assert shown["export"] == ("pdpp export messages --param 'filter[subject]=x'\"'\"'; rm -rf ~'")


def test_a_connection_that_no_id_can_carry_is_shown_beside_it() -> None:
    fake = FakeRest(
        connections=[("cin/odd", "Odd", "mailbox")],
        records=[("cin/odd", "messages", "m1", {"id": "m1"})],
    )

    (record,) = seen(call(fake, "query_records", stream="messages"))["records"]

    assert (record["id"], record["connection_id"]) == ("messages:m1", "cin/odd")
    assert not call(fake, "fetch", id=record["id"], connection_id=record["connection_id"]).is_error


def test_warnings_and_sources_are_in_the_text() -> None:
    fake = mails(2)
    fake.records.append(("cin_home", "messages", "h1", {"id": "h1"}))
    answer = fake._list("messages", {})
    assert isinstance(answer.body, dict)
    answer.body["meta"]["warnings"] = [{"code": "limit_clamped", "message": "Lowered."}]
    fake.answers[LIST] = answer

    shown = seen(call(fake, "query_records", stream="messages"))

    assert shown["warnings"] == [{"code": "limit_clamped", "message": "Lowered."}]
    assert shown["sources"] == [
        {"connection_id": "cin_work", "source": "Work mail (mailbox)", "records": 2},
        {"connection_id": "cin_home", "source": "Home mail (mailbox)", "records": 1},
    ]
