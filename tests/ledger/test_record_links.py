"""Verification detects changed links of digests to records, and nobody can confirm an erased record."""

import hashlib
import hmac
from collections.abc import Iterator
from datetime import datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone
from time_machine import Traveller

from evidence.access.crypto import ROTATION_GROUPS, keys_for
from evidence.ledger.checkpoints import sign_entries
from evidence.ledger.verification import export_lines, verify
from evidence.models.ledger import DisclosedRecord, Disclosure
from evidence.write.record_erasure import delete_record
from tests.ledger.test_whole_or_not import tamper
from tests.owners import OWNER_ID
from tests.world import NOW, PERSONAL, World

LIST = "/v1/streams/messages/records"
CHANGED = "A digest in this row links to a different record than the one disclosed."
UNUSED = "No row names the digests of 1 records: they were changed or added."
ROW_CHANGED = "The content of this row was changed."


@pytest.fixture
def read(world: World) -> World:
    """Return a world in which two records were read twice, and others once."""
    assert world.get(LIST, connection_id=PERSONAL, limit=2).status == 200
    assert world.get(LIST).status == 200
    sign_entries(world.owner_id, now=timezone.now())
    return world


def messages(world: World) -> list[str]:
    return [problem.message for problem in verify(world.owner_id).problems]


def links() -> list[DisclosedRecord]:
    return list(DisclosedRecord.unscoped.filter(connection_id=PERSONAL).order_by("record_key"))


