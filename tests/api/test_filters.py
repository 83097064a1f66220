"""Filters, periods and orders of lists, aggregates and searches."""

from typing import Any

import pytest

from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest
from evidence.ledger.disclosures import (
    disclosures_to_clients,
    named_records,
    read_disclosures,
)
from evidence.models.connections import Connection
from tests.world import BANK, BOBS_FIELDS, CHAT, PERSONAL, WORK, World, mail

MAIL = "/v1/streams/messages/records"
MONEY = "/v1/streams/transactions/records"
SEARCH = "/v1/search"
ONE: dict[str, Any] = {"who": "dora", "connection_id": PERSONAL}


@pytest.fixture(autouse=True)
def labeled(world: World) -> None:
    world.put((PERSONAL, "messages", mail("m5", "2026-04-01T09:00:00Z", subject="ÉCOLE trip",
        from_name="Lycée", labels=["home", "school"], size_bytes=None,
        body_text="The school trip costs 40 euros. 100% sure_thing")))  # fmt: skip


def ids(world: World, path: str = MAIL, **query: Any) -> list[str]:
    answer = world.get(path, **({"order": "asc"} if path != SEARCH else {}) | query)
    assert answer.status == 200, answer.body
    return answer.ids


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"filter__labels": "home"}, ["m1", "m5"]),
        ({"filter__labels": "school"}, ["m5"]),
        ({"filter__labels__ne": "home"}, ["m0", "m2", "m3", "m4"]),
        ({"filter__labels__contains": "SCHO"}, ["m5"]),
        ({"filter__from_name__in": ["Lycée", "Jonas Weber"]}, ["m3", "m5"]),
        ({"filter__from_name__in": ["Lycée", "Nobody, at all"]}, ["m5"]),
        ({"filter__size_bytes__in": ["10", "700"], "filter__is_seen": "true"}, ["m3"]),
        ({"filter__labels__in": ["school", "home"]}, ["m1", "m5"]),
        ({"filter__from_name__ne": "Alice"}, ["m0", "m1", "m3", "m5"]),
        ({"filter__is_seen__ne": "true"}, ["m0", "m2", "m5"]),
        ({"filter__received_at__ne": "2026-01-10T10:00:00+01:00"}, ["m0", "m2", "m3", "m5", "m4"]),
        ({"filter__subject__contains": "école"}, ["m5"]),
        ({"filter__subject__contains": "lease"}, ["m0", "m1", "m2"]),
        ({"filter__body_text__contains": "100% sure_"}, ["m5"]),
        ({"filter__body_text__contains": "100_"}, []),
        ({"filter__body_text__words": "trip cost"}, ["m5"]),
        ({"filter__body_text__words": "leas* -signed"}, ["m0"]),
        ({"filter__subject__words": "deposit"}, []),
        ({"after": "2026-01-12"}, ["m2", "m3", "m5"]),
        ({"after": "2026-01-10T09:00:00Z", "before": "2026-01-12"}, ["m1"]),
        ({"before": "2026-01-01"}, ["m0"]),
    ],
)
def test_conditions(world: World, query: dict[str, str], expected: list[str]) -> None:
    assert ids(world, **ONE, **query) == expected
    counted = world.get("/v1/streams/messages/aggregate", metric="count", **ONE, **query)
    assert counted.body["value"] == len(expected)


@pytest.mark.parametrize("languages", [["en", "de"], ["de"]])
@pytest.mark.parametrize("keys", [None, ["m2", "m5", "w1"]])
def test_words_select_records_of_several_connections(
    world: World, keys: list[str] | None, languages: list[str]
) -> None:
    Connection.unscoped.filter(pk=WORK).update(languages=languages)
    of_work = mail("w1", "2026-05-01T09:00:00Z", size_bytes=5, body_text="Kosten der Trip-Woche")
    world.put((WORK, "messages", of_work))
    messages = StreamRequest(name="messages", resources=keys)
    world.grant("erin", GrantRequest(connection_ids=[PERSONAL, WORK], streams=[messages]))
    words = {"who": "erin", "filter__body_text__words": "trip"}

    assert ids(world, **words) == ["m5", "w1"]
    assert ids(world, sort="size_bytes", **words) == ["w1", "m5"]
    counted = world.get("/v1/streams/messages/aggregate", metric="count", **words)
    assert counted.body["value"] == 2
    assert sorted(ids(world, SEARCH, q="trip", streams="messages", **words)) == ["m5", "w1"]


