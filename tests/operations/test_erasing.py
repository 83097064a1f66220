"""Erased data is in no table, and receipts contain none of it."""

import json
import re
from collections.abc import Iterator
from io import StringIO
from itertools import zip_longest
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from evidence.erasure import apply_retention, run_erasure, run_pending_erasures
from evidence.ledger.verification import verify
from evidence.models.connections import Connection, Erasure
from evidence.models.events import Event, Subscription, WatchedStream
from evidence.models.grants import Package
from evidence.models.ledger import Disclosure
from evidence.models.owners import Owner
from evidence.write import vectors
from evidence.write.blobs import put_blob
from evidence.write.connections import put_state
from evidence.write.erasure_orders import ErasureScope, create_erasure
from evidence.write.retention import set_retention
from importers.models import ImportReceipt, ImportRun
from importers.runs import uploads
from tests.owners import sign_up
from tests.world import BANK, CHAT, NOW, PERSONAL, WORK, World, mail
from tests.write import stored

MARK = "zqvxmark"
KEY = f"{MARK}-key"
LIST = "/v1/streams/messages/records"


@pytest.fixture
def marked(world: World, settings: Any, tmp_path: Any) -> World:
    """Store a record with MARK in all its fields, now and before."""
    settings.PDPP_VAR = tmp_path
    data = mail(KEY, "2026-02-02T08:00:00Z", subject=f"{MARK} one", body_text=f"{MARK} in a text",
                thread_id=f"{MARK}-thread", from_name=MARK, labels=[MARK])  # fmt: skip
    world.put((PERSONAL, "messages", {**data, "subject": f"{MARK} before", f"{MARK}_field": MARK}))
    world.put((PERSONAL, "messages", data | {f"{MARK}_other": 1}))
    world.embed()
    put_blob(PERSONAL, stream="messages", record_key=KEY, media_type="text/plain",
             chunks=[MARK.encode() * 9], now=NOW)  # fmt: skip
    put_state(PERSONAL, state={"messages": {"last": KEY}}, owner_id=world.owner_id, now=NOW)
    run = ImportRun.unscoped.create(run_id="imp_1", owner_id=world.owner_id, kind="mail",
        connection_id=PERSONAL, label="mail.mbox", fingerprint="f", started_at=NOW, updated_at=NOW,
        status="finished")  # fmt: skip
    ImportReceipt.unscoped.create(connection_id=PERSONAL, run=run, item=1, file="mail.mbox",
        place="mail 1", code="bad_date", detail=f"{MARK} o'clock")  # fmt: skip
    return world


COLUMNS = """
SELECT c.table_name, array_agg(c.column_name::text) FROM information_schema.columns c
JOIN information_schema.tables t USING (table_schema, table_name)
WHERE t.table_type = 'BASE TABLE' AND c.table_schema = current_schema() GROUP BY c.table_name
"""


def places_of(mark: str) -> list[str]:
    """Return every table and column that contains the marker."""
    wanted = {"wanted": [f"%{mark}%", f"%{mark.encode().hex()}%"]}
    with connection.cursor() as cursor:
        cursor.execute(COLUMNS)
        columns: dict[str, list[str]] = dict(cursor.fetchall())
        found = []
        for table, names in columns.items():
            whole = ", ".join(f'"{name}"::text' for name in names)
            where = f"concat_ws(' ', {whole}) ILIKE ANY(%(wanted)s)"
            cursor.execute(f'SELECT count(*) FROM "{table}" WHERE {where}', wanted)  # noqa: S608
            if not cursor.fetchone()[0]:
                continue
            matches = ", ".join(f'bool_or("{name}"::text ILIKE ANY(%(wanted)s))' for name in names)
            cursor.execute(f'SELECT {matches} FROM "{table}"', wanted)  # noqa: S608
            matched = zip(names, cursor.fetchone() or (), strict=True)
            found += [f"{table}.{name}" for name, is_marked in matched if is_marked]
    return sorted(found)


def run(*arguments: str) -> str:
    said = StringIO()
    call_command("erase", *arguments, stdout=said, stderr=said)
    return said.getvalue()


def test_marker_is_in_every_table_with_traces(marked: World) -> None:
    marked.get(f"{LIST}/{KEY}", "dora", connection_id=PERSONAL)
    tables = {re.sub(r"_p\d+$", "", place.partition(".")[0]) for place in places_of(MARK)}
    expected = {
        "evidence_record", "evidence_recordchange", "evidence_searchtext", "evidence_blob",
        "evidence_blobchunk", "importers_importreceipt", "evidence_collectorstate",
    }  # fmt: skip
    assert tables >= expected | ({"evidence_passage"} if vectors.exists() else set())


