"""Answers that show no record and still tell something have a row that names what they told."""

import pytest
from django.test import Client

from evidence.ledger.disclosures import (
    DisclosureEntry,
    disclosures_to_clients,
    disclosures_to_owner,
    named_records,
    read_disclosures,
)
from evidence.write.blobs import put_blob
from tests.world import BANK, CHAT, NOW, PERSONAL, WORK, World

LIST = "/v1/streams/messages/records"
PAID = "/v1/streams/transactions"


def rows_of(world: World, who: str = "bob") -> list[DisclosureEntry]:
    if who == "alice":
        return list(read_disclosures(disclosures_to_owner(world.owner_id)))
    return list(read_disclosures(disclosures_to_clients(world.packages[who].client_id)))


def keys(row: DisclosureEntry) -> list[str]:
    return sorted(each.record_key for each in named_records(row.record_digests).values())


def covered(row: DisclosureEntry) -> list[tuple[str, str, tuple[str, ...]]]:
    return sorted((each.connection_id, each.stream, tuple(each.fields)) for each in row.covered)


def ask(world: World, path: str, who: str, **headers: str) -> tuple[int, dict[str, str]]:
    client = Client(headers={"Authorization": f"Bearer {world.tokens[who]}", **headers})
    response = client.get(path)
    b"".join(response) if response.streaming else None
    return response.status_code, dict(response.headers)


def test_an_unchanged_list_of_streams_is_written_down_as_the_list(world: World) -> None:
    _, headers = ask(world, "/v1/streams", "dora")
    assert ask(world, "/v1/streams", "dora", **{"If-None-Match": headers["ETag"]})[0] == 304
    rows = rows_of(world, "dora")
    assert len(rows) == 6, "one for each grant and answer"
    unchanged, first = rows[:3], rows[3:]
    assert sorted(map(covered, unchanged)) == sorted(map(covered, first))
    assert {row.size_bytes for row in unchanged} == {0}


def test_an_unchanged_blob_and_a_range_beyond_it_name_their_record(world: World) -> None:
    blob = put_blob(PERSONAL, stream="messages", record_key="m1", media_type="image/png",
                    chunks=[b"\x89PNG" + bytes(96)], now=NOW)  # fmt: skip
    world.put((PERSONAL, "messages", {"id": "m1", "blob_ref": {"blob_id": blob.blob_id}}))
    path = f"/v1/blobs/{blob.blob_id}"
    assert ask(world, path, "alice", **{"If-None-Match": "*"})[0] == 304
    assert ask(world, path, "alice", Range="bytes=500-")[0] == 416
    beyond, unchanged = rows_of(world, "alice")
    for row in (beyond, unchanged):
        assert (keys(row), covered(row)) == (["m1"], [(PERSONAL, "messages", ("blob_ref",))])
    assert unchanged.size_bytes == 0


def test_a_window_names_its_first_and_its_last_record_and_the_field(world: World) -> None:
    answer = world.get(LIST, window="exact", limit=1, fields="id")
    assert answer.ids == ["m3"]
    [row] = rows_of(world)
    assert keys(row) == ["m1", "m3"]
    assert all("received_at" in fields for _, _, fields in covered(row))
    assert {one for one, _, _ in covered(row)} == {PERSONAL, WORK}


def test_a_window_over_fewer_than_five_records_names_them_all(world: World) -> None:
    world.get(f"{PAID}/records", "charlie", window="exact", limit=1, fields="id")
    [row] = rows_of(world, "charlie")
    assert keys(row) == ["b1", "b2", "b3"]


