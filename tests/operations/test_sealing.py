"""Reading a backup file returns exactly the frames that were written, or raises BackupError."""

import secrets
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
    read_frames,
)
from operations.backup.errors import (
    BackupError,
    DamagedError,
    OtherRecoveryKeyError,
    TruncatedError,
    WrongKeyError,
)
from operations.backup.keys import Recipient, RecoveryKey, Secret, fingerprint, read_header
from operations.backup.restore import BackupReader

KEY = Secret("file", b"k" * 32)
contents = st.lists(
    st.tuples(st.sampled_from(FrameKind), st.binary(max_size=400)), min_size=1, max_size=12
)


def write_file(frames: list[tuple[FrameKind, bytes]], secret: Secret | Recipient = KEY) -> bytes:
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


RECOVERY_KEY = RecoveryKey(b"r" * 16)
RECIPIENT = Recipient(RECOVERY_KEY.public_key)
ROWS = [(FrameKind.ROWS, bytes(range(256)) * 600), (FrameKind.CLOSING, b"{}")]


def unlock(file: bytes, key: RecoveryKey = RECOVERY_KEY) -> Secret:
    return read_header(BytesIO(file)).unlock(key)


def test_only_the_recovery_key_opens_what_its_public_half_sealed() -> None:
    file = write_file(ROWS, RECIPIENT)

    assert read_header(BytesIO(file)).fingerprint == fingerprint(RECOVERY_KEY.public_key)
    assert read_file(file, unlock(file)) == ROWS
    assert write_file(ROWS, RECIPIENT) != file
    with pytest.raises(OtherRecoveryKeyError, match="another recovery key"):
        unlock(file, RecoveryKey(b"s" * 16))
    for wrong in (KEY, Secret("passphrase", b"correct horse battery")):
        with pytest.raises(WrongKeyError, match="It needs the words of recovery key"):
            read_file(file, wrong)


def test_what_opens_one_file_opens_no_other() -> None:
    file, other = write_file(ROWS, RECIPIENT), write_file(ROWS, RECIPIENT)

    with pytest.raises(DamagedError):
        read_file(other, unlock(file))


@given(st.data())
def test_changed_bits_of_a_sealed_file_are_detected(data: st.DataObject) -> None:
    file = bytearray(write_file(ROWS, RECIPIENT))
    secret = unlock(bytes(file))
    at = data.draw(st.one_of(st.integers(0, 400), st.integers(0, len(file) - 1)))
    file[at] ^= 1 << data.draw(st.integers(0, 7))

    with pytest.raises(BackupError):
        read_file(bytes(file), secret)
    with pytest.raises(BackupError):
        read_file(bytes(file), unlock(bytes(file)))


def test_damage_of_a_sealed_file_is_told_from_a_missing_end() -> None:
    file = write_file([(FrameKind.ROWS, secrets.token_bytes(200_000))], RECIPIENT)
    head, parts = split_chunks(file)
    secret = unlock(file)

    assert len(parts) > 1
    with pytest.raises(BackupError, match="cut short"):
        read_file(file[:-1], secret)
    with pytest.raises(TruncatedError):
        read_file(head + b"".join(parts[:-1]), secret)
    with pytest.raises(DamagedError):
        read_file(head + b"".join(parts[:-1]) + bytes(len(parts[-1])), secret)