@pytest.mark.parametrize(
    ("query", "code", "param"),
    [
        ({"filter__size_bytes__contains": "1"}, "invalid_request", "filter[size_bytes][contains]"),
        ({"filter__thread_id__words": "t1"}, "invalid_request", "filter[thread_id][words]"),
        ({"filter__body_text__words": '"a trip"'}, "invalid_request", "filter[body_text][words]"),
        ({"filter__body_text__words": "-trip"}, "invalid_request", "filter[body_text][words]"),
        ({"filter__nonsense__ne": "1"}, "unknown_field", "filter[nonsense][ne]"),
        ({"filter__size_bytes__in": ["1", "x"]}, "invalid_request", "filter[size_bytes][in]"),
        ({"after": "yesterday"}, "invalid_request", "after"),
        ({"sort": "subject"}, "invalid_sort", "sort"),
        ({"sort": "labels"}, "invalid_sort", "sort"),
    ],
)
def test_bad_conditions_name_the_parameter(
    world: World, query: dict[str, str], code: str, param: str
) -> None:
    answer = world.get(MAIL, **ONE, **query)
    assert (answer.error["code"], answer.error["param"]) == (code, param)


@pytest.mark.parametrize(
    "query",
    [
        {"filter__size_bytes__ne": "1"}, {"filter__from_email__contains": "eva"},
        {"filter__from_email__in": ["eva@example.org", "x"]},
        {"filter__from_email__words": "eva"}, {"filter__labels": "home"}, {"sort": "size_bytes"},
    ],
)  # fmt: skip
def test_conditions_need_the_field(world: World, query: dict[str, str]) -> None:
    assert world.get(MAIL, "bob", **query).error["code"] == "field_not_granted"


def test_periods_need_the_time_field(world: World) -> None:
    fields = [name for name in BOBS_FIELDS if name != "received_at"]
    world.grant(
        "timeless",
        GrantRequest(
            connection_ids=[PERSONAL], streams=[StreamRequest(name="messages", fields=fields)]
        ),
    )
    for path, query in ((MAIL, {}), (SEARCH, {"q": "lease"})):
        refused = world.get(path, "timeless", after="2026-01-01", **query)
        assert (refused.error["code"], refused.error["param"]) == ("field_not_granted", "after")


def test_searches_are_limited_to_a_period_across_streams(world: World) -> None:
    period = {"after": "2026-02-01T07:30:00Z", "before": "2026-03-01"}
    everything = world.get(SEARCH, "dora", q="budget OR canal")
    assert len(everything.ids) == 4
    found = world.get(SEARCH, "dora", q="budget OR canal", **period)
    assert {(hit["connection_id"], hit["record_key"]) for hit in found.body["data"]} == {
        (CHAT, "c1"), (CHAT, "c2")}  # fmt: skip
    assert found.body["meta"]["count"] == 2
    moved = world.get(SEARCH, "dora", q="budget OR canal", limit=1, **period)
    refused = world.get(SEARCH, "dora", q="budget OR canal", cursor=moved.body["next_cursor"])
    assert refused.error["param"] == "cursor"


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("size_bytes", ["m0", "m4", "m2", "m3", "m1", "m5"]),
        ("-size_bytes", ["m1", "m3", "m2", "m4", "m0", "m5"]),
        ("-received_at", ["m5", "m3", "m2", "m1", "m0", "m4"]),
    ],
)
def test_lists_are_sorted_by_numbers_and_times(
    world: World, sort: str, expected: list[str]
) -> None:
    assert world.get(MAIL, **ONE, sort=sort).ids == expected
    paged, cursor = [], {}
    while len(paged) < len(expected):
        page = world.get(MAIL, **ONE, sort=sort, limit=2, **cursor)
        assert page.status == 200, page.body
        paged += page.ids
        cursor = {"cursor": page.body.get("next_cursor")}
    assert paged == expected
    assert cursor == {"cursor": None}


def test_sorting_spans_connections(world: World) -> None:
    query = {
        "who": "dora",
        "filter__is_seen": "true",
        "sort": "-size_bytes",
        "connector_id": "mail",
    }
    first = world.get(MAIL, **query, limit=1)
    rest = world.get(MAIL, **query, cursor=first.body["next_cursor"])
    found = [(r["connection_id"], r["id"]) for r in [*first.body["data"], *rest.body["data"]]]
    assert found == [(WORK, "m1"), (PERSONAL, "m1"), (PERSONAL, "m3"), (PERSONAL, "m4")]


