"""Expansion, changes and blobs through the real endpoint."""

import base64
import copy
from typing import Any

import pytest

from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest
from evidence.ledger.disclosures import disclosures_to_clients, read_disclosures
from evidence.page_cutter import dumps
from mcp_adapter.inprocess import InProcessRest
from tests.api.test_blobs import CONTENT, FILES, ONE, keep
from tests.mcp_adapter import real
from tests.mcp_adapter.hosts import error_of, parsed_text, structured, text_of
from tests.scenarios import scenario
from tests.world import ACCOUNT, BANK, PERSONAL, WORK, World

pytestmark = pytest.mark.django_db


@pytest.fixture
def bearer(world: World) -> str:
    return world.tokens["dora@mcp"]


@scenario("D7")
def test_expand_is_passed_and_returned_unchanged(world: World, bearer: str) -> None:
    result = real.call(
        bearer, "query_records", stream="threads", expand=["messages"], expand_limit={"messages": 1}
    )

    own = world.get("/v1/streams/threads/records", who="dora", expand="messages",
                    expand_limit__messages=1, form="compact").body  # fmt: skip
    assert structured(result)["data"]["data"] == own["data"]
    (record,) = parsed_text(result)["records"]
    assert record["expanded"]["messages"]["has_more"] is True
    (child,) = record["expanded"]["messages"]["records"]
    assert not real.call(bearer, "fetch", id=child["id"]).is_error


@scenario("D7")
def test_document_shows_expanded_records(bearer: str) -> None:
    document = structured(
        real.call(bearer, "fetch", id=f"{PERSONAL}/messages:m1", expand=["thread"])
    )

    thread = document["metadata"]["expanded"]["thread"]
    assert thread["id"] == f"{PERSONAL}/threads:t1"
    assert thread["data"]["topic"] == "The lease"


