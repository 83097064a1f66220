"""Whoever can write to the database cannot change, drop, add or rewrite a row unnoticed."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction

from evidence.ledger.checkpoints import create_checkpoint
from evidence.ledger.verification import export_lines, verify
from tests.owners import OWNER_ID
from tests.world import NOW, World

LIST = "/v1/streams/messages/records"


@pytest.fixture
def kept(world: World) -> World:
    """Five answers to Bob, and a signature over the first three."""
    for _ in range(3):
        world.get(LIST)
    assert create_checkpoint(world.owner_id, now=NOW) is not None
    for _ in range(2):
        world.get(LIST)
    return world


WITHOUT_REFUSAL = """
CREATE OR REPLACE FUNCTION evidence_ledger_is_added_to() RETURNS trigger LANGUAGE plpgsql
AS 'BEGIN RETURN NULL; END'
"""


def tamper(statement: str, *values: Any) -> None:
    """As somebody with all rights on the database would, whose triggers refuse nothing from then on."""
    with connection.cursor() as cursor:
        cursor.execute(WITHOUT_REFUSAL)
        cursor.execute(statement, values)


def faults(world: World) -> list[tuple[int | None, str]]:
    return [(fault.seq, fault.message) for fault in verify(world.owner_id).problems]


def rehashed(world: World, first: int) -> None:
    """Writes the chain anew from a row on, every hash fitting, as far as no key is needed."""
    from evidence.ledger.verification import entry_from_row
    from evidence.models.ledger import Disclosure

    rows = list(Disclosure.unscoped.order_by("seq"))
    previous = bytes(rows[first - 2].digest)
    for row in rows[first - 1 :]:
        digest = entry_from_row(row).digest(previous)
        tamper(
            "UPDATE evidence_disclosure SET previous = %s, digest = %s WHERE chain = %s AND seq = %s",
            previous, digest, row.chain, row.seq,
        )  # fmt: skip
        previous = digest
    tamper("UPDATE evidence_chain SET digest = %s", previous)


def test_a_whole_ledger_is_found_whole(kept: World) -> None:
    verdict = verify(kept.owner_id)
    assert (verdict.rows, verdict.chains, verdict.checkpoints, verdict.problems) == (5, 1, 1, [])
    out = StringIO()
    call_command("ledger", "verify", owner=OWNER_ID, stdout=out)
    assert out.getvalue() == "The ledger is whole: 5 rows in 1 chains, 1 checkpoints.\n"


def test_rows_cannot_be_changed_while_the_trigger_exists(kept: World) -> None:
    for statement in (
        "UPDATE evidence_disclosure SET record_count = 0",
        "DELETE FROM evidence_disclosure",
        "DELETE FROM evidence_checkpoint",
    ):
        with pytest.raises(DatabaseError, match="never changed"), transaction.atomic():
            connection.cursor().execute(statement)


@pytest.mark.parametrize(
    "change",
    [
        "at = '2026-01-01'", "client_id = client_id || 'x'", "token_id = 'tok_x'",
        "request_id = 'req_x'", "route = 'rest record'", "covered = '[]'",
        "record_count = record_count - 1", "size_bytes = size_bytes + 1",
        "pseudonyms = trim_array(pseudonyms, 1)", "digest = set_byte(digest, 0, get_byte(digest, 0) # 1)",
    ],
)  # fmt: skip
def test_a_changed_byte_is_named_with_its_row(kept: World, change: str) -> None:
    tamper(f"UPDATE evidence_disclosure SET {change} WHERE seq = 2")  # noqa: S608 - from above
    assert faults(kept) == [(2, "The content of this row was changed.")]


def test_a_row_taken_out_of_the_middle_is_missed(kept: World) -> None:
    tamper("DELETE FROM evidence_disclosure WHERE seq = 2")
    assert faults(kept) == [(2, "Rows 2 to 2 are missing.")]


def test_the_last_row_is_missed(kept: World) -> None:
    tamper("DELETE FROM evidence_disclosure WHERE seq = 5")
    assert faults(kept) == [(5, "Rows 5 to 5 are missing at the end.")]


def test_the_last_row_is_missed_even_if_the_end_moves_back(kept: World) -> None:
    tamper("DELETE FROM evidence_disclosure WHERE seq = 5")
    tamper(
        "UPDATE evidence_chain AS c SET seq = 4, digest = d.digest FROM evidence_disclosure AS d"
        " WHERE d.seq = 4 AND d.owner_id = c.owner_id"
    )
    assert faults(kept) == [(4, "The chain head was not sealed by this installation.")]


def take_back(world: World) -> None:
    """The second of two rows, under the seal that stood before it, when a signature has seen both."""
    world.get(LIST)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT seq, digest, seal FROM evidence_chain WHERE owner_id = %s", [OWNER_ID]
        )
        old = cursor.fetchone()
    world.get(LIST)
    create_checkpoint(world.owner_id, now=NOW)
    tamper("DELETE FROM evidence_disclosure WHERE seq = 2 AND owner_id = %s", OWNER_ID)
    tamper(
        "UPDATE evidence_chain SET seq = %s, digest = %s, seal = %s WHERE owner_id = %s",
        *old,
        OWNER_ID,
    )


def test_rows_that_a_signature_covers_are_missed_even_under_an_old_seal(world: World) -> None:
    """Putting back an old copy of everything but the checkpoints."""
    take_back(world)
    assert faults(world) == [(2, "Rows 2 to 2 are missing: a signed checkpoint counts them.")]


def test_what_is_taken_back_with_its_signature_contradicts_an_export_that_was_kept(
    world: World,
) -> None:
    world.get(LIST)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT seq, digest, seal FROM evidence_chain WHERE owner_id = %s", [OWNER_ID]
        )
        old = cursor.fetchone()
    world.get(LIST)
    create_checkpoint(world.owner_id, now=NOW)
    *_, kept = export_lines(world.owner_id)
    tamper("DELETE FROM evidence_disclosure WHERE seq = 2")
    tamper("DELETE FROM evidence_checkpoint")
    tamper(
        "UPDATE evidence_chain SET seq = %s, digest = %s, seal = %s WHERE owner_id = %s",
        *old,
        OWNER_ID,
    )
    assert faults(world) == []
    rows = [[each["chain"], each["seq"], each["digest"]] for each in export_lines(world.owner_id)
            if each["object"] == "disclosure"]  # fmt: skip
    assert len(rows) == 1
    assert not [end for end in kept["heads"] if end in rows]


def test_a_chain_that_is_gone_is_missed(kept: World) -> None:
    tamper("DELETE FROM evidence_disclosure")
    tamper("DELETE FROM evidence_chain")
    assert faults(kept)[0] == (3, "A checkpoint names this chain, but the chain is missing.")


def test_a_rewritten_chain_has_no_seal(kept: World) -> None:
    tamper("UPDATE evidence_disclosure SET record_count = 0 WHERE seq = 5")
    rehashed(kept, 5)
    assert faults(kept) == [(5, "The chain head was not sealed by this installation.")]


def test_a_rewritten_chain_differs_from_the_signed_one(kept: World) -> None:
    tamper("UPDATE evidence_disclosure SET record_count = 0 WHERE seq = 3")
    rehashed(kept, 3)
    message = "A signed checkpoint names another digest here: the chain was rewritten."
    assert faults(kept) == [(3, message)]


def test_a_fork_is_named(kept: World) -> None:
    tamper("UPDATE evidence_disclosure SET previous = digest WHERE seq = 4")
    assert faults(kept) == [(4, "This row does not follow the row before it: the chain forks.")]


def test_rows_smuggled_in_at_the_end_are_not_counted(kept: World) -> None:
    tamper(
        "INSERT INTO evidence_disclosure (owner_id, chain, seq, at, client_id, token_id, request_id,"
        " route, covered, record_count, size_bytes, pseudonyms, record_digests, previous, digest)"
        " SELECT owner_id, chain, seq + 1, at, client_id, token_id, request_id,"
        " route, covered, record_count, size_bytes, pseudonyms, record_digests, digest, digest"
        " FROM evidence_disclosure WHERE seq = 5"
    )
    assert faults(kept) == [(6, "The chain head does not count this row.")]


def test_two_contradicting_signatures_are_both_valid(world: World) -> None:
    """Taken back under an old seal, and grown again to the same number before the next signature."""
    take_back(world)
    world.get(LIST)
    create_checkpoint(world.owner_id, now=NOW)
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
        create_checkpoint(kept.owner_id, now=NOW)

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
    tamper(f"UPDATE evidence_checkpoint SET {change}")  # noqa: S608 - from above
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
    assert "row 5: Rows 5 to 5 are missing at the end." in err.getvalue()


def test_two_at_once_make_one_chain(committed: World) -> None:
    def ask(_: int) -> int:
        try:
            return committed.get(LIST).status
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(ask, range(24))) == {200}
    verdict = verify(committed.owner_id)
    assert (verdict.rows, verdict.chains, verdict.problems) == (24, 1, [])
