"""aggregate against a fake REST API."""

import pytest

from evidence import limits
from evidence.page_cutter import json_size, wire_size
from tests.mcp_adapter.fake_rest import FakeRest
from tests.mcp_adapter.hosts import call, parsed_text, structured, text_of


def people(count: int, name: str = "person {n}") -> FakeRest:
    return FakeRest(
        records=[
            ("cin_work", "messages", f"m{n}", {"from": name.format(n=n)}) for n in range(count)
        ]
    )


def test_single_value_fits_the_aggregate_budget() -> None:
    result = call(people(7), "aggregate", stream="messages", metric="count")

    assert parsed_text(result)["value"] == 7
    assert wire_size(text_of(result)) <= limits.AGGREGATE_TEXT_BYTES


def test_structured_data_is_the_rest_body() -> None:
    fake = people(3)

    result = call(fake, "aggregate", stream="messages", metric="count", group_by="from")

    body = fake._aggregate("messages", {"metric": "count", "group_by": "from"}).body
    assert structured(result)["data"] == body
    assert parsed_text(result)["groups"] == [["person 0", 1], ["person 1", 1], ["person 2", 1]]


def test_groups_beyond_the_budget_are_counted() -> None:
    fake = people(100, name="{n} " + "日" * 400)

    result = call(fake, "aggregate", stream="messages", metric="count", group_by="from", limit=100)

    output, data = parsed_text(result), structured(result)["data"]
    assert wire_size(text_of(result)) <= limits.TEXT_BYTES
    assert json_size(structured(result)) <= limits.STRUCTURED_BYTES
    assert len(data["groups"]) + data["groups_left_out"] == 100
    assert output["groups_left_out"] > 0
    step = output["next"]["page"]
    again = parsed_text(call(fake, step["tool"], **step["args"]))
    assert again["groups"] == output["groups"]


def test_text_shows_other_count() -> None:
    output = parsed_text(
        call(people(30), "aggregate", stream="messages", metric="count", group_by="from", limit=5)
    )

    assert (len(output["groups"]), output["other_count"]) == (5, 25)


@pytest.mark.parametrize("grouped", [{}, {"group_by": "from"}])
def test_the_next_step_lists_the_counted_records(grouped: dict[str, str]) -> None:
    fake = people(3)
    asked = {"stream": "messages", "connection_id": "cin_work", "after": "2026-01-01"}

    result = call(
        fake, "aggregate", metric="count", filter={"from": "person 1"}, **asked, **grouped
    )

    step = {"tool": "query_records", "args": {**asked, "filter": {"from": "person 1"}}}
    assert parsed_text(result)["next"]["records"] == structured(result)["next"]["records"] == step
    assert fake.calls[-1][1]["after"] == "2026-01-01"


def test_a_value_is_shown_without_next_steps_that_do_not_fit() -> None:
    result = call(people(3), "aggregate", stream="messages", metric="count",
                  filter={"from": "person" * 60})  # fmt: skip

    assert (parsed_text(result)["value"], "next" in parsed_text(result)) == (3, False)
    assert wire_size(text_of(result)) <= limits.AGGREGATE_TEXT_BYTES
