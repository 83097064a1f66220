"""Whoever can write to the database cannot change, drop, add or rewrite a row unnoticed."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction

from evidence.ledger.checkpoints import sign_entries
from evidence.ledger.entries import chain_digest
from evidence.ledger.verification import export_lines, verify
from evidence.models.ledger import Checkpoint, Disclosure
from evidence.models.owners import acting_for
from tests.owners import OWNER_ID
from tests.world import NOW, World

LIST = "/v1/streams/messages/records"
MISSING_AT_END = "Rows 5 to 5 are missing at the end: a signed checkpoint counts them."


@pytest.fixture
def kept(world: World) -> World:
    """Five answers to Bob, signed after the third and after the last."""
    for _ in range(3):
        world.get(LIST)
    assert sign_entries(world.owner_id, now=NOW) is not None
    for _ in range(2):
        world.get(LIST)
    assert sign_entries(world.owner_id, now=NOW) is not None
    return world


WITHOUT_REFUSAL = """
CREATE OR REPLACE FUNCTION evidence_ledger_is_added_to() RETURNS trigger LANGUAGE plpgsql
AS 'BEGIN RETURN coalesce(NEW, OLD); END'
"""


def tamper(statement: str, *values: Any) -> None:
    """As somebody with all rights on the database would, whose triggers refuse nothing from then on."""
    with connection.cursor() as cursor:
        cursor.execute(WITHOUT_REFUSAL)
        cursor.execute(statement, values)


def faults(world: World) -> list[tuple[int | None, str]]:
    return [(fault.seq, fault.message) for fault in verify(world.owner_id).problems]


def rehashed(first: int) -> None:
    """Write the digests of the chain again from a row on, as anyone with the database can."""
    rows = list(Disclosure.unscoped.order_by("seq"))
    previous = bytes(rows[first - 2].digest or b"")
    for seq, row in enumerate(rows[first - 1 :], start=first):
        digest = chain_digest(row, previous, seq)
        tamper("UPDATE evidence_disclosure SET digest = %s WHERE seq = %s", digest, seq)
        previous = digest


def test_a_whole_ledger_is_found_whole(kept: World) -> None:
    verdict = verify(kept.owner_id)
    assert (verdict.rows, verdict.chains, verdict.checkpoints, verdict.problems) == (5, 1, 2, [])
    out = StringIO()
    call_command("ledger", "verify", owner=OWNER_ID, stdout=out)
    assert out.getvalue() == "The ledger is whole: 5 rows in 1 chains, 2 checkpoints.\n"


def test_rows_cannot_be_changed_while_the_trigger_exists(kept: World) -> None:
    for statement in (
        "UPDATE evidence_disclosure SET record_count = 0",
        "UPDATE evidence_disclosure SET seq = 9 WHERE seq = 5",
        "DELETE FROM evidence_disclosure",
        "DELETE FROM evidence_checkpoint",
    ):
        with pytest.raises(DatabaseError, match="never changed"), transaction.atomic():
            connection.cursor().execute(statement)


CHANGES = (
    "entry_id = translate(entry_id::text, '0123456789abcdef', '123456789abcdef0')::uuid", "at = '2026-01-01'", "client_id = client_id || 'x'",
    "token_id = 'tok_x'", "request_id = 'req_x'", "route = 'rest record'", "covered = '[]'",
    "record_count = record_count - 1", "counted = 7", "size_bytes = size_bytes + 1",
    "record_digests = trim_array(record_digests, 1)",
    "record_digests = record_digests[2:] || record_digests[1:1]", "seal = ''",
)  # fmt: skip


@pytest.mark.parametrize(
    "change", [*CHANGES, "digest = set_byte(digest, 0, get_byte(digest, 0) # 1)"]
)
def test_a_changed_byte_is_named_with_its_row(kept: World, change: str) -> None:
    tamper(f"UPDATE evidence_disclosure SET {change} WHERE seq = 2")  # noqa: S608 - from above
    assert faults(kept) == [(2, "The content of this row was changed.")]


@pytest.mark.parametrize("change", [*CHANGES, "chain = 'grt_other'"])
def test_a_changed_row_is_named_before_it_is_signed_and_is_never_signed(
    world: World, change: str
) -> None:
    world.get(LIST)
    tamper(f"UPDATE evidence_disclosure SET {change}")  # noqa: S608 - from above
    assert sign_entries(world.owner_id, now=NOW) is None
    (seq, message), *_ = faults(world)
    assert seq is None
    assert message.endswith("UTC was changed, or added by somebody else.")


def test_a_row_added_by_somebody_else_is_named(kept: World) -> None:
    tamper(ADD_COPY.format(seq="NULL", digest="NULL"))
    assert sign_entries(kept.owner_id, now=NOW) is None
    [(seq, message)] = faults(kept)
    assert seq is None
    assert message.endswith("UTC was changed, or added by somebody else.")


def test_a_row_taken_out_of_the_middle_is_missed(kept: World) -> None:
    tamper("DELETE FROM evidence_disclosure WHERE seq = 2")
    assert faults(kept) == [(2, "Rows 2 to 2 are missing.")]


def test_the_last_row_is_missed(kept: World) -> None:
    tamper("DELETE FROM evidence_disclosure WHERE seq = 5")
    assert faults(kept) == [(5, MISSING_AT_END)]


def take_back(world: World) -> None:
    """The second of two rows with the signature that has seen it, as from an old copy of the database."""
    world.get(LIST)
    sign_entries(world.owner_id, now=NOW)
    world.get(LIST)
    sign_entries(world.owner_id, now=NOW)
    tamper("DELETE FROM evidence_disclosure WHERE seq = 2 AND owner_id = %s", OWNER_ID)


def test_a_deleted_checkpoint_is_missed(kept: World) -> None:
    tamper("DELETE FROM evidence_checkpoint WHERE size = 5")
    assert faults(kept) == [
        (4, "No checkpoint covers rows 4 to 5: checkpoints were deleted, or rows added.")
    ]


def test_what_is_taken_back_with_its_signature_contradicts_an_export_that_was_kept(
    world: World,
) -> None:
    take_back(world)
    note = Checkpoint.unscoped.get(size=2).note
    tamper("DELETE FROM evidence_checkpoint WHERE size = 2")
    assert faults(world) == []
    kept = [line["note"] for line in export_lines(world.owner_id) if line["object"] == "checkpoint"]
    assert len(kept) == 1
    assert note not in kept


def test_a_chain_that_is_gone_is_missed(kept: World) -> None:
    tamper("DELETE FROM evidence_disclosure")
    message = "Rows 1 to 5 are missing at the end: a signed checkpoint counts them."
    assert faults(kept)[0] == (1, message)


def test_a_rewritten_chain_differs_from_the_signed_one(kept: World) -> None:
    tamper("UPDATE evidence_disclosure SET record_count = 0 WHERE seq = 3")
    rehashed(3)
    message = "A signed checkpoint names another digest here: the chain was rewritten."
    assert faults(kept) == [(3, message)]


def test_exchanged_rows_are_named(kept: World) -> None:
    for before, after in ((4, 99), (5, 4), (99, 5)):
        tamper("UPDATE evidence_disclosure SET seq = %s WHERE seq = %s", after, before)
    assert faults(kept)[0] == (4, "The content of this row was changed.")


ADD_COPY = """
INSERT INTO evidence_disclosure (owner_id, entry_id, chain, seq, at, client_id, token_id, request_id,
    route, covered, record_count, size_bytes, record_digests, seal, digest)
