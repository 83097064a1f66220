"""Restore a backup in one transaction, with all grants paused.

A backup of everything needs an empty database. One of an owner's rows is restored beside other owners,
whose rows it neither reads nor changes.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import IO, Any

from django.db import DatabaseError

from evidence.access.grant_lifecycle import suspend_all
from evidence.ledger.verification import VerificationReport, verify
from evidence.models.owners import across_owners, acting_for
from operations.backup import plans, table_copy
from operations.backup.archive import EncryptedReader, Frame, FrameKind, read_frames
from operations.backup.dump import (
    ReportTable,
    key_fingerprints,
    ledger_heads,
    owners_in,
    sample_answers,
)
from operations.backup.errors import (
    DamagedError,
    MigrationsDifferError,
    NewerFormatError,
    NoKeysError,
    NotEmptyError,
    OwnerExistsError,
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
    owner_id: str | None
    """Whose rows the backup contains alone, or None if it contains everything."""
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
                owner_id=content["owner"],
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

    owner_ids: list[str]
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
        self,
        *,
        now: datetime,
        replace: bool = False,
        on_table: ReportTable = lambda name, rows: None,
    ) -> RestoreSummary:
        """Load all tables in one transaction, which restores nothing if it fails.

        With ``replace``, the rows that the backup's owner has are deleted first. Raises BackupError
        for an invalid file, a database in use or an owner who has rows, and DatabaseError.
        """
        owner_id = self.manifest.owner_id
        with table_copy.restore_transaction() as is_locked:
            if not is_locked:
                raise RestoreRunningError
            if owner_id is None:
                require_empty()
                table_copy.truncate_tables()
            else:
                _require_free(owner_id, replace=replace)
            table_copy.defer_constraints()
            counts = dict(self._load_tables(on_table))
            closing = self._closing
            if counts != closing["counts"]:
                raise DamagedError
            table_copy.reset_sequences()
            with across_owners() if owner_id is None else acting_for(owner_id):
                paused, ended = suspend_all(now=now)
                plans.pause_all()
            owner_ids = owners_in(owner_id)
        return RestoreSummary(owner_ids, counts, paused, ended, closing)

    @cached_property
    def _own_tables(self) -> set[str]:
        return {table.name for table in table_copy.backup_tables(self.manifest.owner_id)}

    def _load_tables(self, on_table: ReportTable) -> Iterator[tuple[str, int]]:
        while (frame := self._next_frame()).kind is FrameKind.TABLE:
            table = self.manifest.tables[frame.json["name"]]
            if not table_copy.has_table(table):
                raise MigrationsDifferError
            if self.manifest.owner_id is None:
                rows = table_copy.load_rows(table, self._row_batches())
            elif table.name in self._own_tables:
                rows = table_copy.load_own_rows(table, self._row_batches(), self.manifest.owner_id)
            else:
                raise DamagedError
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


def _require_free(owner_id: str, *, replace: bool) -> None:
    """Make room for the rows of an owner. Raises OwnerExistsError if there are some already."""
    if replace:
        table_copy.delete_rows_of(owner_id)
    elif table_copy.has_rows_of(owner_id):
        raise OwnerExistsError(f"The owner is {owner_id}.")


def verify_restore(restored: RestoreSummary) -> Verification:
    """Compare sample answers and ledger heads with the backup. Reads the complete ledger."""
    expected = restored.closing["answers"]
    actual = sample_answers(restored.owner_ids)
    heads = ledger_heads(restored.owner_ids)
    verdicts = [_verify_ledger(owner_id) for owner_id in restored.owner_ids]
    return Verification(
        rows=sum(restored.counts.values()),
        answers=len(expected),
        differing=sorted(
            name for name in {*expected, *actual} if expected.get(name) != actual.get(name)
        ),
        heads=len(heads),
        heads_equal=heads == restored.closing["ledger_heads"],
        ledger_rows=sum(verdict.rows for verdict in verdicts),
        ledger_faults=sum(len(verdict.problems) for verdict in verdicts),
    )


def _verify_ledger(owner_id: str) -> VerificationReport:
    with acting_for(owner_id):
        return verify(owner_id)


def describe_database_error(error: DatabaseError) -> str:
    """Return a message without the text of the error, which may quote a record."""
    return f"The database reported an error ({table_copy.error_code(error)})."