def test_undisclosed_record_leaves_no_trace(marked: World) -> None:
    said = run("record", PERSONAL, "messages", KEY, "--yes")
    assert places_of(MARK) == []
    assert "1 record, 1 file, 1 search text" in said
    assert MARK not in said
    assert stored.counts() == stored.true_counts()
    again = marked.put((PERSONAL, "messages", mail(KEY, None)))
    assert again.created == 0
    assert stored.record(PERSONAL, "m1") is not None


def test_disclosed_record_leaves_a_tombstone(marked: World) -> None:
    since = marked.get(LIST, "dora", changes_since="beginning", connection_id=PERSONAL).body
    run("record", PERSONAL, "messages", KEY, "--yes")
    assert {place.rpartition(".")[2] for place in places_of(MARK)} == {"record_key"}
    told = marked.get(
        LIST, "dora", changes_since=since["next_changes_since"], connection_id=PERSONAL
    )
    assert [(each["id"], each["deleted"]) for each in told.body["data"]] == [(KEY, True)]
    assert [place for place in places_of(MARK) if "disclosedrecord" in place] == []


def test_no_key_stays_without_tombstones(marked: World) -> None:
    marked.get(f"{LIST}/{KEY}", "dora", connection_id=PERSONAL)
    run("record", PERSONAL, "messages", KEY, "--yes", "--no-tombstones")
    assert places_of(MARK) == []
    assert verify(marked.owner_id).problems == []