SELECT owner_id, gen_random_uuid(), chain, {seq}, at, client_id, token_id, request_id,
    route, covered, record_count, size_bytes, record_digests, seal, {digest}
FROM evidence_disclosure WHERE seq = 5
"""


def test_rows_smuggled_in_at_the_end_are_not_counted(kept: World) -> None:
    tamper(ADD_COPY.format(seq="seq + 1", digest="digest"))
    assert faults(kept) == [
        (6, "No checkpoint covers rows 6 to 6: checkpoints were deleted, or rows added.")
    ]


def test_two_contradicting_signatures_are_both_valid(world: World) -> None:
    """Taken back to an old copy, and grown again to the same number before the next signature."""
    take_back(world)
    old = Checkpoint.unscoped.filter(size=2).values().get()
    tamper("DELETE FROM evidence_checkpoint WHERE size = 2")
    world.get(LIST)
    sign_entries(world.owner_id, now=NOW)
    Checkpoint.unscoped.create(**old)
    message = "A signed checkpoint names another digest here: the chain was rewritten."
    assert faults(world) == [(2, message)]


@contextmanager
def after_statement(number: int, do: Callable[[], object]) -> Iterator[None]:
    """What happens elsewhere between two statements."""
    seen = iter(range(1, 1_000))

    def count(execute: Callable[..., Any], *args: Any) -> Any:
        found, now = execute(*args), next(seen)
        if now == number:
            do()
        return found

    with connection.execute_wrapper(count):
        yield


@pytest.mark.parametrize("number", range(1, 5))
def test_what_is_read_and_signed_meanwhile_is_no_fault_and_not_half_exported(
    kept: World, number: int
) -> None:
    def meanwhile() -> None:
        kept.get(LIST)
        sign_entries(kept.owner_id, now=NOW)

    with after_statement(number, meanwhile):
        assert faults(kept) == []
    with after_statement(number, meanwhile):
        told = list(export_lines(kept.owner_id))
    rows = {(row["chain"], row["seq"]) for row in told if row["object"] == "disclosure"}
    signed = {(chain, seq) for each in told if each["object"] == "checkpoint"
              for chain, seq, _ in each["heads"]}  # fmt: skip
    assert signed <= rows


@pytest.mark.parametrize("change", ["heads = '[]'", "heads = left(heads, -9)", "heads = '[[1, 2, \"x\"]]'", "note = replace(note, E'\\n3\\n', E'\\n2\\n')",
                                    "note = left(note, -8)"])  # fmt: skip
def test_a_forged_checkpoint_is_named(kept: World, change: str) -> None:
    tamper(f"UPDATE evidence_checkpoint SET {change} WHERE size = 3")  # noqa: S608 - from above
    [(_, message)] = faults(kept)
    assert (
        message
        == f"The checkpoint of {NOW:%Y-%m-%d %H:%M} UTC was not signed by this installation."
    )


def test_verify_ends_with_a_failure_that_a_schedule_notices(kept: World) -> None:
    tamper("DELETE FROM evidence_disclosure WHERE seq = 5")
    err = StringIO()
    with pytest.raises(CommandError, match="not whole"):
        call_command("ledger", "verify", owner=OWNER_ID, stderr=err)
    assert f"row 5: {MISSING_AT_END}" in err.getvalue()


def test_two_at_once_make_one_chain(committed: World) -> None:
    def sign(_: int) -> bool:
        try:
            with acting_for(OWNER_ID):
                return sign_entries(OWNER_ID, now=NOW) is not None
        finally:
            connection.close()

    def ask(_: int) -> int:
        try:
            return committed.get(LIST).status
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(ask, range(24))) == {200}
        assert any(pool.map(sign, range(4)))
    verdict = verify(committed.owner_id)
    assert (verdict.rows, verdict.chains, verdict.problems) == (24, 1, [])
