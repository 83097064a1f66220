"""Reading a backup into an empty database: everything or nothing, and nobody reads it at first."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import IO, Any

from django.db import DatabaseError

from evidence.access.grant_lifecycle import suspend_all
from evidence.ledger.verification import verify
from evidence.models.accounts import OWNER_ID
from evidence.storing import table_copy
from evidence.storing.table_copy import Table
from operations.backup.archive import Frame, Kind, Opener, Secret, frames
from operations.backup.dump import fingerprints
from operations.backup.errors import (
    Damaged,
    NewerFormat,
    NoKeys,
    NotEmpty,
    OtherMigrations,
    OtherSecret,
    SomebodyRestores,
)
from operations.backup.sample_answers import answers, ledger_heads

OnTable = Callable[[str, int], object]
Migration = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a backup says of itself before its rows."""

    made_at: str
    migrations: frozenset[Migration]
    tables: dict[str, Table]
    fingerprint: str
    secret_key: str | None
    rotated_keys: dict[str, list[str]]

    @classmethod
    def read(cls, frame: Frame) -> "Manifest":
        if frame.kind is not Kind.MANIFEST:
            raise Damaged
        try:
            return cls._told(frame.told)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise Damaged from None

    @classmethod
    def _told(cls, said: Any) -> "Manifest":
        return cls(
            made_at=said["made_at"],
            migrations=frozenset((app, name) for app, name in said["migrations"]),
            tables={name: Table(name, tuple(each)) for name, each in said["tables"].items()},
            fingerprint=said["fingerprint"],
            secret_key=(said["keys"] or {}).get("secret_key"),
            rotated_keys=(said["keys"] or {}).get("rotated", {}),
        )


@dataclass(frozen=True, slots=True)
class Restored:
    """``closing`` is what the backup says of the moment when it was made."""

    counts: dict[str, int]
    paused: int
    ended: int
    closing: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Proof:
    """What the restored database says, held against what the backup says. ``differing`` names the
    questions that are answered otherwise."""

    rows: int
    answers: int
    differing: list[str]
    heads: int
    heads_equal: bool
    ledger_rows: int
    ledger_faults: int

    @property
    def holds(self) -> bool:
        return self.heads_equal and not self.differing and not self.ledger_faults


class Backup:
    """An open backup: its manifest first, then its rows, once."""

    def __init__(self, file: IO[bytes], secret: Secret) -> None:
        self._frames = frames(Opener(file, secret))
        self.manifest = Manifest.read(self._next())

    def require_restorable(
        self, *, known: Collection[Migration], applied: Collection[Migration]
    ) -> None:
        """Raises what keeps it from being restored by this program, into this database."""
        if self.manifest.migrations - set(known):
            raise NewerFormat
        if set(applied) - self.manifest.migrations:
            raise OtherMigrations

    def require_secret(self, *, with_keys: bool, without: bool) -> None:
        """Raises ``OtherSecret`` and ``NoKeys``."""
        if with_keys and self.manifest.secret_key is None:
            raise NoKeys
        if not with_keys and not without and self.manifest.fingerprint not in fingerprints():
            raise OtherSecret

    def restore(self, *, now: datetime, on_table: OnTable = lambda name, rows: None) -> Restored:
        """Fills the tables in one transaction. Raises the faults of a file that is not whole, of a
        database that is not empty, and ``DatabaseError``; then nothing was restored."""
        with table_copy.alone() as is_alone:
            if not is_alone:
                raise SomebodyRestores
            require_empty()
            table_copy.make_room()
            counts = dict(self._fill(on_table))
            closing = self._closing
            if counts != closing["counts"]:
                raise Damaged
            table_copy.go_on_counting()
            paused, ended = suspend_all(now=now)
        return Restored(counts, paused, ended, closing)

    def _fill(self, on_table: OnTable) -> Iterator[tuple[str, int]]:
        while (frame := self._next()).kind is Kind.TABLE:
            table = self.manifest.tables[frame.told["name"]]
            if not table_copy.is_known(table):
                raise OtherMigrations
            rows = table_copy.fill(table, self._rows())
            on_table(table.name, rows)
            yield table.name, rows
        if frame.kind is not Kind.CLOSING or next(self._frames, None) is not None:
            raise Damaged
        self._closing: dict[str, Any] = frame.told

    def _rows(self) -> Iterator[bytes]:
        while (frame := self._next()).kind is Kind.ROWS:
            yield frame.content
        if frame.kind is not Kind.TABLE_ENDS:
            raise Damaged

    def _next(self) -> Frame:
        frame = next(self._frames, None)
        if frame is None:
            raise Damaged
        return frame


def require_empty() -> None:
    """Raises ``NotEmpty``."""
    if occupied := table_copy.occupied():
        raise NotEmpty(f"It has rows in {occupied[0]}.")


def prove(restored: Restored) -> Proof:
    """Asks the restored database what the backup was asked. Reads all of the ledger."""
    asked = restored.closing["answers"]
    answered = answers(OWNER_ID)
    differing = sorted(
        each for each in {*asked, *answered} if asked.get(each) != answered.get(each)
    )
    heads = ledger_heads(OWNER_ID)
    verdict = verify(OWNER_ID)
    return Proof(
        rows=sum(restored.counts.values()),
        answers=len(asked),
        differing=differing,
        heads=len(heads),
        heads_equal=heads == restored.closing["ledger_heads"],
        ledger_rows=verdict.rows,
        ledger_faults=len(verdict.faults),
    )


def worded(error: DatabaseError) -> str:
    """Without its text, which may quote a record."""
    return f"The database refused it ({table_copy.failed(error)})."
