"""Restore a backup into an empty database in one transaction, with all grants paused."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import IO, Any

from django.db import DatabaseError

from evidence.access.grant_lifecycle import suspend_all
from evidence.ledger.verification import verify
from evidence.models.owners import current_owner
from operations.backup import plans, table_copy
from operations.backup.archive import EncryptedReader, Frame, FrameKind, read_frames
from operations.backup.dump import ReportTable, key_fingerprints, ledger_heads, sample_answers
from operations.backup.errors import (
    DamagedError,
    MigrationsDifferError,
    NewerFormatError,
    NoKeysError,
    NotEmptyError,
    RestoreRunningError,
    SecretKeyDiffersError,
)
from operations.backup.keys import Secret
from operations.backup.table_copy import Table

Migration = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Manifest:
    """The description of a backup, which precedes its rows."""

    made_at: str
    migrations: frozenset[Migration]
    tables: dict[str, Table]
    fingerprint: str
    secret_key: str | None
    rotated_keys: dict[str, list[str]]

    @classmethod
    def parse(cls, frame: Frame) -> "Manifest":
        """Parse a manifest frame. Raises DamagedError."""
        if frame.kind is not FrameKind.MANIFEST:
            raise DamagedError
        try:
            content = frame.json
            keys = content["keys"] or {}
            return cls(
                made_at=content["made_at"],
                migrations=frozenset((app, name) for app, name in content["migrations"]),
                tables={
                    name: Table(name, tuple(columns)) for name, columns in content["tables"].items()
                },
                fingerprint=content["fingerprint"],
                secret_key=keys.get("secret_key"),
                rotated_keys=keys.get("rotated", {}),
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            raise DamagedError from None


@dataclass(frozen=True, slots=True)
class RestoreSummary:
    """What a restore did: rows by table, paused grants, revoked owner tokens.

    `closing` holds the counts, answers and ledger heads at the time of the backup.
    """

    counts: dict[str, int]
    paused: int
    ended: int
    closing: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Verification:
    """The comparison of a restored database with its backup. `differing` names sample answers."""

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


class BackupReader:
    """Reads a backup: first its manifest, then its rows, once."""

    def __init__(self, file: IO[bytes], secret: Secret) -> None:
        self._frames = read_frames(EncryptedReader(file, secret))
        self.manifest = Manifest.parse(self._next_frame())

    def require_restorable(
        self, *, known: Collection[Migration], applied: Collection[Migration]
    ) -> None:
        """Raise BackupError if this program or the tables of this database are of another version."""
        if self.manifest.migrations - set(known):
            raise NewerFormatError
        if set(applied) - self.manifest.migrations:
            raise MigrationsDifferError

    def require_secret(self, *, with_keys: bool, without: bool) -> None:
        """Raise SecretKeyDiffersError or NoKeysError if the options do not fit the backup."""
        if with_keys and self.manifest.secret_key is None:
            raise NoKeysError
        is_known = self.manifest.fingerprint in key_fingerprints()
        if not with_keys and not without and not is_known:
            raise SecretKeyDiffersError

    def restore(
        self, *, now: datetime, on_table: ReportTable = lambda name, rows: None
    ) -> RestoreSummary:
        """Load all tables in one transaction, which restores nothing if it fails.

        Raises BackupError for an invalid file or a database in use, and DatabaseError.
        """
        with table_copy.restore_transaction() as is_locked:
            if not is_locked:
                raise RestoreRunningError
            require_empty()
            table_copy.truncate_tables()
            counts = dict(self._load_tables(on_table))
            closing = self._closing
            if counts != closing["counts"]:
                raise DamagedError
            table_copy.reset_sequences()
            paused, ended = suspend_all(now=now)
            plans.pause_all()
        return RestoreSummary(counts, paused, ended, closing)

    def _load_tables(self, on_table: ReportTable) -> Iterator[tuple[str, int]]:
        while (frame := self._next_frame()).kind is FrameKind.TABLE:
            table = self.manifest.tables[frame.json["name"]]
            if not table_copy.has_table(table):
                raise MigrationsDifferError
            rows = table_copy.load_rows(table, self._row_batches())
            on_table(table.name, rows)
            yield table.name, rows
        if frame.kind is not FrameKind.CLOSING or next(self._frames, None) is not None:
            raise DamagedError
        self._closing: dict[str, Any] = frame.json

    def _row_batches(self) -> Iterator[bytes]:
        while (frame := self._next_frame()).kind is FrameKind.ROWS:
            yield frame.content
        if frame.kind is not FrameKind.TABLE_ENDS:
            raise DamagedError

    def _next_frame(self) -> Frame:
        frame = next(self._frames, None)
        if frame is None:
            raise DamagedError
        return frame


def require_empty() -> None:
    """Raise NotEmptyError if the database holds data."""
    if tables := table_copy.non_empty_tables():
        raise NotEmptyError(f"It has rows in {tables[0]}.")


def verify_restore(restored: RestoreSummary) -> Verification:
    """Compare sample answers and ledger heads with the backup. Reads the complete ledger."""
    expected = restored.closing["answers"]
    actual = sample_answers(current_owner())
    heads = ledger_heads(current_owner())
    verdict = verify(current_owner())
    return Verification(
        rows=sum(restored.counts.values()),
        answers=len(expected),
        differing=sorted(
            name for name in {*expected, *actual} if expected.get(name) != actual.get(name)
        ),
        heads=len(heads),
        heads_equal=heads == restored.closing["ledger_heads"],
        ledger_rows=verdict.rows,
        ledger_faults=len(verdict.problems),
    )


def describe_database_error(error: DatabaseError) -> str:
    """Return a message without the text of the error, which may quote a record."""
    return f"The database reported an error ({table_copy.error_code(error)})."
