"""Every capability of the agents' tools has its command line."""

import json
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli import references
from cli.errors import Failure
from mcp_adapter import ids
from mcp_adapter.surfaces import TOOLS
from tests.cli.conftest import Shell, answering
from tests.scenarios import scenario
from tests.world import World


@scenario("B10")
def test_every_argument_of_every_tool_reaches_rest_from_a_command(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PDPP_ACCESS_TOKEN", "at")
    monkeypatch.setenv("PDPP_PROVIDER_URL", "https://rs.example")
    shell.send = lambda request: answering({request.url.path: {"data": []}})(request)
    page = ["--limit", "2", "--cursor", "c"]
    narrowed = ["--connection", "cin_a", "--filter", "n=1", "--filter", "size>=2"]
    expanded = ["--expand", "thread", "--expand-limit", "thread=2"]
    lines = {
        "schema": [["schema", "mail", "--connection", "cin_a"], ["schema", "mail", "--full"]],
        "search": [["search", "a", "--stream", "mail", "--sort", "-time", *narrowed, *page],
                   ["search", "a", "--mode", "hybrid"]],
        "query_records": [["records", "mail", *narrowed, "--fields", "a,b", "--sort", "-n",
                           "--order", "desc", "--count", "exact", *page, *expanded],
                          ["records", "mail", "--view", "v"], ["changes", "mail", "--since", "b"]],
        "fetch": [["fetch", "cin_a/mail:1", "--fields", "a", *expanded]],
        "read_record_field": [["field", "cin_a/mail:1", "body", "--find", "x", "--occurrence", "2",
                               "--before", "1", "--after", "2", "--limit", "9"],
                              ["field", "cin_a/mail:1", "body", "--offset", "7"]],
        "aggregate": [["aggregate", "mail", "sum", "--field", "a", *narrowed],
                      ["aggregate", "mail", "--by", "a", "--limit", "3"],
                      ["aggregate", "mail", "--by-time", "t", "--granularity", "day",
                       "--time-zone", "Asia/Tokyo"]],
    }  # fmt: skip
    # Named otherwise: the budget of a model's context, parts of the path, and other words for q.
    elsewhere = {"max_bytes", "id", "record_id", "field_path", "query", "mode", "cursor"}

    assert set(lines) == set(TOOLS)
    for name, words in lines.items():
        shell.asked.clear()
        assert [shell(*each).code for each in words] == [0] * len(words)
        sent = {key.partition("[")[0] for asked in shell.asked for key in asked.url.params}
        wanted = {argument.name for argument in TOOLS[name].arguments}
        assert wanted - elsewhere - {"stream"} <= sent, name
        assert any("hybrid" in asked.url.path for asked in shell.asked) == (name == "search")


def test_schema_shows_every_stream_and_one_of_them_in_full(pdpp: Shell) -> None:
    everything, one = pdpp("schema").out, pdpp("schema", "transactions").out

    assert "cin_bank  Bank account" in everything
    assert "pdpp schema STREAM" in everything
    assert "amount" in one
    assert "r=gte|gt|lte|lt" in one
    assert pdpp("schema", "transactions", "--full", "--json").body["connectors"]


def test_streams_are_listed_by_connection(pdpp: Shell) -> None:
    said = pdpp("streams")

    assert said.out.splitlines()[0].split() == [
        "STREAM",
        "RECORDS",
        "UPDATED",
        "CONNECTION",
        "LABEL",
    ]
    assert sum("messages" in row for row in said.out.splitlines()) == 3


def test_a_field_is_read_piece_by_piece_to_its_end(pdpp: Shell) -> None:
    words, text = ["field", "cin_personal/messages:m1", "body_text", "--limit", "40"], ""
    while words:
        said = pdpp(*words)
        text += said.out.removesuffix("\n")
        onward = [line for line in said.err.splitlines() if line.startswith("next: pdpp ")]
        words = [*shlex.split(onward[0])[2:], "--limit", "40"] if onward else []

    assert text.endswith("due by 1 February.")
    assert text.startswith("Dear Alice, we signed")


def test_a_quote_is_checked(pdpp: Shell) -> None:
    said = pdpp("field", "cin_personal/messages:m1", "body_text", "--quote", "signed the lease")

    assert "quote: verified at 15" in said.err


def test_a_window_handle_of_an_agent_is_taken(pdpp: Shell) -> None:
    ref = ids.RecordRef("cin_personal", "messages", "m1")
    window = {"field_path": "body_text", "offset_chars": 5, "limit_chars": 5}

    said = pdpp("field", ids.field_window_uri(ref, window=window))

    assert said.out == "Alice\n"


def test_records_are_filtered_sorted_and_counted(pdpp: Shell) -> None:
    said = pdpp("records", "transactions", "--filter", "amount>0", "--order", "asc",
                "--count", "exact", "--fields", "id,amount", "--json")  # fmt: skip

    assert [record["id"] for record in said.body["data"]] == ["b2", "b3"]
    assert said.body["meta"]["count"]["value"] == 2
    assert "2 shown" in pdpp("records", "transactions", "--filter", "amount>0").out


def test_aggregates_are_numbers_and_groups(pdpp: Shell) -> None:
    assert pdpp("aggregate", "transactions").out == "3\n"
    assert pdpp("aggregate", "transactions", "sum", "--field", "amount").out == "586000\n"
    grouped = pdpp("aggregate", "transactions", "--by", "name").out.splitlines()
    assert grouped[1].split() == ["Acme", "GmbH", "2"]
    summed = pdpp("aggregate", "transactions", "sum", "--field", "amount", "--by", "name").out
    assert summed.splitlines()[0].split() == ["NAME", "SUM", "OF", "AMOUNT", "COUNT"]
    assert summed.splitlines()[1].split() == ["Acme", "GmbH", "820000", "2"]


def test_changes_go_on_from_their_bookmark(pdpp: Shell, world: World) -> None:
    first = pdpp("changes", "transactions")
    bookmark = first.out.split("--since ")[1].split()[0]
    record = {"id": "b9", "date": "2026-03-01", "amount": 1}
    world.put(("cin_bank", "transactions", record))

    second = pdpp("changes", "transactions", "--since", bookmark, "--json")

    assert "3 shown" in first.out
    assert [each["id"] for each in second.body["data"]] == ["b9"]


def test_expanded_relations_are_shown(pdpp: Shell) -> None:
    said = pdpp("fetch", "cin_personal/messages:m1", "--expand", "thread")

    assert "The lease" in said.out


def test_the_command_that_agents_name_for_everything_is_one(pdpp: Shell, tmp_path: Path) -> None:
    from mcp_adapter.tools.query_records import _export_line

    arguments = {"connection_id": "cin_bank", "fields": ["id", "amount"],
                 "filter": {"amount": {"gte": 0}}}  # fmt: skip
    line = _export_line(arguments, stream="transactions")

    said = pdpp(*shlex.split(line)[1:])

    assert said.code == 0, said.err
    lines = (tmp_path / "transactions.ndjson").read_text().splitlines()
    assert [json.loads(each)["data"] for each in lines] == [
        {"id": "b2", "amount": 410000},
        {"id": "b3", "amount": 410000},
    ]


@given(
    st.none() | st.from_regex(r"cin_[a-z0-9]{1,8}", fullmatch=True),
    st.from_regex(r"[a-z_]{1,12}", fullmatch=True),
    st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=40),
)
def test_the_names_of_records_are_those_of_the_agents(
    connection: str | None, stream: str, record: str
) -> None:
    ref = ids.RecordRef(connection, stream, record)

    here = references.parse(ids.handle(ref))
    there = ids.parse(references.shown(connection, stream, record))

    assert (here.connection_id, here.stream, here.record_id) == (connection, stream, record)
    assert there == ref


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
def test_what_names_no_record_is_refused_before_anything_is_asked(text: str) -> None:
    with pytest.raises(Failure) as caught:
        references.parse(text)

    assert caught.value.exit_code == 64
