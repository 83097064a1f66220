"""Commands cover every capability of the MCP tools."""

import json
import shlex
from pathlib import Path

import pytest

from evidence import record_ids
from evidence.limits import SELECTING_PARAMETERS
from mcp_adapter.server import TOOLS
from tests.cli.conftest import Shell, answering
from tests.scenarios import scenario
from tests.uris import field_window_uri
from tests.world import World


@scenario("B10")
def test_commands_cover_every_tool_argument(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PDPP_ACCESS_TOKEN", "at")
    monkeypatch.setenv("PDPP_PROVIDER_URL", "https://rs.example")
    body = {"data": [], "pdpp_extension_parameters": sorted(SELECTING_PARAMETERS)}
    shell.send = lambda request: answering({request.url.path: body})(request)
    page = ["--limit", "2", "--cursor", "c"]
    narrowed = ["--connection", "cin_a", "--filter", "n=1", "--filter", "size>=2"]
    period = ["--after", "2026-01-01", "--before", "2026-02-01"]
    expanded = ["--expand", "thread", "--expand-limit", "thread=2"]
    lines = {
        "schema": [["schema", "mail", "--connection", "cin_a"], ["schema", "mail", "--full"]],
        "search": [["search", "a", "--stream", "mail", "--sort", "-time", "--match", "exact",
                    *period, *narrowed, *page],
                   ["search", "a", "--mode", "hybrid"]],
        "query_records": [["records", "mail", *narrowed, "--fields", "a,b", "--sort", "-n",
                           "--order", "desc", "--count", "exact", *period, *page, *expanded],
                          ["records", "mail", "--view", "v"], ["changes", "mail", "--since", "b"]],
        "fetch": [["fetch", "cin_a/mail:1", "--fields", "a", *expanded]],
        "read_record_field": [["field", "cin_a/mail:1", "body", "--find", "x", "--occurrence", "2",
                               "--before", "1", "--after", "2", "--limit", "9"],
                              ["field", "cin_a/mail:1", "body", "--offset", "7"]],
        "aggregate": [["aggregate", "mail", "sum", "--field", "a", *period, *narrowed],
                      ["aggregate", "mail", "--metrics", "count,sum:a", "--by", "a", "--limit", "3",
                       "--sort", "-count", "--cursor", "c"],
                      ["aggregate", "mail", "--by-time", "t", "--granularity", "day",
                       "--time-zone", "Asia/Tokyo"]],
    }  # fmt: skip
    # Arguments with other names in REST: path segments, q, and the size budget of a model.
    renamed = {"max_bytes", "id", "record_id", "field_path", "query", "mode", "cursor"}

    assert set(lines) == set(TOOLS)
    for name, words in lines.items():
        shell.requests.clear()
        assert [shell(*line).code for line in words] == [0] * len(words)
        sent = {key.partition("[")[0] for request in shell.requests for key in request.url.params}
        arguments = set(TOOLS[name].arguments.model_fields)
        assert arguments - renamed - {"stream"} <= sent, name
        assert any("hybrid" in request.url.path for request in shell.requests) == (name == "search")


def test_schema_lists_streams_and_fields_of_one(pdpp: Shell) -> None:
    everything, one = pdpp("schema").out, pdpp("schema", "transactions").out

    assert "cin_bank  Bank account" in everything
    assert "pdpp schema STREAM" in everything
    assert "amount" in one
    assert "r=gte|gt|lte|lt" in one
    assert pdpp("schema", "transactions", "--full", "--json").body["connectors"]


def test_streams_are_listed_by_connection(pdpp: Shell) -> None:
    result = pdpp("streams")

    assert result.out.splitlines()[0].split() == [
        "STREAM",
        "RECORDS",
        "UPDATED",
        "CONNECTION",
        "LABEL",
    ]
    assert sum("messages" in row for row in result.out.splitlines()) == 3


def test_field_windows_continue_to_the_end(pdpp: Shell) -> None:
    words, text = ["field", "cin_personal/messages:m1", "body_text", "--limit", "40"], ""
    while words:
        result = pdpp(*words)
        text += result.out.removesuffix("\n")
        onward = [line for line in result.err.splitlines() if line.startswith("next: pdpp ")]
        words = [*shlex.split(onward[0])[2:], "--limit", "40"] if onward else []

    assert text.endswith("due by 1 February.")
    assert text.startswith("Dear Alice, we signed")


def test_quote_is_verified(pdpp: Shell) -> None:
    result = pdpp("field", "cin_personal/messages:m1", "body_text", "--quote", "signed the lease")

    assert "quote: verified at 15" in result.err


def test_field_accepts_a_field_window_uri(pdpp: Shell) -> None:
    ref = record_ids.RecordRef("cin_personal", "messages", "m1")
    window = {"field_path": "body_text", "offset_chars": 5, "limit_chars": 5}

    result = pdpp("field", field_window_uri(ref, window=window))

    assert result.out == "Alice\n"


def test_connection_of_a_plain_uri_is_used(pdpp: Shell) -> None:
    result = pdpp("fetch", "pdpp://record/cin_work%2Fmessages%3Am1")

    assert (result.code, "Budget review" in result.out) == (0, True)


def test_records_are_filtered_sorted_and_counted(pdpp: Shell) -> None:
    result = pdpp("records", "transactions", "--filter", "amount>0", "--order", "asc",
                "--count", "exact", "--fields", "id,amount", "--json")  # fmt: skip

    assert [record["id"] for record in result.body["data"]] == ["b2", "b3"]
    assert result.body["meta"]["count"]["value"] == 2
    assert "2 shown" in pdpp("records", "transactions", "--filter", "amount>0").out


@pytest.mark.parametrize(
    ("condition", "count"),
    [
        ("name!=Acme GmbH", "1"),
        ("name~cme", "2"),
        ("name words acme", "2"),
        ("name = Acme GmbH", "2"),
        ("memo~a<b=c", "0"),
    ],
)
def test_filters_exclude_contain_and_search_words(pdpp: Shell, condition: str, count: str) -> None:
    result = pdpp("aggregate", "transactions", "--filter", condition, "--json")

    assert str(result.body["value"]) == count


def test_aggregate_prints_totals_and_groups(pdpp: Shell) -> None:
    assert pdpp("aggregate", "transactions").out == "3\n"
    assert pdpp("aggregate", "transactions", "sum", "--field", "amount").out == "586000\n"
    grouped = pdpp("aggregate", "transactions", "--by", "name").out.splitlines()
    assert grouped[1].split() == ["Acme", "GmbH", "2"]
    summed = pdpp("aggregate", "transactions", "sum", "--field", "amount", "--by", "name").out
    assert summed.splitlines()[0].split() == ["NAME", "SUM", "OF", "AMOUNT", "COUNT"]
    assert summed.splitlines()[1].split() == ["Acme", "GmbH", "820000", "2"]


def test_changes_continue_from_the_bookmark(pdpp: Shell, world: World) -> None:
    first = pdpp("changes", "transactions")
    bookmark = first.out.split("--since ")[1].split()[0]
    record = {"id": "b9", "date": "2026-03-01", "amount": 1}
    world.put(("cin_bank", "transactions", record))

    second = pdpp("changes", "transactions", "--since", bookmark, "--json")

    assert "3 shown" in first.out
    assert [record["id"] for record in second.body["data"]] == ["b9"]


def test_fetch_prints_expanded_relations(pdpp: Shell) -> None:
    result = pdpp("fetch", "cin_personal/messages:m1", "--expand", "thread")

    assert "The lease" in result.out


def test_export_shown_to_agents_works(pdpp: Shell, tmp_path: Path) -> None:
    from mcp_adapter.tools.query_records import _export

    arguments = {"connection_id": "cin_bank", "fields": ["id", "amount"],
                 "filter": {"amount": {"gte": 0}}}  # fmt: skip
    line = _export(arguments, stream="transactions")["export"]

    result = pdpp(*shlex.split(line)[1:])

    assert result.code == 0, result.err
    lines = (tmp_path / "transactions.ndjson").read_text().splitlines()
    assert [json.loads(line)["data"] for line in lines] == [
        {"id": "b2", "amount": 410000},
        {"id": "b3", "amount": 410000},
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "m1",
        "a/b",
        "cin/../x:1",
        "pdpp://record/!!",
        "pdpp://stream/messages",
        "pdpp://record/e30",
    ],
)
def test_invalid_ids_are_usage_errors(pdpp: Shell, text: str) -> None:
    assert pdpp("fetch", text).code == 64