def test_erased_stream_leaves_no_trace(marked: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evidence.write.erasure_orders.BATCH_SIZE", 2)
    marked.get(f"{LIST}/{KEY}", "dora", connection_id=PERSONAL)
    said = run("stream", PERSONAL, "messages", "--yes", "--no-tombstones")
    assert places_of(MARK) == []
    assert "6 records" in said
    assert stored.record(PERSONAL, "t1", "threads") is not None
    assert stored.record(WORK, "m1") is not None
    assert verify(marked.owner_id).problems == []


def test_erased_stream_includes_deleted_records(marked: World) -> None:
    marked.send([{"op": "delete", "connection_id": PERSONAL, "stream": "messages", "key": KEY,
                  "emitted_at": "2026-10-02T00:00:00Z"}])  # fmt: skip
    assert places_of(MARK)
    run("stream", PERSONAL, "messages", "--yes", "--no-tombstones")
    assert places_of(MARK) == []


def test_erased_connection_removes_exports_and_ends_its_grants(marked: World) -> None:
    upload = uploads.create_upload(
        uploads.root_of(settings.PDPP_VAR / "imports", marked.owner_id), name="x", size=1
    )
    upload.save(runs=["imp_1"], phase="wanted")
    dora, bob = (marked.get(LIST, who, connection_id=PERSONAL) for who in ("dora", "bob"))
    assert dora.status == bob.status == 200
    followed(marked.packages["dora"])
    said = run("connection", PERSONAL, "--yes")
    assert places_of(MARK) == []
    assert not upload.folder.exists()
    assert places_of(PERSONAL) == [
        "evidence_disclosure.covered", "evidence_erasure.connection_id", "evidence_grant.streams",
    ]  # fmt: skip
    assert "7 records" in said
    assert marked.get(LIST, "dora", connection_id=WORK).status == 200
    run("connection", BANK, "--yes")
    assert marked.get("/v1/schema", "charlie").error["code"] == "grant_revoked"
    assert verify(marked.owner_id).problems == []


def followed(package: Package) -> None:
    """Subscribe a client to changes of PERSONAL."""
    subscription = Subscription.unscoped.create(subscription_id="sub_1", package=package,
        callback_url="https://example.org/", secret=b"", created_at=NOW, updated_at=NOW)  # fmt: skip
    where = {"subscription": subscription, "stream": "messages", "connection_id": PERSONAL}
    WatchedStream.unscoped.create(**where, standing={}, seen_seq=0)
    Event.unscoped.create(**where, event_id="evt_1", type="pdpp.records.changed", created_at=NOW,
                          due_at=NOW)  # fmt: skip


def test_erasing_everything_keeps_ledger_and_receipts(marked: World) -> None:
    sign_up(MARK)
    Owner.unscoped.update(display_name=MARK)
    for who in ("alice", "bob", "dora"):
        marked.get(LIST, who, connection_id=PERSONAL)
    followed(marked.packages["dora"])
    rows = verify(marked.owner_id).rows
    said = run("owner", "--yes")
    # She was shown a field whose very name was the record's own word; the ledger keeps names.
    assert places_of(MARK) == ["evidence_disclosure.covered"]
    assert f'"{MARK}_other"' in Disclosure.unscoped.get(client_id="").covered
    verdict = verify(marked.owner_id)
    assert (verdict.rows, verdict.problems) == (rows, [])
    assert "4 connections" in said
    assert marked.get(LIST, "alice").status == marked.get(LIST, "dora").status == 401
    assert not Connection.unscoped.exists()
    assert not User.objects.exists()
    kept = {"evidence_erasure", "evidence_owner", "evidence_disclosure"}
    assert tables_with_rows() == kept


def tables_with_rows() -> set[str]:
    found = set()
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names():
            cursor.execute(f'SELECT EXISTS (SELECT 1 FROM "{table}")')  # noqa: S608 - our tables
            if table.startswith("evidence_") and cursor.fetchone()[0]:
                found.add(table)
    return found


def test_dry_run_erases_nothing(marked: World) -> None:
    before = places_of(MARK)
    said = run("connection", PERSONAL, "--dry-run")
    assert "To be erased: 7 records, 1 file" in said
    assert "The ledger of disclosures stays" in said
    assert places_of(MARK) == before
    assert not Erasure.unscoped.exists()


@pytest.mark.parametrize("what", [("owner",), ("connection", PERSONAL)])
def test_erasure_needs_confirmation(marked: World, what: tuple[str, ...]) -> None:
    with pytest.raises(CommandError, match="pass --yes"):
        run(*what)
    with pytest.raises(CommandError, match="No connection has this id"):
        run("connection", "cin_nowhere", "--yes")
    assert Connection.unscoped.count() == 4


@pytest.mark.parametrize("of", [ErasureScope.STREAM, ErasureScope.CONNECTION, ErasureScope.OWNER])
def test_interrupted_erasure_is_completed_and_counted_once(
    marked: World, monkeypatch: pytest.MonkeyPatch, of: ErasureScope
) -> None:
    monkeypatch.setattr("evidence.write.erasure_orders.BATCH_SIZE", 1)
    monkeypatch.setattr("evidence.write.record_erasure.DELETE_BATCH_SIZE", 2)
    held = (
        sum(stored.true_counts().values())
        if of == ErasureScope.OWNER
        else 7 - (of == ErasureScope.STREAM)
    )
    where = {"connection_id": "" if of == ErasureScope.OWNER else PERSONAL,
             "stream": "messages" if of == ErasureScope.STREAM else ""}  # fmt: skip
    made = create_erasure(of, owner_id=marked.owner_id, by="a test", now=NOW, **where)
    for steps in (1, 3):
        for _, so_far in zip(range(steps), cut_short(made), strict=False):
            assert so_far.finished_at is None
    again = create_erasure(of, owner_id=marked.owner_id, by="somebody else", now=NOW, **where)
    assert again.erasure_id == made.erasure_id
    *_, done = run_pending_erasures(now=NOW)
    assert done.removed["records"] == held
    assert done.finished_at == NOW
    assert list(run_pending_erasures(now=NOW)) == []
    assert json.dumps(done.removed).count(MARK) == 0


def test_concurrent_runs_count_rows_once(marked: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evidence.write.erasure_orders.BATCH_SIZE", 1)
    made = create_erasure(ErasureScope.STREAM, owner_id=marked.owner_id, by="a test", now=NOW,
                 connection_id=PERSONAL, stream="messages")  # fmt: skip
    seen = [each.removed["records"] for pair in zip_longest(run_erasure(made, now=NOW), run_erasure(made, now=NOW))
            for each in pair if each is not None]  # fmt: skip
    assert seen[:6] == [1, 2, 3, 4, 5, 6]
    assert set(seen[6:]) == {6}
    assert places_of(MARK) == []


def cut_short(made: Erasure) -> Iterator[Erasure]:
    yield from run_erasure(made, now=NOW)


def test_records_past_retention_are_erased(marked: World) -> None:
    now = timezone.now()
    days = (now - timezone.datetime(2026, 2, 1, 12, tzinfo=NOW.tzinfo)).days
    said = StringIO()
    call_command("keep", WORK, "--stream", "messages", "--days", str(days), stdout=said)
    assert said.getvalue() == f"{WORK}: messages {days} days\n"
    *_, done = apply_retention(now=now)
    assert (done.by, done.removed["records"]) == ("retention", 1)
    assert stored.record(WORK, "m1") is None
    assert stored.record(WORK, "w2") is not None
    assert list(apply_retention(now=now)) == []
    assert marked.put((WORK, "messages", mail("m1", "2026-02-01T07:00:00Z"))).created == 0


def test_stream_retention_overrides_connection_retention(world: World) -> None:
    now = timezone.now()
    set_retention(PERSONAL, days=1, now=now)
    set_retention(PERSONAL, days=36_500, stream="messages", now=now)
    assert {erasure.stream for erasure in apply_retention(now=now)} == {"threads"}
    set_retention(PERSONAL, days=None, stream="messages", now=now)
    assert {erasure.stream for erasure in apply_retention(now=now)} == {"messages"}
    assert not stored.true_counts().keys() & {(PERSONAL, "messages"), (PERSONAL, "threads")}
    assert stored.record(CHAT, "c1") is not None
