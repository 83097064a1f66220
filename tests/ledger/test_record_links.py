"""Verification detects changed links of pseudonyms, and nobody can confirm an erased record."""

import hashlib
import hmac
from collections.abc import Iterator
from datetime import datetime, timedelta
from io import StringIO
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from time_machine import Traveller

from evidence.access.crypto import ROTATION_GROUPS, keys_for
from evidence.ledger.checkpoints import create_checkpoint
from evidence.ledger.verification import export_lines, verify
from evidence.models.ledger import Disclosure, Pseudonym
from evidence.write.record_erasure import delete_record
from tests.ledger.test_whole_or_not import tamper
from tests.owners import OWNER_ID
from tests.world import NOW, PERSONAL, World

LIST = "/v1/streams/messages/records"
CHANGED = "A pseudonym in this row links to a different record than the one disclosed."
UNUSED = "No row names 1 pseudonyms of records: they were changed or added."
ROW_CHANGED = "The content of this row was changed."


@pytest.fixture
def read(world: World) -> World:
    """Return a world in which two records were read twice, and others once."""
    assert world.get(LIST, connection_id=PERSONAL, limit=2).status == 200
    assert world.get(LIST).status == 200
    return world


def messages(world: World) -> list[str]:
    return [problem.message for problem in verify(world.owner_id).problems]


def pseudonyms() -> list[Pseudonym]:
    return list(Pseudonym.unscoped.filter(connection_id=PERSONAL).order_by("record_key"))


