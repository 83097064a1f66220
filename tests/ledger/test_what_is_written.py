"""Every answer that shows something is on the chain of the grant that showed it, and nothing else."""

import json
from typing import Any

import pytest
from django.db import InterfaceError, OperationalError, connection

from evidence.access.scope import TokenKind
from evidence.access.tokens import create_collector
from evidence.api.base_views import GrantedView, UnrecordedAnswerError
from evidence.ledger.disclosures import (
    DisclosureEntry,
    disclosures_of_record,
    disclosures_to_clients,
    disclosures_to_owner,
    named_records,
    read_disclosures,
)
from evidence.models.grants import Collector
from evidence.models.ledger import Disclosure
from evidence.write.blobs import put_blob
from evidence.write.record_erasure import delete_record
from tests.world import BANK, CHAT, NOW, PERSONAL, WORK, World

LIST = "/v1/streams/messages/records"
PAID = "/v1/streams/transactions"


def rows_of(world: World, who: str = "bob") -> list[DisclosureEntry]:
    """What the client was shown, latest first."""
    if who == "alice":
        return list(read_disclosures(disclosures_to_owner(world.owner_id)))
    return list(read_disclosures(disclosures_to_clients(world.packages[who].client_id)))


def keys_in(row: DisclosureEntry) -> list[tuple[str, str, str]]:
    return sorted(
        (each.connection_id, each.stream, each.record_key)
        for each in named_records(row.record_digests).values()
    )


def test_a_page_of_records_names_each_of_them_and_their_fields(world: World) -> None:
    answer = world.get(LIST, limit=2, fields="subject")
    [row] = rows_of(world)
    assert [key for _, _, key in keys_in(row)] == sorted(answer.ids)
    assert row.record_count == 2
    assert row.grant_id == world.grants["bob"][0].grant_id
    assert row.route == "rest records"
    assert row.request_id == answer.headers["Request-Id"]
    assert {covered.fields for covered in row.covered} == {("id", "subject")}
    assert row.size_bytes == len(
        json.dumps(answer.body, separators=(",", ":"), ensure_ascii=False).encode()
    )


def test_a_record_that_a_budget_cut_off_is_not_counted(world: World) -> None:
    world.put(
        *((PERSONAL, "messages", {"id": f"long{n}", "received_at": "2026-09-01T00:00:00Z",
                                  "body_text": "word " * 500}) for n in range(5))
    )  # fmt: skip
    shown = world.get(LIST, max_bytes=4_000).ids
    [row] = rows_of(world)
    assert row.record_count == len(shown) < 5


@pytest.mark.parametrize(
    ("path", "query", "fields"),
    [
        (f"{LIST}/m1", {"connection_id": PERSONAL, "fields": "subject"}, ("id", "subject")),
        (f"{LIST}/m1/field-window", {"connection_id": PERSONAL, "field": "body_text"}, ("body_text",)),
        ("/v1/search", {"q": "deposit", "connection_id": PERSONAL, "limit": 1},
         ("body_text", "from_name", "received_at", "subject")),
        (LIST, {"changes_since": "beginning", "connection_id": PERSONAL, "limit": 1, "fields": "id"},
         ("id",)),
    ],
)  # fmt: skip
def test_every_way_to_a_record_is_written_down(
    world: World, path: str, query: dict[str, Any], fields: tuple[str, ...]
) -> None:
    assert world.get(path, **query).status == 200
    [row] = rows_of(world)
    assert row.record_count == 1
    [covered] = row.covered
    assert (covered.connection_id, covered.stream) == (PERSONAL, "messages")
    assert covered.fields == fields


def test_a_passage_that_is_near_in_meaning_is_written_down(embedded: World) -> None:
    hits = embedded.get("/v1/search", q="signed the lease", mode="semantic").body["data"]
    assert {hit["snippet"]["field"] for hit in hits} == {"body_text"}
    [row] = rows_of(embedded)
    assert row.record_count == len(hits)
    assert all("body_text" in covered.fields for covered in row.covered)


def test_numbers_disclose_fields_of_a_stream(world: World) -> None:
    answer = world.get(
        "/v1/streams/transactions/aggregate", "charlie", metric="count", group_by="name"
    )
    assert answer.status == 200
    [row] = rows_of(world, "charlie")
    [covered] = row.covered
    assert (covered.connection_id, covered.stream, covered.fields) == (
        BANK,
        "transactions",
        ("name",),
    )