@pytest.mark.parametrize(
    "change",
    [{"record_key": "other"}, {"stream": "threads"}, {"connection_id": "cin_other"},
     {"nonce": bytes(16)}],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_a_changed_link_is_a_fault_of_the_row_that_disclosed_the_record(
    read: World, change: dict[str, object]
) -> None:
    first = Disclosure.unscoped.order_by("seq").first()
    assert first is not None
    rows = DisclosedRecord.unscoped.filter(digest=first.record_digests[0])
    link = rows.values().get()
    rows.delete()
    DisclosedRecord.unscoped.create(**link | change)
    [problem] = verify(read.owner_id).problems
    assert (problem.chain, problem.seq, problem.message) == (first.chain, 1, CHANGED)


def test_a_link_that_no_row_names_is_a_fault(read: World) -> None:
    one = links()[0]
    key = (one.connection_id, one.stream, one.record_key)
    rows = DisclosedRecord.unscoped.filter(digest=one.digest)
    rows.update(nonce=bytes(16), digest=digest_of(bytes(16), *key))
    assert messages(read) == [UNUSED]


def test_two_swapped_links_are_a_fault(read: World) -> None:
    one, two, *_ = links()
    swap = "UPDATE evidence_disclosedrecord SET digest = %s WHERE record_key = %s AND connection_id = %s"
    for mine, other in ((one, two), (two, one)):
        tamper(swap, other.digest, mine.record_key, PERSONAL)
    assert messages(read) == [CHANGED, CHANGED]


def test_a_second_record_under_a_digest_is_a_fault(read: World) -> None:
    one = links()[0]
    tamper("INSERT INTO evidence_disclosedrecord (owner_id, connection_id, stream, record_key, digest, nonce)"
           " VALUES (%s, %s, 'messages', 'other', %s, %s)", OWNER_ID, PERSONAL, one.digest, one.nonce)  # fmt: skip
    assert messages(read) == [CHANGED]


@pytest.mark.parametrize(
    "digests",
    ["'{}'", "trim_array(record_digests, 1)", "ARRAY[record_digests[2], record_digests[1]]"],
)
def test_removed_or_exchanged_digests_are_a_fault(read: World, digests: str) -> None:
    tamper(f"UPDATE evidence_disclosure SET record_digests = {digests} WHERE seq = 1")  # noqa: S608 - from above
    assert messages(read) == [ROW_CHANGED]


def test_an_erased_record_leaves_the_ledger_whole(read: World) -> None:
    one = links()[0]
    delete_record(PERSONAL, stream="messages", record_key=one.record_key, suppress=True, now=NOW)
    assert messages(read) == []


def test_a_link_added_for_an_erased_record_is_a_fault(read: World) -> None:
    one = links()[0]
    delete_record(PERSONAL, stream="messages", record_key=one.record_key, suppress=True, now=NOW)
    tamper("INSERT INTO evidence_disclosedrecord (owner_id, connection_id, stream, record_key, digest, nonce)"
           " VALUES (%s, %s, 'messages', %s, %s, %s)", OWNER_ID, PERSONAL, one.record_key, one.digest, bytes(16))  # fmt: skip
    assert messages(read) == [CHANGED]


def columns_with(value: bytes) -> Iterator[str]:
    """Yield the columns of the database that contain these bytes, as text or in hex."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT table_name, column_name FROM information_schema.columns"
                       " WHERE table_schema = 'public'")  # fmt: skip
        for table, column in cursor.fetchall():
            cursor.execute(
                f'SELECT count(*) FROM "{table}" WHERE replace("{column}"::text, \'-\', \'\')'  # noqa: S608 - the catalog's
                " LIKE %s", [f"%{value.hex()}%"]
            )  # fmt: skip
            if cursor.fetchone()[0]:
                yield f"{table}.{column}"


def test_a_guess_cannot_be_confirmed_after_an_erasure_even_with_the_keys_of_the_server(
    read: World,
) -> None:
    one = links()[0]
    key = (PERSONAL, "messages", one.record_key)
    row = Disclosure.unscoped.filter(record_digests__contains=[one.digest])[0]
    digest, nonce = bytes(one.digest), bytes(one.nonce)
    assert list(columns_with(nonce)) == ["evidence_disclosedrecord.nonce"]
    assert digest_of(nonce, *key) == digest

    delete_record(PERSONAL, stream="messages", record_key=one.record_key, suppress=True, now=NOW)

    assert list(columns_with(nonce)) == []
    known = [b"", bytes(16), digest, bytes(row.seal), bytes(row.digest or b"")]
    for purpose in ("ledger", *ROTATION_GROUPS):
        known += keys_for(purpose)
    assert digest not in {digest_of(nonce, *key) for nonce in known}


def test_a_record_that_comes_again_has_another_digest(read: World) -> None:
    one = links()[0]
    before = {bytes(digest) for row in Disclosure.unscoped.all() for digest in row.record_digests}
    delete_record(PERSONAL, stream="messages", record_key=one.record_key, suppress=False, now=NOW)
    read.put((PERSONAL, "messages", {"id": one.record_key, "received_at": "2026-09-01T00:00:00Z"}))
    assert read.get(f"{LIST}/{one.record_key}", connection_id=PERSONAL).status == 200
    last = Disclosure.unscoped.order_by("seq").last()
    assert last is not None
    assert len(last.record_digests) == 1
    assert bytes(last.record_digests[0]) not in before
    assert messages(read) == []


def digest_of(nonce: bytes, *key: str) -> bytes:
    message = b"".join(b"%d:%s" % (len(part.encode()), part.encode()) for part in key)
    return hmac.digest(nonce, message, hashlib.sha256)[:16]


def hash_of(line: dict[str, Any], previous: bytes) -> bytes:
    """Return the hash of an exported row, as the header of the export describes it."""
    time = datetime.fromisoformat(line["at"]).timestamp()
    counted = "" if line["counted"] is None else line["counted"]
    parts = [previous, line["seq"], OWNER_ID, line["entry_id"], line["chain"]]
    parts.append(round(time * 1_000_000))
    parts += [line[name] for name in ("client_id", "token_id", "request_id", "route", "covered",
                                      "record_count")]  # fmt: skip
    parts += [counted, line["size_bytes"]]
    parts += ["record digests", *map(bytes.fromhex, line["record_digests"])]
    parts.append(bytes.fromhex(line["seal"]))
    digest = hashlib.sha256()
    for part in parts:
        encoded = part if isinstance(part, bytes) else str(part).encode()
        digest.update(b"%d:%s" % (len(encoded), encoded))
    return digest.digest()


def test_an_export_verifies_elsewhere_and_has_no_nonce(world: World) -> None:
    world.get(LIST)
    world.get("/v1/streams/messages/aggregate", metric="count")
    sign_entries(world.owner_id, now=NOW)
    lines = list(export_lines(world.owner_id))
    previous = bytes(32)
    rows = [line for line in lines if line["object"] == "disclosure"]
    assert len(rows) == 2
    for row in rows:
        assert hash_of(row, previous).hex() == row["digest"]
        previous = bytes.fromhex(row["digest"])
    assert not [link for link in links() if bytes(link.nonce).hex() in str(lines)]


@pytest.fixture
def clock(time_machine: Traveller) -> Traveller:
    time_machine.move_to(NOW, tick=False)
    return time_machine


def test_rows_that_nobody_signed_for_two_minutes_are_a_fault(
    world: World, clock: Traveller
) -> None:
    world.get(LIST)
    clock.shift(timedelta(minutes=2))
    out, err = StringIO(), StringIO()
    call_command("ledger", "verify", owner=OWNER_ID, stdout=out)
    assert out.getvalue() == (
        "The ledger is whole: 1 rows in 1 chains, 0 checkpoints, 1 rows not signed yet.\n"
    )
    clock.shift(timedelta(seconds=1))
    with pytest.raises(CommandError, match="not whole"):
        call_command("ledger", "verify", owner=OWNER_ID, stderr=err)
    assert err.getvalue() == (
        "1 rows are older than two minutes and not signed: background jobs do not run. Start the"
        " server, or run manage.py ledger checkpoint.\n"
    )
    call_command("ledger", "checkpoint", owner=OWNER_ID, stdout=StringIO())
    assert messages(world) == []