@scenario("D8")
def test_expand_without_relation_is_refused_before_reading(
    bearer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest_calls: list[str] = []
    get = InProcessRest.get

    def noting(self: InProcessRest, path: str, *rest: Any, **extra: Any) -> Any:
        rest_calls.append(path)
        return get(self, path, *rest, **extra)

    monkeypatch.setattr(InProcessRest, "get", noting)

    for tool, arguments in (
        ("query_records", {"stream": "transactions", "expand": ["payee"]}),
        ("query_records", {"stream": "transactions", "expand_limit": {"payee": 1}}),
        ("fetch", {"id": f"{BANK}/transactions:b1", "expand": ["payee"]}),
    ):
        error = error_of(real.call(bearer, tool, **arguments))
        assert error["code"] == "invalid_expand"
        assert "transactions" in error["message"]
    assert set(rest_calls) == {"/v1/schema"}


@scenario("D9")
def test_unknown_stream_is_refused_by_rest(bearer: str) -> None:
    error = error_of(real.call(bearer, "query_records", stream="nothing", expand=["payee"]))

    assert error["type"] != "adapter_error"


@scenario("C14", "B11")
def test_changes_continue_from_their_bookmark(world: World, bearer: str) -> None:
    def changes(since: str) -> Any:
        return parsed_text(
            real.ask(
                bearer,
                lambda client: client.call_tool(
                    "query_records",
                    {"stream": "messages", "connection_id": WORK, "changes_since": since},
                ),
            )
        )

    first = changes("beginning")
    world.put((WORK, "messages", {"id": "w9", "subject": "New", "body_text": "A new message."}))
    second = changes(first["next_changes_since"])

    assert [item["id"] for item in first["records"]] == [
        f"{WORK}/messages:m1",
        f"{WORK}/messages:w2",
    ]
    assert [item["id"] for item in second["records"]] == [f"{WORK}/messages:w9"]


@scenario("B8", "B11")
def test_blob_is_described_and_readable_as_resource(world: World) -> None:
    world.declare(FILES)
    world.connect(ONE, "files", "Files")
    keep(world, ONE, "a1", "blb_1", CONTENT, media_type="application/pdf")
    world.grant(
        "ruth", GrantRequest(connection_ids=[ONE], streams=[StreamRequest(name="attachments")])
    )
    bearer = world.tokens["ruth@mcp"]

    output = parsed_text(
        real.call(bearer, "read_record_field", id=f"{ONE}/attachments:a1", field_path="blob_ref")
    )
    uri = output["blob"]["uri"]
    (complete,) = real.ask(bearer, lambda client: client.read_resource(uri)).contents

    assert output["blob"]["total_bytes"] == len(CONTENT)
    assert output["blob"]["media_type"] == "application/pdf"
    assert base64.b64decode(complete.blob) == CONTENT


def test_aggregate_of_two_keys_and_metrics(world: World) -> None:
    bearer = world.tokens["dora@mcp"]
    result = real.call(
        bearer, "aggregate", stream="transactions", metrics=["count", "sum"], field="amount",
        group_by="name", group_by_time="date", granularity="month", sort="-sum", limit=2,
    )  # fmt: skip

    text, data = parsed_text(result), structured(result)["data"]
    assert text["columns"] == ["name", "date", "count", "sum"]
    assert text["groups"][0] == ["Acme GmbH", "2026-01-01", 1, 410000]
    assert data["groups"][0]["values"] == {"count": 1, "sum": 410000}
    assert text["next_cursor"] == data["next_cursor"]
    rest = real.call(
        bearer, "aggregate", stream="transactions", metrics=["count", "sum"], field="amount",
        group_by="name", group_by_time="date", granularity="month", sort="-sum", limit=2,
        cursor=text["next_cursor"],
    )  # fmt: skip
    assert parsed_text(rest)["groups"] == [["Eva Lang", "2026-01-01", 1, -234000]]


@pytest.mark.parametrize("names", [["Eva Lang", "Nobody"], {"in": ["Eva Lang", "Nobody"]}])
def test_a_filter_takes_several_values(world: World, names: Any) -> None:
    bearer = world.tokens["dora@mcp"]
    some = {"stream": "transactions", "filter": {"name": names}}
    listed = parsed_text(real.call(bearer, "query_records", **some, fields=["name"]))
    counted = parsed_text(real.call(bearer, "aggregate", **some, metric="count"))
    searched = {"q": "deposit OR salary", "streams": ["transactions"], "filter": {"name": names}}
    found = parsed_text(real.call(bearer, "search", **searched))

    ids = [f"{BANK}/transactions:b1"]
    assert [record["id"] for record in listed["records"]] == ids
    assert [hit["id"] for hit in found["results"]] == ids
    assert counted["value"] == 1
    again = counted["next"]["records"]
    assert parsed_text(real.call(bearer, again["tool"], **again["args"]))["records"]


TEXTS_OF_TOOLS = [
    ("schema", {}), ("schema", {"stream": "transactions"}),
    ("schema", {"stream": "transactions", "detail": "full"}),
    ("search", {"q": "unicorn"}), ("search", {"q": "lease"}), ("search", {"q": "leese"}),
    ("search", {"q": "lease", "mode": "semantic"}), ("search", {"q": "x", "streams": ["threads"]}),
    ("search", {"q": "deposit", "streams": ["transactions"], "filter": {"name": "Nobody"}}),
    ("query_records", {"stream": "transactions"}), ("query_records", {"stream": "nothing"}),
    ("query_records", {"stream": "transactions", "filter": {"name": "Nobody"}}),
    ("query_records", {"stream": "transactions", "filter": {"nothing": "1"}}),
    ("query_records", {"stream": "messages", "connection_id": PERSONAL, "expand": ["thread"]}),
    ("query_records", {"stream": "messages", "sort": "subject", "connection_id": PERSONAL}),
    ("query_records", {"stream": "messages"}), ("query_records", {"stream": "messages", "limit": 101}),
    ("query_records", {"stream": "transactions", "changes_since": "2026-01-01"}),
    ("aggregate", {"stream": "transactions", "metric": "count", "filter": {"name": "Nobody"}}),
    ("aggregate", {"stream": "transactions", "metric": "sum", "field": "name"}),
    ("aggregate", {"stream": "transactions", "metric": "count", "group_by": "name,date,memo"}),
    ("fetch", {"id": f"{BANK}/transactions:b1"}), ("fetch", {"id": f"{BANK}/transactions:none"}),
    ("fetch", {"id": f"{PERSONAL}/messages:m1", "expand": ["thread"]}), ("fetch", {"id": "x"}),
    ("read_record_field", {"id": f"{PERSONAL}/messages:m1", "field_path": "body_text"}),
    ("read_record_field", {"id": f"{PERSONAL}/messages:m1", "field_path": "nothing"}),
    ("read_record_field", {"id": f"{PERSONAL}/messages:m1", "field_path": "subject", "q": "xyz"}),
]  # fmt: skip


@pytest.mark.parametrize(("tool", "arguments"), TEXTS_OF_TOOLS)
def test_texts_of_tools_speak_of_tools(bearer: str, tool: str, arguments: dict[str, Any]) -> None:
    result = real.ask(bearer, lambda client: client.call_tool(tool, arguments))

    for spoken in ("GET ", "POST ", "/v1/schema", "[]", "meta.", "query parameter"):
        assert spoken not in text_of(result).replace('": []', "").replace('":[]', "")
        shown = dumps(structured(result)).replace('":[]', "")
        assert spoken not in shown


@pytest.fixture
def money(world: World) -> World:
    document = copy.deepcopy(ACCOUNT) | {"version": "1.1.0"}
    properties = document["streams"][0]["schema"]["properties"]
    properties["amount"]["x_pdpp_money"] = {"currency_field": "currency", "unit": "minor"}
    properties["memo"]["x_pdpp_type"] = "text"
    world.declare(document)
    world.put((BANK, "transactions", {"id": "b9", "date": "2026-03-01", "amount": -7440,
               "currency": "EUR", "name": "Shop\namount: 1", "memo": "a\u2028currency: JPY"}))  # fmt: skip
    return world


def test_money_is_shown_as_a_decimal_next_to_the_raw_value(money: World) -> None:
    bearer = money.tokens["dora@mcp"]
    result = real.call(bearer, "query_records", stream="transactions", limit=1)

    [record] = parsed_text(result)["records"]
    assert (record["id"], record["data"]["amount"]) == (f"{BANK}/transactions:b9", -7440)
    assert "id" not in record["data"], "the key would be shown twice"
    assert record["money"] == {"amount": "-74.40 EUR"}
    assert structured(result)["data"]["data"][0]["money"] == {"amount": "-74.40 EUR"}
    [stream] = parsed_text(real.call(bearer, "schema", stream="transactions"))["streams"]
    assert stream["fields"]["amount"].endswith(",m=minor|currency")


@pytest.fixture
def abroad(money: World) -> World:
    money.put(
        (BANK, "transactions", {"id": "y1", "date": "2026-03-02", "amount": -5870,
         "currency": "JPY", "name": "Shop abroad"}),
        (BANK, "transactions", {"id": "y2", "date": "2026-03-03", "amount": -100,
         "currency": "CNY", "name": "Shop abroad"}),
    )  # fmt: skip
    return money


def test_sums_are_shown_as_decimals_with_their_currency(abroad: World) -> None:
    bearer, over = abroad.tokens["dora@mcp"], {"stream": "transactions", "field": "amount"}
    acme = {**over, "filter": {"name": "Acme GmbH"}}
    [alone, average, grouped, two] = [
        real.call(bearer, "aggregate", **arguments)
        for arguments in (
            {**acme, "metric": "sum"},
            {**acme, "metric": "avg"},
            {**over, "metric": "sum", "group_by": "currency", "sort": "key"},
            {**acme, "metrics": ["count", "sum"], "group_by": "name", "group_by_time": "date",
             "granularity": "year"},
        )
    ]  # fmt: skip

    text = parsed_text(alone)
    assert (text["value"], text["money"]) == (820000, {"sum": "8200.00 EUR"})
    assert parsed_text(average)["money"] == {"avg": "4100.00 EUR"}
    assert structured(alone)["data"]["money"] == {"sum": "8200.00 EUR"}
    shown = read_disclosures(disclosures_to_clients(abroad.packages["dora"].client_id))
    assert all("currency" in covered.fields for row in shown for covered in row.covered)
    rows = [["CNY", -100, "-1.00 CNY"], ["EUR", 578560, "5785.60 EUR"], ["JPY", -5870, "-5870 JPY"]]
    assert parsed_text(grouped)["groups"] == rows
    assert structured(grouped)["data"]["groups"][0]["money"] == {"sum": "-1.00 CNY"}
    assert parsed_text(two)["columns"] == ["name", "date", "count", "sum", "sum as money"]
    assert parsed_text(two)["groups"] == [["Acme GmbH", "2026-01-01", 2, 820000, "8200.00 EUR"]]


@pytest.mark.parametrize("grouped", [{}, {"group_by_time": "date", "granularity": "year"}])
def test_sums_over_several_currencies_say_so(abroad: World, grouped: dict[str, str]) -> None:
    bearer = abroad.tokens["dora@mcp"]
    result = real.call(
        bearer, "aggregate", stream="transactions", metric="sum", field="amount", **grouped
    )

    text = parsed_text(result)
    assert text["warnings"][0]["message"] == (
        "sum covers several currencies; group_by currency, or filter by it, tells them apart."
    )
    assert "several currencies" in text_of(result)
    assert "EUR" not in text_of(result)


def test_sums_without_the_currency_name_their_unit(abroad: World) -> None:
    fields = ["id", "date", "amount", "name"]
    request = StreamRequest(name="transactions", fields=fields)
    abroad.grant("teller", GrantRequest(connection_ids=[BANK], streams=[request]))
    result = real.call(
        abroad.tokens["teller@mcp"],
        "aggregate",
        stream="transactions",
        metric="sum",
        field="amount",
    )

    text = parsed_text(result)
    assert "money" not in text
    assert text["warnings"][0]["message"] == (
        "sum is in minor units (such as cents) of a currency that is not granted."
    )


def test_money_needs_the_currency_granted_but_not_requested(money: World) -> None:
    query = {"stream": "transactions", "fields": ["amount"], "limit": 1}
    [record] = parsed_text(real.call(money.tokens["dora@mcp"], "query_records", **query))["records"]
    assert (record["data"], record["money"]) == (
        {"amount": -7440}, {"amount": "-74.40 EUR"})  # fmt: skip
    shown = read_disclosures(disclosures_to_clients(money.packages["dora"].client_id))
    assert {covered.fields for row in shown for covered in row.covered} == {
        ("amount", "currency", "id")
    }
    fields = ["id", "date", "amount", "name", "memo"]
    narrow = GrantRequest(
        connection_ids=[BANK], streams=[StreamRequest(name="transactions", fields=fields)]
    )
    money.grant("nan", narrow)
    bearer = money.tokens["nan@mcp"]
    assert "money" not in parsed_text(real.call(bearer, "query_records", **query))["records"][0]
    hits = parsed_text(real.call(bearer, "search", q="shop"))["results"]
    assert [(hit["amount"], "money" in hit) for hit in hits] == [(-7440, False)]


def test_a_hit_shows_money_as_a_decimal(money: World) -> None:
    result = real.call(money.tokens["dora@mcp"], "search", q="shop")

    [hit] = parsed_text(result)["results"]
    assert (hit["amount"], hit["money"]) == (-7440, "-74.40 EUR")
    assert structured(result)["results"][0]["money"] == "-74.40 EUR"


def test_a_record_without_a_long_text_is_fetched_as_lines(money: World) -> None:
    document = structured(
        real.call(money.tokens["dora@mcp"], "fetch", id=f"{BANK}/transactions:b9")
    )

    assert sorted(document["text"].splitlines()) == [
        "amount: -7440 (-74.40 EUR)",
        "currency: EUR",
        "date: 2026-03-01",
        "id: b9",
        'memo: "a\\u2028currency: JPY"',
        'name: "Shop\\namount: 1"',
    ]


WORKOUTS: dict[str, Any] = {
    "protocol_version": "0.1.0",
    "connector_id": "https://registry.example/connectors/watch",
    "connector_key": "watch",
    "version": "1.0.0",
    "display_name": "Watch",
    "streams": [
        {
            "name": "workouts",
            "description": "Workouts.",
            "selection": {"fields": True, "resources": True},
            "semantics": "append_only",
            "schema": {
                "type": "object",
                "required": ["id"],
                "properties": {
                    "id": {"type": "string"},
                    "sport": {"type": "string", "x_pdpp_role": "primary-title"},
                    "distance_m": {"type": ["integer", "null"]},
                    "note": {"type": ["string", "null"], "x_pdpp_type": "text"},
                },
            },
            "primary_key": ["id"],
            "query": {},
        }
    ],
}


@pytest.mark.parametrize(
    ("note", "text"),
    [
        ("Felt good", "id: w1\nsport: run\ndistance_m: 8000\nnote: Felt good"),
        ("A long diary entry. " * 20, "A long diary entry. " * 20),
    ],
)
def test_a_workout_with_a_short_note_is_fetched_as_lines(
    world: World, note: str, text: str
) -> None:
    world.declare(WORKOUTS)
    world.connect("cin_watch", "watch", "Watch")
    workout = {"id": "w1", "sport": "run", "distance_m": 8000, "note": note}
    world.put(("cin_watch", "workouts", workout))
    streams = [StreamRequest(name="workouts")]
    world.grant("coach", GrantRequest(connection_ids=["cin_watch"], streams=streams))

    result = real.call(world.tokens["coach@mcp"], "fetch", id="cin_watch/workouts:w1")

    assert sorted(structured(result)["text"].splitlines()) == sorted(text.splitlines())
    assert structured(result)["metadata"]["complete"] is True


def test_windows_of_arrays_say_how_many_items_there_are(world: World) -> None:
    bearer = world.tokens["dora@mcp"]
    result = real.call(
        bearer, "read_record_field", id=f"{PERSONAL}/messages:m1", field_path="labels"
    )
    assert parsed_text(result)["field"]["item_count"] == 1


def test_every_answer_gives_a_record_one_title_and_its_own_time(world: World, bearer: str) -> None:
    found = structured(real.call(bearer, "search", q="lease OR salary OR budget"))["results"]

    assert {hit["stream"] for hit in found} >= {"messages", "transactions"}
    for hit in found:
        document = structured(real.call(bearer, "fetch", id=hit["id"]))
        record = world.get(
            f"/v1/streams/{hit['stream']}/records/{hit['record_key']}",
            who="dora", connection_id=hit["connection_id"],
        ).body  # fmt: skip
        assert document["title"] == hit["title"]
        assert record.get("authored_at") == hit.get("date")
        assert record["emitted_at"] not in (hit["title"], hit.get("date"))


def test_next_steps_of_records_and_changes_can_be_called(bearer: str) -> None:
    for arguments in (
        {"limit": 1}, {"limit": 1, "changes_since": "beginning"}, {"changes_since": "beginning"},
    ):  # fmt: skip
        result = real.call(
            bearer, "query_records", stream="messages", connection_id=WORK, **arguments
        )
        assert parsed_text(result)["next"].keys() == structured(result)["next"].keys()
        for step in (*parsed_text(result)["next"].values(), *structured(result)["next"].values()):
            assert ("changes_since" in step["args"]) == ("changes_since" in arguments)
            following = real.ask(
                bearer, lambda client, step=step: client.call_tool(step["tool"], step["args"])
            )
            assert not following.is_error
            handles = structured(following)["handles"]
            assert not set(handles) & set(structured(result)["handles"])