@pytest.mark.parametrize(
    ("path", "query", "fields"),
    [
        (f"{PAID}/aggregate", {"metric": "count", "filter__amount__gte": 0}, ("amount",)),
        (f"{PAID}/records", {"fields": "id", "filter__amount__gte": 0}, ("amount", "id")),
        (f"{PAID}/records", {"filter__amount__gte": 10**9}, ("amount",)),
        ("/v1/search", {"q": "salary", "streams": "transactions", "filter__amount__gte": 0},
         ("amount", "date", "memo", "name")),
    ],
)  # fmt: skip
def test_a_filter_tells_of_its_field(
    world: World, path: str, query: dict[str, Any], fields: tuple[str, ...]
) -> None:
    """Asked often enough, it tells a value that no answer has."""
    assert world.get(path, "dora", **query).status == 200
    [row] = rows_of(world, "dora")
    assert row.grant_id == world.grants["dora"][2].pk
    assert [(each.connection_id, each.stream, each.fields) for each in row.covered] == [
        (BANK, "transactions", fields)
    ]


def test_an_empty_answer_is_recorded_for_the_queried_grant(world: World) -> None:
    world.get(LIST, "dora", connection_id=CHAT, changes_since="beginning", limit=100)
    world.get(f"{PAID}/records", "dora", filter__date__gte="2030-01-01")
    grants = [row.grant_id for row in rows_of(world, "dora")]
    assert grants == [world.grants["dora"][number].pk for number in (2, 1)]


def test_an_expanded_record_is_written_down_with_its_relations(world: World) -> None:
    query = {"connection_id": PERSONAL, "expand": "thread", "filter__subject": "Lease signed"}
    assert world.get(LIST, "dora", **query).status == 200
    [row] = rows_of(world, "dora")
    assert keys_in(row) == [(PERSONAL, "messages", "m1"), (PERSONAL, "threads", "t1")]


def test_each_grant_of_a_package_has_its_own_row(world: World) -> None:
    answer = world.get("/v1/search", "dora", q="lease OR deposit OR budget", limit=100)
    rows = rows_of(world, "dora")
    by_grant = {row.grant_id: row.record_count for row in rows}
    assert len(by_grant) == len(rows) == 3
    assert sum(by_grant.values()) == len(answer.ids)


def test_an_answer_without_a_record_counts_as_an_answer(world: World) -> None:
    assert world.get("/v1/search", q="nowhere").ids == []
    world.get("/v1/schema")
    schema, search = rows_of(world)
    assert (schema.route, schema.record_count) == ("rest schema", 0)
    assert (search.route, search.record_count) == ("rest search", 0)
    searched = [(each.connection_id, each.stream, each.fields) for each in search.covered]
    assert searched == [(PERSONAL, "messages", ()), (WORK, "messages", ())]


def test_a_refusal_discloses_nothing(world: World) -> None:
    assert world.get(LIST, fields="size_bytes").status == 403
    assert world.get(f"{LIST}/missing").status == 404
    assert rows_of(world) == []


def test_the_owner_has_a_chain_of_their_own(world: World) -> None:
    world.get(LIST, "alice", connection_id=PERSONAL, limit=3)
    [row] = rows_of(world, "alice")
    assert row.grant_id is None
    assert row.record_count == 3


def test_bytes_of_a_blob_are_written_down(world: World) -> None:
    blob = put_blob(PERSONAL, stream="messages", record_key="m1", media_type="image/png",
                    chunks=[b"\x89PNG" + bytes(96)], now=NOW)  # fmt: skip
    world.put((PERSONAL, "messages", {"id": "m1", "blob_ref": {"blob_id": blob.blob_id}}))
    answer = world.get(f"/v1/blobs/{blob.blob_id}", "alice")
    assert answer.status == 200
    [row] = rows_of(world, "alice")
    assert keys_in(row) == [(PERSONAL, "messages", "m1")]
    assert row.size_bytes == 100
    world.call("HEAD", f"/v1/blobs/{blob.blob_id}", "alice")
    assert [row.size_bytes for row in rows_of(world, "alice")] == [0, 100]


