"""Reading a backup file returns exactly the rows that were written, or raises BackupError."""

import gzip
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operations.backup.archive import (
    CLOSING,
    MANIFEST,
    ArchiveWriter,
    DamagedError,
    encrypted,
    open_backup,
)
from operations.backup.keys import BackupError, RecoveryKey, WrongKeyError

KEY, OTHER_KEY = RecoveryKey(b"r" * 16), RecoveryKey(b"s" * 16)
BLANK: dict[str, Any] = {
    "format": 2, "made_at": "2026-11-01T00:00:00Z", "owner": None, "migrations": [],
    "tables": {"a": ["id"], "b": ["id"]}, "fingerprint": "0", "keys": None,
}  # fmt: skip
Member = tuple[str, Any]
POSITIONS = st.integers(0, 2**31)
"""age makes headers of different lengths."""
parts = st.lists(
    st.tuples(st.sampled_from(["a", "b"]), st.binary(min_size=1, max_size=2_000)), max_size=8
).map(lambda found: sorted(found, key=lambda part: part[0]))


def write(members: Sequence[Member], key: RecoveryKey = KEY) -> bytes:
    file = BytesIO()
    with encrypted(file, [key.identity.to_public()]) as target:
        writer = ArchiveWriter(target)
        for name, content in members:
            if isinstance(content, bytes):
                writer.add(name, content)
            else:
                writer.add_json(name, content)
        writer.close()
    return file.getvalue()


def read(file: bytes, key: RecoveryKey = KEY) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Return the rows by table, and the closing member."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "x.age")
        path.write_bytes(file)
        with open_backup(path, key.identity) as backup:
            rows = {table.name: b"".join(chunks) for table, chunks in backup.tables()}
            return rows, backup.closing


def whole(rows: Sequence[tuple[str, bytes]]) -> list[Member]:
    tables = [(f"tables/{name}/{number}.copy", part) for number, (name, part) in enumerate(rows)]
    return [(MANIFEST, BLANK), *tables, (CLOSING, {"counts": {}})]


@given(parts)
def test_rows_round_trip(rows: list[tuple[str, bytes]]) -> None:
    expected: dict[str, bytes] = {}
    for name, part in rows:
        expected[name] = expected.get(name, b"") + part

    assert read(write(whole(rows))) == (expected, {"counts": {}})


@given(parts, st.data())
def test_changed_bits_are_detected(rows: list[tuple[str, bytes]], data: st.DataObject) -> None:
    file = bytearray(write(whole(rows)))
    at = data.draw(POSITIONS) % len(file)
    file[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(BackupError):
        read(bytes(file))


@given(parts, st.data())
def test_missing_end_is_detected(rows: list[tuple[str, bytes]], data: st.DataObject) -> None:
    file = write(whole(rows))
    with pytest.raises(BackupError):
        read(file[: data.draw(POSITIONS) % len(file)])


def test_end_is_verified_before_the_closing_member_is_used() -> None:
    file = write(whole([("a", b"1\n" * 400_000)]))
    for wrong in (file[:-1], file + b"x", file + file):
        with pytest.raises(DamagedError):
            read(wrong)


@pytest.mark.parametrize(
    "members",
    [
        [],
        [(CLOSING, {})],
        [(MANIFEST, [])],
        [(MANIFEST, b"not JSON")],
        [(MANIFEST, BLANK | {"tables": 1})],
        [(MANIFEST, BLANK)],
        [(MANIFEST, BLANK), ("tables/a/1.copy", b"1\n")],
        [(MANIFEST, BLANK), ("tables/c/1.copy", b"1\n"), (CLOSING, {})],
        [(MANIFEST, BLANK), ("../a", b"1\n"), (CLOSING, {})],
        [(MANIFEST, BLANK), (CLOSING, {}), ("tables/a/1.copy", b"1\n")],
        [(MANIFEST, BLANK), (CLOSING, {}), (CLOSING, {})],
    ],
)
def test_archive_of_another_shape_is_damaged(members: list[Member]) -> None:
    with pytest.raises(DamagedError):
        read(write(members))


def test_archive_that_expands_without_end_is_not_read_into_memory() -> None:
    file = BytesIO()
    with (
        encrypted(file, [KEY.identity.to_public()]) as target,
        gzip.GzipFile(fileobj=target, mode="wb") as packed,
    ):
        packed.write(bytes(50_000_000))
    with pytest.raises(DamagedError):
        read(file.getvalue())


def test_only_the_key_of_a_file_opens_it() -> None:
    file = write(whole([("a", b"1\n")]))

    assert write(whole([("a", b"1\n")])) != file
    with pytest.raises(WrongKeyError, match="does not open this backup"):
        read(file, OTHER_KEY)
