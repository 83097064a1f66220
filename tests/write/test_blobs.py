"""Storing blobs in chunks, each for one record."""

import hashlib
from collections.abc import Iterator
from typing import Any

import pytest

from evidence.errors import ConnectionNotFound, InvalidRequest
from evidence.models.records import Blob, BlobChunk
from evidence.write.blobs import CHUNK_BYTES, put_blob
from evidence.write.record_erasure import delete_record
from tests.world import NOW, PERSONAL, World


def put(*chunks: bytes, **more: Any) -> Blob:
    named = {
        "connection_id": PERSONAL,
        "stream": "messages",
        "record_key": "m1",
        "media_type": "application/pdf",
    } | more
    return put_blob(named.pop("connection_id"), chunks=chunks, now=NOW, **named)


def pieces(blob: Blob) -> list[bytes]:
    rows = BlobChunk.unscoped.filter(connection_id=blob.connection_id, blob_id=blob.blob_id)
    return [bytes(each.content) for each in rows.order_by("position")]


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES - 1])
@pytest.mark.parametrize("chunk", [1000, CHUNK_BYTES, 5 * CHUNK_BYTES])
def test_bytes_are_stored_in_equal_chunks(world: World, size: int, chunk: int) -> None:
    content = bytes(range(256)) * (size // 256 + 1)
    content = content[:size]
    blob = put(*(content[at : at + chunk] for at in range(0, size, chunk)))
    kept = pieces(blob)
    assert b"".join(kept) == content
    assert all(len(piece) == CHUNK_BYTES for piece in kept[:-1])
    row = Blob.unscoped.get(connection_id=PERSONAL, blob_id=blob.blob_id)
    assert (row.size_bytes, bytes(row.sha256)) == (size, hashlib.sha256(content).digest())


def test_storing_an_id_again_replaces_its_bytes(world: World) -> None:
    put(b"a" * 600_000, blob_id="blb_one")
    blob = put(b"new", blob_id="blb_one", media_type="text/plain")
    assert pieces(blob) == [b"new"]
    assert Blob.unscoped.get(blob_id="blb_one").media_type == "text/plain"


def test_blob_id_of_another_record_is_refused(world: World) -> None:
    put(b"mine", blob_id="blb_one")
    with pytest.raises(InvalidRequest):
        put(b"theirs", blob_id="blb_one", record_key="m2")
    assert pieces(Blob.unscoped.get(blob_id="blb_one")) == [b"mine"]


def test_interrupted_upload_stores_nothing(world: World) -> None:
    def broken() -> Iterator[bytes]:
        yield b"x" * 1_000_000
        raise OSError

    with pytest.raises(OSError):  # noqa: PT011 - nothing more is known of it
        put_blob(
            PERSONAL,
            stream="messages",
            record_key="m1",
            media_type="image/png",
            chunks=broken(),
            now=NOW,
        )
    assert not Blob.unscoped.exists()
    assert not BlobChunk.unscoped.exists()


@pytest.mark.parametrize(
    "wrong",
    [{"blob_id": "a/b"}, {"blob_id": "x" * 129}, {"media_type": "png"}, {"media_type": "a/b\nc"}],
)
def test_invalid_id_or_media_type_is_refused(world: World, wrong: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest):
        put(b"", **wrong)


def test_blob_of_erased_record_is_refused(world: World) -> None:
    delete_record(PERSONAL, stream="messages", record_key="m1", suppress=True, now=NOW)
    with pytest.raises(InvalidRequest, match="erased"):
        put(b"x")


def test_unknown_connection_is_refused(world: World) -> None:
    with pytest.raises(ConnectionNotFound):
        put(b"x", connection_id="cin_nowhere")
