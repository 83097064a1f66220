"""``DELETE`` of records by the owner."""

from collections.abc import Mapping
from urllib.parse import quote

import pytest

from evidence.write.erasure_orders import list_receipts
from evidence.write.ndjson import ReceiptCode
from tests.world import CHAT, PERSONAL, WORK, World, mail

LIST = "/v1/streams/messages/records"
M1 = mail("m1", "2026-01-10T09:00:00Z", subject="Lease signed")


def test_one_record_is_gone_and_only_that_one(world: World) -> None:
    answer = world.call("DELETE", f"{LIST}/m1", "alice", connection_id=PERSONAL)
    assert (answer.status, answer.body) == (204, b"")
    assert world.get(f"{LIST}/m1", "alice", connection_id=PERSONAL).status == 404
    assert world.get(f"{LIST}/m1", "alice", connection_id=WORK).status == 200
    assert world.get(LIST, "alice", connection_id=PERSONAL).ids == ["m3", "m2", "m0", "m4"]


def test_a_deleted_record_stays_deleted_when_it_is_imported_again(world: World) -> None:
    world.call("DELETE", f"{LIST}/m1", "alice", connection_id=PERSONAL)
    outcome = world.put((PERSONAL, "messages", M1))
    assert outcome.by_code == {ReceiptCode.SUPPRESSED: 1}
    assert world.get(f"{LIST}/m1", "alice", connection_id=PERSONAL).status == 404


def test_it_may_come_back_where_the_owner_says_so(world: World) -> None:
    world.call("DELETE", f"{LIST}/m1", "alice", connection_id=PERSONAL, suppress="false")
    assert world.put((PERSONAL, "messages", M1)).created == 1


def test_a_whole_stream_of_one_connection_is_gone_and_stays_gone(world: World) -> None:
    answer = world.call("DELETE", LIST, "alice", connection_id=PERSONAL)
    assert (answer.status, answer.body) == (204, b"")
    assert world.get(LIST, "alice", connection_id=PERSONAL).ids == []
    assert world.get("/v1/streams/threads/records", "alice", connection_id=PERSONAL).ids == ["t1"]
    assert world.get(LIST, "alice", connection_id=WORK).ids == ["w2", "m1"]
    new = mail("n1", "2026-05-01T00:00:00Z")
    outcome = world.put((PERSONAL, "messages", M1), (PERSONAL, "messages", new))
    assert (outcome.created, outcome.by_code) == (1, {ReceiptCode.SUPPRESSED: 1})


def test_a_whole_stream_may_come_back_where_the_owner_says_so(world: World) -> None:
    world.call("DELETE", LIST, "alice", connection_id=PERSONAL, suppress="false")
    assert world.get(LIST, "alice", connection_id=PERSONAL).ids == []
    assert world.put((PERSONAL, "messages", M1)).created == 1


def test_an_id_that_cannot_be_is_not_found(world: World) -> None:
    answer = world.call("DELETE", f"{LIST}/%00", "alice", connection_id=PERSONAL)
    assert (answer.status, answer.error["code"]) == (404, "not_found")


def test_the_changes_feed_tells_of_it(world: World) -> None:
    since = world.get(LIST, changes_since="beginning").body["next_changes_since"]
    world.call("DELETE", f"{LIST}/m1", "alice", connection_id=PERSONAL)
    world.call("DELETE", LIST, "alice", connection_id=WORK)
    rows = world.get(LIST, changes_since=since).body["data"]
    assert [(row["connection_id"], row["id"], row["deleted"]) for row in rows] == [
        (PERSONAL, "m1", True), (WORK, "m1", True), (WORK, "w2", True),
    ]  # fmt: skip


def test_the_only_connection_of_a_connector_need_not_be_named(world: World) -> None:
    answer = world.call("DELETE", f"{LIST}/c1", "alice", connector_id="workspace")
    assert answer.status == 204
    assert world.get(LIST, "alice", connection_id=CHAT).ids == ["c2"]


def test_a_key_may_contain_a_slash(world: World) -> None:
    world.put((PERSONAL, "messages", mail("a/b", None)))
    path = f"{LIST}/{quote('a/b', safe='')}"
    assert world.get(path, "alice", connection_id=PERSONAL).status == 200
    assert world.call("DELETE", path, "alice", connection_id=PERSONAL).status == 204
    assert world.get(path, "alice", connection_id=PERSONAL).status == 404


def test_deleting_what_is_not_there_is_no_error(world: World) -> None:
    for _ in range(2):
        answer = world.call("DELETE", f"{LIST}/m1", "alice", connection_id=PERSONAL)
        assert answer.status == 204


@pytest.mark.parametrize("who", ["bob", "dora"])
def test_nobody_but_the_owner_deletes(world: World, who: str) -> None:
    for path in (LIST, f"{LIST}/m1"):
        answer = world.call("DELETE", path, who, connection_id=PERSONAL)
        assert (answer.status, answer.error["code"]) == (403, "permission_error")
    assert world.get(f"{LIST}/m1", "alice", connection_id=PERSONAL).status == 200


@pytest.mark.parametrize(
    ("path", "query", "status", "param"),
    [
        (LIST, {}, 400, "connector_id"),
        (LIST, {"connector_id": "mail"}, 409, "connection_id"),
        (LIST, {"connector_id": "nothing"}, 404, "connector_id"),
        (LIST, {"connection_id": "cin_nothing"}, 404, "connection_id"),
        ("/v1/streams/nothing/records", {"connection_id": PERSONAL}, 404, "stream"),
        (LIST, {"connection_id": PERSONAL, "limit": "1"}, 400, "limit"),
        (LIST, {"connection_id": PERSONAL, "suppress": "maybe"}, 400, "suppress"),
    ],
)
def test_what_is_not_clear_deletes_nothing(
    world: World, path: str, query: Mapping[str, str], status: int, param: str
) -> None:
    for target in (path, f"{path}/m1"):
        answer = world.call("DELETE", target, "alice", **query)
        assert (answer.status, answer.error["param"]) == (status, param)
    assert len(world.get(LIST, "alice", connection_id=PERSONAL).ids) == 5


def test_a_deletion_has_a_receipt_that_does_not_say_what_it_was(world: World) -> None:
    path = "/v1/streams/messages/records"
    assert world.call("DELETE", f"{path}/m1", "alice", connection_id=PERSONAL).status == 204
    assert world.call("DELETE", path, "alice", connection_id=WORK).status == 204
    stream, record = list_receipts(world.owner_id, most=9)
    assert (record.of, record.removed["records"]) == ("record", 1)
    assert (stream.of, stream.removed["records"]) == ("stream", 2)
    assert {each.by for each in (stream, record)} == {"a program with an owner token"}
