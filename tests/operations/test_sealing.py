"""Reading a backup file returns exactly the frames that were written, or raises BackupError."""

import zlib
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operations.backup.archive import (
    CHUNK_BYTES,
    TAG_BYTES,
    EncryptedReader,
    EncryptedWriter,
    Frame,
    FrameKind,
    FrameWriter,
    Secret,
    read_frames,
)
from operations.backup.errors import BackupError, TruncatedError, WrongKeyError
from operations.backup.restore import BackupReader

KEY = Secret("file", b"k" * 32)
contents = st.lists(
    st.tuples(st.sampled_from(FrameKind), st.binary(max_size=400)), min_size=1, max_size=12
)


def write_file(frames: list[tuple[FrameKind, bytes]], secret: Secret = KEY) -> bytes:
    file = BytesIO()
    writer = FrameWriter(EncryptedWriter(file, secret))
    for kind, content in frames:
        writer.write(kind, content)
    writer.close()
    return file.getvalue()


def read_file(file: bytes, secret: Secret = KEY) -> list[Frame]:
    return list(read_frames(EncryptedReader(BytesIO(file), secret)))


def split_chunks(file: bytes) -> tuple[bytes, list[bytes]]:
    start = file.index(b"\n", file.index(b"\n") + 1) + 1
    size = CHUNK_BYTES + TAG_BYTES
    return file[:start], [file[at : at + size] for at in range(start, len(file), size)]


@given(contents)
def test_frames_round_trip(frames: list[tuple[FrameKind, bytes]]) -> None:
    assert read_file(write_file(frames)) == frames


@given(contents, st.data())
def test_changed_bits_are_detected(
    frames: list[tuple[FrameKind, bytes]], data: st.DataObject
) -> None:
    file = bytearray(write_file(frames))
    at = data.draw(st.integers(0, len(file) - 1))
    file[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(BackupError):
        read_file(bytes(file))


@given(contents, st.data())
def test_missing_end_is_detected(
    frames: list[tuple[FrameKind, bytes]], data: st.DataObject
) -> None:
    file = write_file(frames)
    with pytest.raises(BackupError):
        read_file(file[: data.draw(st.integers(0, len(file) - 1))])


@pytest.mark.parametrize(
    "line",
    [b"", b"[]", b"1", b"{}", b'{"salt":"00","key":"file"}', b'{"salt":1,"key":"file","log_n":16}',
     b'{"salt":"0g","key":"file","log_n":16}', b'{"salt":"00","key":"file","log_n":16.0}',
     b'{"salt":"00","key":"file","log_n":true}', b'{"salt":"00","key":"file","log_n":60}',
     b'{"salt":"00","key":["file"],"log_n":16}', b"\xff"],
)  # fmt: skip
def test_invalid_key_parameters_are_rejected(line: bytes) -> None:
    with pytest.raises(WrongKeyError):
        read_file(b"pdpp backup 1\n" + line + b"\n" + bytes(100))


@pytest.mark.parametrize(
    "content",
    [b"not zlib data", zlib.compress(b"X" + bytes(4)), zlib.compress(b"R\xff\xff\xff\xff" + b"x"),
     zlib.compress(b"M" + (2).to_bytes(4) + b"[]")],
)  # fmt: skip
def test_invalid_frames_under_a_valid_key_are_rejected(content: bytes) -> None:
    file = BytesIO()
    writer = EncryptedWriter(file, KEY)
    writer.write(content)
    writer.close()
    with pytest.raises(BackupError):
        BackupReader(BytesIO(file.getvalue()), KEY)


def test_reordered_or_foreign_chunks_are_rejected() -> None:
    import random

    frames = [(FrameKind.ROWS, random.Random(n).randbytes(90_000)) for n in range(4)]  # noqa: S311
    head, parts = split_chunks(write_file(frames))
    assert len(parts) == 6
    assert read_file(head + b"".join(parts)) == frames
    other_head, others = split_chunks(write_file(frames))
    for wrong in (
        [parts[1], parts[0], *parts[2:]],
        [*parts[:2], *parts[3:]],
        [*parts[:2], parts[1], *parts[2:]],
        [parts[0], others[1], *parts[2:]],
        [*parts, parts[-1]],
    ):
        reader = EncryptedReader(BytesIO(head + b"".join(wrong)), KEY)
        with pytest.raises(BackupError):
            list(iter(reader.read, b""))
    with pytest.raises(TruncatedError):
        read_file(head + b"".join(parts[:-1]))
    with pytest.raises(WrongKeyError):
        read_file(other_head + b"".join(parts))


def test_last_frame_is_yielded_only_after_verifying_the_end() -> None:
    frames = [(FrameKind.ROWS, bytes(10)), (FrameKind.CLOSING, b"{}")]
    reading = read_frames(EncryptedReader(BytesIO(write_file(frames) + bytes(CHUNK_BYTES)), KEY))
    with pytest.raises(BackupError):
        assert next(reading).kind is FrameKind.ROWS
    assert list(reading) == []


def test_only_the_same_passphrase_opens_a_backup() -> None:
    secret = Secret("passphrase", "Zwölf Boxkämpfer".encode())
    file = write_file([(FrameKind.CLOSING, b"{}")], secret)
    assert read_file(file, secret) == [(FrameKind.CLOSING, b"{}")]
    for wrong in (Secret("passphrase", b"Zwoelf Boxkaempfer"), Secret("file", b"k" * 32)):
        with pytest.raises(WrongKeyError):
            read_file(file, wrong)
