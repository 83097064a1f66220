"""aggregate, against a resource server in memory."""

from evidence import limits
from mcp_adapter.json_text import size, wire_size
from tests.mcp_adapter.fake_rest import FakeRest
from tests.mcp_adapter.hosts import call, seen, structured, text_of


def people(count: int, name: str = "person {n}") -> FakeRest:
    return FakeRest(
        records=[
            ("cin_work", "messages", f"m{n}", {"from": name.format(n=n)}) for n in range(count)
        ]
    )


def test_one_number_takes_few_bytes() -> None:
    result = call(people(7), "aggregate", stream="messages", metric="count")

    assert seen(result)["value"] == 7
    assert wire_size(text_of(result)) <= limits.AGGREGATE_TEXT_BYTES


def test_the_data_is_the_body_of_the_resource_server() -> None:
    fake = people(3)

    result = call(fake, "aggregate", stream="messages", metric="count", group_by="from")

    body = fake._aggregate("messages", {"metric": "count", "group_by": "from"}).body
    assert structured(result)["data"] == body
    assert seen(result)["groups"] == [["person 0", 1], ["person 1", 1], ["person 2", 1]]


def test_groups_beyond_the_budget_are_counted_and_not_forgotten() -> None:
    fake = people(100, name="{n} " + "日" * 400)

    result = call(fake, "aggregate", stream="messages", metric="count", group_by="from", limit=100)

    shown, data = seen(result), structured(result)["data"]
    assert wire_size(text_of(result)) <= limits.TEXT_BYTES
    assert size(structured(result)) <= limits.STRUCTURED_BYTES
    assert len(data["groups"]) + data["groups_left_out"] == 100
    assert shown["groups_left_out"] > 0
    assert "limit" in shown["next"]


def test_other_count_is_shown() -> None:
    shown = seen(
        call(people(30), "aggregate", stream="messages", metric="count", group_by="from", limit=5)
    )

    assert (len(shown["groups"]), shown["other_count"]) == (5, 25)