@pytest.mark.parametrize(
    ("path", "query"), [("/v1/schema", {}), ("/v1/schema", {"view": "compact"}), (PAID, {})]
)
def test_counts_and_freshness_name_their_streams(
    world: World, path: str, query: dict[str, str]
) -> None:
    assert "record_count" in str(world.get(path, "dora", **query).body)
    found = sorted(each for row in rows_of(world, "dora") for each in covered(row))
    everything = [
        (BANK, "transactions", ()),
        (CHAT, "messages", ()),
        (PERSONAL, "messages", ()),
        (PERSONAL, "threads", ()),
        (WORK, "messages", ()),
        (WORK, "threads", ()),
    ]
    assert found == (everything[:1] if path == PAID else everything)


def test_a_schema_without_counts_names_no_stream(world: World) -> None:
    assert "record_count" not in str(world.get("/v1/schema").body)
    world.get("/v1/schema", "dora", view="index")
    assert [covered(row) for who in ("bob", "dora") for row in rows_of(world, who)] == [[], []]


@pytest.mark.parametrize(
    ("query", "code"),
    [({"field": "thread_id"}, "field_not_found"),
     ({"field": "body_text", "q": "zebra"}, "query_not_found")],
)  # fmt: skip
def test_what_a_visible_record_lacks_is_written_down(
    world: World, query: dict[str, str], code: str
) -> None:
    refused = world.get(f"{LIST}/m3/field-window", connection_id=PERSONAL, **query)
    assert (refused.status, refused.error["code"]) == (404, code)
    [row] = rows_of(world)
    assert (keys(row), covered(row)) == (["m3"], [(PERSONAL, "messages", (query["field"],))])


def test_what_is_missing_or_hidden_is_not(world: World) -> None:
    for key in ("m0", "m99"):
        world.get(f"{LIST}/{key}/field-window", connection_id=PERSONAL, field="subject")
    assert rows_of(world) == []


def test_a_search_without_a_hit_under_a_filter_names_the_field(world: World) -> None:
    answer = world.get(
        "/v1/search", "dora", q="salary", streams="transactions", filter__amount__gte=10**9
    )
    assert answer.ids == []
    [row] = rows_of(world, "dora")
    assert row.grant_id == world.grants["dora"][2].pk
    assert covered(row) == [(BANK, "transactions", ("amount",))]


@pytest.mark.parametrize("path", ["m1", "m1/field-window"])
def test_a_refusal_of_an_ambiguous_record_names_the_record_of_each_connection(
    world: World, path: str
) -> None:
    query = {"field": "subject"} if "window" in path else {}
    refused = world.get(f"{LIST}/{path}", **query)
    assert (refused.status, refused.error["code"]) == (409, "ambiguous_connection")
    [row] = rows_of(world)
    assert (row.record_count, keys(row)) == (2, ["m1", "m1"])
    assert covered(row) == [(PERSONAL, "messages", ()), (WORK, "messages", ())]


def test_a_refusal_of_an_ambiguous_blob_names_the_record_of_each_connection(world: World) -> None:
    for one in (PERSONAL, WORK):
        put_blob(one, stream="messages", record_key="m1", media_type="image/png", chunks=[b"png"],
                 blob_id="blb_1", now=NOW)  # fmt: skip
        world.put((one, "messages", {"id": "m1", "blob_ref": {"blob_id": "blb_1"}}))
    refused = world.get("/v1/blobs/blb_1", "alice")
    assert (refused.status, refused.error["code"]) == (409, "ambiguous_connection")
    [row] = rows_of(world, "alice")
    assert keys(row) == ["m1", "m1"]
    assert covered(row) == [
        (PERSONAL, "messages", ("blob_ref",)),
        (WORK, "messages", ("blob_ref",)),
    ]


def test_a_count_of_fewer_than_five_under_a_filter_names_them_all(world: World) -> None:
    answer = world.get(f"{PAID}/records", "dora", count="exact", limit=1, fields="id",
                       filter__amount__gte=-(10**9))  # fmt: skip
    total = answer.body["meta"]["count"]["value"]
    assert len(answer.ids) < total < 5
    [row] = rows_of(world, "dora")
    assert row.record_count == total
    assert covered(row) == [(BANK, "transactions", ("amount", "id"))]