@pytest.mark.parametrize(
    "change",
    [{"record_key": "other"}, {"stream": "threads"}, {"connection_id": "cin_other"},
     {"nonce": uuid4()}],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_a_changed_link_is_a_fault_of_the_row_that_disclosed_the_record(
    read: World, change: dict[str, object]
) -> None:
    first = Disclosure.unscoped.order_by("seq").first()
    assert first is not None
    links = Pseudonym.unscoped.filter(pseudonym=first.pseudonyms[0])
    link = links.values().get()
    links.delete()
    Pseudonym.unscoped.create(**link | change)
    [problem] = verify(read.owner_id).problems
    assert (problem.chain, problem.seq, problem.message) == (first.chain, 1, CHANGED)


def test_a_pseudonym_that_no_row_names_is_a_fault(read: World) -> None:
    one = pseudonyms()[0]
    Pseudonym.unscoped.filter(pseudonym=one.pseudonym).update(pseudonym=uuid4())
    assert messages(read) == [UNUSED]


def test_two_swapped_links_are_a_fault(read: World) -> None:
    one, two, *_ = pseudonyms()
    swap = (
        "UPDATE evidence_pseudonym SET pseudonym = %s WHERE record_key = %s AND connection_id = %s"
    )
    for mine, other in ((one, two), (two, one)):
        tamper(swap, other.pseudonym, mine.record_key, PERSONAL)
    assert messages(read) == [CHANGED]


def test_a_second_record_under_a_pseudonym_is_a_fault(read: World) -> None:
    one = pseudonyms()[0]
    tamper("INSERT INTO evidence_pseudonym (owner_id, connection_id, stream, record_key, pseudonym, nonce)"
           " VALUES (%s, %s, 'messages', 'other', %s, %s)", OWNER_ID, PERSONAL, one.pseudonym, one.nonce)  # fmt: skip
    assert messages(read) == [CHANGED]


@pytest.mark.parametrize(
    "digests",
    ["'{}'", "trim_array(record_digests, 1)", "ARRAY[record_digests[2], record_digests[1]]"],
)
def test_removed_or_exchanged_digests_are_a_fault(read: World, digests: str) -> None:
    tamper(f"UPDATE evidence_disclosure SET record_digests = {digests} WHERE seq = 1")  # noqa: S608 - from above
    assert messages(read) == [ROW_CHANGED]


def test_an_erased_record_leaves_the_ledger_whole(read: World) -> None:
    one = pseudonyms()[0]
    delete_record(PERSONAL, stream="messages", record_key=one.record_key, suppress=True, now=NOW)
    assert messages(read) == []


def test_a_link_added_for_an_erased_record_is_a_fault(read: World) -> None:
    one = pseudonyms()[0]
    delete_record(PERSONAL, stream="messages", record_key=one.record_key, suppress=True, now=NOW)
    tamper("INSERT INTO evidence_pseudonym (owner_id, connection_id, stream, record_key, pseudonym)"
           " VALUES (%s, %s, 'messages', %s, %s)", OWNER_ID, PERSONAL, one.record_key, one.pseudonym)  # fmt: skip
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
    one = pseudonyms()[0]
    key = (PERSONAL, "messages", one.record_key)
    row = Disclosure.unscoped.filter(pseudonyms__contains=[one.pseudonym])[0]
    digest = bytes(row.record_digests[row.pseudonyms.index(one.pseudonym)])
    assert list(columns_with(one.nonce.bytes)) == ["evidence_pseudonym.nonce"]
    assert digest_of(one.nonce.bytes, *key) == digest

    delete_record(PERSONAL, stream="messages", record_key=one.record_key, suppress=True, now=NOW)

    assert list(columns_with(one.nonce.bytes)) == []
    known = [b"", bytes(16), one.pseudonym.bytes, bytes(row.previous), bytes(row.digest)]
    for purpose in ("ledger", *ROTATION_GROUPS):
        known += keys_for(purpose)
    assert digest not in {digest_of(nonce, *key) for nonce in known}


def test_a_record_that_comes_again_has_another_digest(read: World) -> None:
    one = pseudonyms()[0]
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
    return hmac.digest(nonce, message, hashlib.sha256)


def hash_of(line: dict[str, Any]) -> str:
    """Return the hash of an exported row, as the header of the export describes it."""
    time = datetime.fromisoformat(line["at"]).timestamp()
    parts = [bytes.fromhex(line["previous"]), line["chain"], line["seq"], round(time * 1_000_000)]
    parts += [line[name] for name in ("client_id", "token_id", "request_id", "route", "covered",
                                      "record_count", "size_bytes")]  # fmt: skip
    parts += [UUID(pseudonym).bytes for pseudonym in line["pseudonyms"]]
    parts += ["record digests", *map(bytes.fromhex, line["record_digests"])]
    digest = hashlib.sha256()
    for part in parts:
        encoded = part if isinstance(part, bytes) else str(part).encode()
        digest.update(b"%d:%s" % (len(encoded), encoded))
    return digest.hexdigest()


def test_an_export_verifies_elsewhere_and_has_no_nonce(world: World) -> None:
    world.get(LIST)
    world.get(LIST)
    lines = list(export_lines(world.owner_id))
    rows = [line for line in lines if line["object"] == "disclosure"]
    assert [hash_of(row) for row in rows] == [row["digest"] for row in rows]
    assert not [row for row in pseudonyms() if str(row.nonce) in str(lines)]


@pytest.fixture
def clock(time_machine: Traveller) -> Traveller:
    time_machine.move_to(NOW, tick=False)
    return time_machine


def test_rows_that_nobody_signed_for_an_hour_are_a_warning(world: World, clock: Traveller) -> None:
    """A server that was stopped, or is new, has not signed."""
    world.get(LIST)
    clock.shift(timedelta(minutes=59))
    assert verify(world.owner_id).warnings == []
    clock.shift(timedelta(minutes=2))
    out, err = StringIO(), StringIO()
    call_command("ledger", "verify", owner=OWNER_ID, stdout=out, stderr=err)
    assert err.getvalue().endswith(
        " row 1: Rows 1 to 1 are older than an hour, and no checkpoint covers them. Start the"
        " server, which signs every hour, or run manage.py ledger checkpoint.\n"
    )
    assert out.getvalue() == "The ledger is whole: 1 rows in 1 chains, 0 checkpoints.\n"


def test_rows_that_a_running_server_did_not_sign_are_a_fault(
    world: World, clock: Traveller
) -> None:
    world.get(LIST)
    create_checkpoint(world.owner_id, now=NOW)
    for _ in range(3):
        clock.shift(timedelta(minutes=35))
        world.get(LIST)
    clock.shift(timedelta(minutes=61))
    err = StringIO()
    with pytest.raises(CommandError, match="not whole"):
        call_command("ledger", "verify", owner=OWNER_ID, stderr=err)
    assert err.getvalue().endswith(
        " row 2: Rows 2 to 4 are older than an hour, and no checkpoint covers them, although"
        " the server was running: checkpoints were deleted, or background jobs fail.\n"
    )
    create_checkpoint(world.owner_id, now=NOW)
    assert (messages(world), verify(world.owner_id).warnings) == ([], [])


def test_a_server_that_has_just_started_again_is_not_at_fault(
    world: World, clock: Traveller
) -> None:
    world.get(LIST)
    clock.shift(timedelta(hours=20))
    world.get(LIST)
    assert messages(world) == []