def test_one_can_ask_who_saw_a_record_until_it_is_erased(world: World) -> None:
    world.get(f"{LIST}/m1", connection_id=PERSONAL)
    world.get(f"{LIST}/w2", "dora", connection_id=WORK)
    world.get("/v1/search", "dora", q="signed", connection_id=PERSONAL)
    place = (PERSONAL, "messages", "m1")
    clients = [world.packages[who].client_id for who in ("dora", "bob")]
    assert [each.client_id for each in read_disclosures(disclosures_of_record(*place))] == clients
    [row] = rows_of(world)
    delete_record(PERSONAL, stream="messages", record_key="m1", suppress=True, now=NOW)
    assert list(read_disclosures(disclosures_of_record(*place))) == []
    assert named_records(row.record_digests) == {}
    assert rows_of(world) == [row]


def test_a_record_has_one_digest_for_all(world: World) -> None:
    for who in ("bob", "dora", "alice"):
        world.get(f"{LIST}/m1", who, connection_id=PERSONAL)
    names = {row.record_digests for who in ("bob", "dora", "alice") for row in rows_of(world, who)}
    assert len(names) == 1


def test_what_cannot_be_written_down_is_not_answered(committed: World) -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE evidence_disclosure RENAME TO evidence_disclosure_away")
    try:
        refused = committed.get(LIST)
        assert refused.status == 503
        assert refused.error["code"] == "service_unavailable"
        assert "Lease" not in json.dumps(refused.body)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE evidence_disclosure_away RENAME TO evidence_disclosure")
    assert committed.get(LIST).status == 200
    assert len(rows_of(committed)) == 1


def test_kinds_of_tokens_are_all_covered() -> None:
    """A new kind needs a chain of its own, or a grant, or shows no record."""
    assert {kind.value for kind in TokenKind} == {"owner", "client", "mcp_package", "collector"}


def test_a_collector_that_reads_its_state_is_in_the_owners_chain_without_a_record(
    world: World,
) -> None:
    world.tokens["collector"] = create_collector("Mail", [WORK], now=NOW)

    assert world.get("/v1/state/mail", "collector").status == 200

    [row] = Disclosure.unscoped.all()
    assert row.token_id == Collector.unscoped.get().pk
    assert (row.record_count, row.covered, row.client_id) == (0, "[]", "")


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (UnrecordedAnswerError("HologramView"), 500, "internal_error"),
        (KeyError("object"), 500, "internal_error"),
        (OperationalError("gone"), 503, "service_unavailable"),
        (InterfaceError("closed"), 503, "service_unavailable"),
    ],
)
def test_what_cannot_be_written_down_is_withheld_and_said_in_the_usual_form(
    world: World, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, code: str
) -> None:
    def fail(*args: object, **more: object) -> None:
        raise error

    monkeypatch.setattr("evidence.api.base_views.record_disclosure", fail)

    answer = world.get("/v1/streams/messages/records")

    assert (answer.status, answer.error["code"]) == (status, code)
    assert ("Retry-After" in answer.headers) == (status == 503)
    assert "Lease" not in str(answer.body)


def test_a_withheld_answer_is_rendered_without_running_the_request_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[str] = []
    begin = GrantedView.initialize_request

    def counted(view: GrantedView, *args: Any, **kwargs: Any) -> Any:
        request = begin(view, *args, **kwargs)
        runs.append(view.request_id)
        return request

    def fail(*args: object, **more: object) -> None:
        raise OperationalError("gone")

    monkeypatch.setattr(GrantedView, "initialize_request", counted)
    monkeypatch.setattr("evidence.api.base_views.record_disclosure", fail)

    answer = world.get(LIST)

    assert answer.status == 503
    assert runs == [answer.error["request_id"]]
    assert answer.headers["Request-Id"] == answer.error["request_id"]


def test_an_answer_is_withheld_where_no_transaction_begins(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **more: object) -> None:
        raise OperationalError("gone")

    monkeypatch.setattr("evidence.api.base_views.recorded_read", fail)

    answer = world.get(LIST)

    assert (answer.status, answer.error["code"]) == (503, "service_unavailable")
    assert answer.headers["Request-Id"] == answer.error["request_id"] != ""