def test_schema_names_the_sortable_fields(world: World) -> None:
    schema = world.get("/v1/schema", "dora", view="compact", stream="messages", connection_id=WORK)
    [stream] = schema.body["connectors"][0]["streams"]
    assert stream["sort"] == ["received_at", "size_bytes"]
    assert ",eq" in stream["field_capabilities"]["labels"]


def named(world: World) -> set[str]:
    row = next(iter(read_disclosures(disclosures_to_clients(world.packages["dora"].client_id))))
    return {each.record_key for each in named_records(row.record_digests).values()}


@pytest.mark.parametrize(
    ("path", "query"),
    [(MAIL, {}), ("/v1/streams/messages/aggregate", {"metric": "count"}),
     (SEARCH, {"q": "plants", "streams": "messages"})],
)  # fmt: skip
def test_a_filter_value_that_no_visible_record_has_is_named(
    world: World, path: str, query: dict[str, str]
) -> None:
    answer = world.get(path, **ONE, **query, filter__from_name="Eva L", filter__is_seen="true")
    [warning] = answer.body["meta"]["warnings"]
    assert (warning["code"], warning["param"]) == ("filter_matches_nothing", "filter[from_name]")
    assert "'Eva L'" in warning["message"]
    assert len(named(world)) == 1  # somebody's mail is seen
    both = world.get(path, **ONE, **query, filter__from_name="Lycée", filter__is_seen="true")
    assert both.body["meta"]["warnings"] == []


@pytest.mark.parametrize(
    ("path", "query"),
    [(MAIL, {}), ("/v1/streams/messages/aggregate", {"metric": "count"})],
)
def test_one_of_several_values_that_no_visible_record_has_is_named(
    world: World, path: str, query: dict[str, str]
) -> None:
    values = ["Alice", "Nobody", "Lycée"]
    answer = world.get(path, **ONE, **query, filter__from_name__in=values)
    [warning] = answer.body["meta"]["warnings"]
    assert (warning["code"], warning["param"]) == (
        "filter_matches_nothing",
        "filter[from_name][in]",
    )
    assert "'Nobody'" in warning["message"]
    present = world.get(path, **ONE, **query, filter__from_name__in=["Alice", "Lycée"])
    assert present.body["meta"]["warnings"] == []


@pytest.mark.parametrize(
    ("name", "others"), [("filter__subject", []), ("filter__subject__in", ["Lease signed"])]
)
def test_values_of_hidden_records_are_not_known(world: World, name: str, others: list[str]) -> None:
    def warnings(value: str) -> Any:
        return world.get(MAIL, "bob", **{name: [value, *others]}).body["meta"]["warnings"]

    hidden, absent = warnings("Old lease draft"), warnings("New lease draft")
    assert [each["code"] for each in hidden] == ["filter_matches_nothing"]
    assert str(hidden).replace("Old", "New") == str(absent)


def test_a_list_says_how_many_records_lie_in_the_future(world: World) -> None:
    world.put(*((PERSONAL, "messages", mail(f"f{n}", f"{2090 + n}-01-01T00:00:00Z"))
                for n in range(3)))  # fmt: skip
    page = world.get(MAIL, **ONE, limit=1)
    [warning] = page.body["meta"]["warnings"]
    assert (page.ids, warning["code"], warning["detail"]["count"]) == (
        ["f2"], "records_in_future", 3)  # fmt: skip
    assert named(world) == {"f0", "f1", "f2"}
    assert warning["message"].startswith("3 records lie in the future and come first; before=")
    present = world.get(MAIL, **ONE, limit=1, before=warning["detail"]["before"])
    assert (present.ids, present.body["meta"]["warnings"]) == (["m5"], [])
    [single] = world.get(MAIL, **ONE, limit=1, filter__id="f2").body["meta"]["warnings"]
    assert single["message"].startswith("1 record lies in the future and comes first; before=")
    assert world.get(MAIL, **ONE, order="asc").body["meta"]["warnings"] == []


def test_filters_of_several_sources_list_the_connections(world: World) -> None:
    answer = world.get(SEARCH, "dora", q="budget", streams="messages", filter__is_seen="true")
    assert (answer.status, answer.error["code"]) == (409, "ambiguous_connection")
    listed = {each["connection_id"] for each in answer.error["available_connections"]}
    assert listed == {PERSONAL, WORK, CHAT}
    assert world.get(MONEY, "dora", filter__currency__ne="EUR", connection_id=BANK).ids == []
