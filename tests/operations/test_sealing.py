"""What comes out of a sealed file is what went in, all of it, or nothing that is used."""

import zlib
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operations.backup.archive import (
    PIECE_BYTES,
    TAG_BYTES,
    Frame,
    FrameWriter,
    Kind,
    Opener,
    Sealer,
    Secret,
    frames,
)
from operations.backup.errors import BackupFault, CutShort, WrongKey
from operations.backup.restore import Backup

KEY = Secret("file", b"k" * 32)
contents = st.lists(
    st.tuples(st.sampled_from(Kind), st.binary(max_size=400)), min_size=1, max_size=12
)


def sealed(told: list[tuple[Kind, bytes]], secret: Secret = KEY) -> bytes:
    file = BytesIO()
    writer = FrameWriter(Sealer(file, secret))
    for kind, content in told:
        writer.write(kind, content)
    writer.close()
    return file.getvalue()


def opened(file: bytes, secret: Secret = KEY) -> list[Frame]:
    return list(frames(Opener(BytesIO(file), secret)))


def pieces(file: bytes) -> tuple[bytes, list[bytes]]:
    start = file.index(b"\n", file.index(b"\n") + 1) + 1
    size = PIECE_BYTES + TAG_BYTES
    return file[:start], [file[at : at + size] for at in range(start, len(file), size)]


@given(contents)
def test_what_was_written_is_read(told: list[tuple[Kind, bytes]]) -> None:
    assert opened(sealed(told)) == told


@given(contents, st.data())
def test_any_bit_that_changes_is_noticed(
    told: list[tuple[Kind, bytes]], data: st.DataObject
) -> None:
    file = bytearray(sealed(told))
    at = data.draw(st.integers(0, len(file) - 1))
    file[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(BackupFault):
        opened(bytes(file))


@given(contents, st.data())
def test_any_end_that_is_missing_is_noticed(
    told: list[tuple[Kind, bytes]], data: st.DataObject
) -> None:
    file = sealed(told)
    with pytest.raises(BackupFault):
        opened(file[: data.draw(st.integers(0, len(file) - 1))])


@pytest.mark.parametrize(
    "line",
    [b"", b"[]", b"1", b"{}", b'{"salt":"00","key":"file"}', b'{"salt":1,"key":"file","log_n":16}',
     b'{"salt":"0g","key":"file","log_n":16}', b'{"salt":"00","key":"file","log_n":16.0}',
     b'{"salt":"00","key":"file","log_n":true}', b'{"salt":"00","key":"file","log_n":60}',
     b'{"salt":"00","key":["file"],"log_n":16}', b"\xff"],
)  # fmt: skip
def test_whatever_a_file_says_of_its_key_is_not_believed(line: bytes) -> None:
    with pytest.raises(WrongKey):
        opened(b"pdpp backup 1\n" + line + b"\n" + bytes(100))


@pytest.mark.parametrize(
    "inside",
    [b"no stream of zlib", zlib.compress(b"X" + bytes(4)), zlib.compress(b"R\xff\xff\xff\xff" + b"x"),
     zlib.compress(b"M" + (2).to_bytes(4) + b"[]")],
)  # fmt: skip
def test_whoever_knows_the_key_can_make_no_file_that_does_harm(inside: bytes) -> None:
    file = BytesIO()
    sealer = Sealer(file, KEY)
    sealer.write(inside)
    sealer.close()
    with pytest.raises(BackupFault):
        Backup(BytesIO(file.getvalue()), KEY)


def test_pieces_keep_their_places() -> None:
    import random

    told = [(Kind.ROWS, random.Random(n).randbytes(90_000)) for n in range(4)]  # noqa: S311
    head, parts = pieces(sealed(told))
    assert len(parts) == 6
    assert opened(head + b"".join(parts)) == told
    other_head, others = pieces(sealed(told))
    for wrong in (
        [parts[1], parts[0], *parts[2:]],
        [*parts[:2], *parts[3:]],
        [*parts[:2], parts[1], *parts[2:]],
        [parts[0], others[1], *parts[2:]],
        [*parts, parts[-1]],
    ):
        sealing = Opener(BytesIO(head + b"".join(wrong)), KEY)
        with pytest.raises(BackupFault):  # before anybody looks at what is inside
            list(iter(sealing.read, b""))
    with pytest.raises(CutShort):
        opened(head + b"".join(parts[:-1]))
    with pytest.raises(WrongKey):
        opened(other_head + b"".join(parts))


def test_what_goes_before_the_end_is_not_the_end() -> None:
    """The last frame is given out only once the file is known to be whole."""
    told = [(Kind.ROWS, bytes(10)), (Kind.CLOSING, b"{}")]
    reading = frames(Opener(BytesIO(sealed(told) + bytes(PIECE_BYTES)), KEY))
    with pytest.raises(BackupFault):
        assert next(reading).kind is Kind.ROWS
    assert list(reading) == []


def test_a_passphrase_opens_what_it_closed_and_nothing_else_does() -> None:
    secret = Secret("passphrase", "Zwölf Boxkämpfer".encode())
    file = sealed([(Kind.CLOSING, b"{}")], secret)
    assert opened(file, secret) == [(Kind.CLOSING, b"{}")]
    for wrong in (Secret("passphrase", b"Zwoelf Boxkaempfer"), Secret("file", b"k" * 32)):
        with pytest.raises(WrongKey):
            opened(file, wrong)
