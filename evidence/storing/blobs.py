"""Store the bytes that belong to a record."""

import hashlib
import re
import secrets
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime

from django.db import connection, transaction

from evidence.errors import InvalidRequest
from evidence.models.digests import key_digest
from evidence.models.records import Blob
from evidence.storing.locks import lock_connection

CHUNK_BYTES = 256 * 1024
BLOB_ID = re.compile(r"[A-Za-z0-9._~-]{1,128}")
MEDIA_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]{1,64}/[A-Za-z0-9!#$&^_.+-]{1,64}(?:;[ -~]{1,128})?")


def put_blob(
    connection_id: str,
    *,
    stream: str,
    record_key: str,
    media_type: str,
    chunks: Iterable[bytes],
    now: datetime,
    blob_id: str | None = None,
) -> Blob:
    """Store the bytes of ``chunks``, of any sizes, under the given or a new id.

    Storing an id again replaces its bytes, for the same record only. The connection stays locked
    while chunks are read, so have them ready. Raises ``ConnectionNotFound``, and
    ``InvalidRequest`` for an invalid id or media type or an erased record.
    """
    blob = Blob(
        connection_id=connection_id,
        blob_id=_validate(blob_id or "blb_" + secrets.token_hex(12), BLOB_ID, "blob_id"),
        stream=stream,
        record_key=record_key,
        media_type=_validate(media_type, MEDIA_TYPE, "media_type"),
        size_bytes=0,
        created_at=now,
    )
    with transaction.atomic():
        lock_connection(connection_id)
        _delete_replaced(blob)
        _store_chunks(blob, chunks)
        blob.save(force_insert=True)
    return blob


def _store_chunks(blob: Blob, chunks: Iterable[bytes]) -> None:
    """Store the chunks, and set the blob's size and hash."""
    digest = hashlib.sha256()
    with connection.cursor() as cursor:
        for position, content in enumerate(_split_chunks(chunks)):
            digest.update(content)
            blob.size_bytes += len(content)
            cursor.execute(
                "INSERT INTO evidence_blobchunk (connection_id, blob_id, position, content)"
                " VALUES (%s, %s, %s, %s)",
                [blob.connection_id, blob.blob_id, position, content],
            )
    blob.sha256 = digest.digest()


def _validate(text: str, pattern: re.Pattern[str], param: str) -> str:
    if not pattern.fullmatch(text):
        raise InvalidRequest(message=f"{param} is not valid.", param=param)
    return text


def _delete_replaced(blob: Blob) -> None:
    """Delete the bytes that the blob replaces. Raises ``InvalidRequest`` if it cannot be stored."""
    digest = key_digest(blob.record_key, connection_id=blob.connection_id, stream=blob.stream)
    name = [blob.connection_id, blob.blob_id]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT FROM evidence_suppression"
            " WHERE connection_id = %s AND stream = %s AND key_digest = %s",
            [blob.connection_id, blob.stream, digest],
        )
        if cursor.rowcount:
            raise InvalidRequest(message="The owner erased this record.", param="record_key")
        cursor.execute(
            "DELETE FROM evidence_blob WHERE connection_id = %s AND blob_id = %s"
            " RETURNING stream, record_key",
            name,
        )
        if cursor.fetchone() not in (None, (blob.stream, blob.record_key)):
            raise InvalidRequest(message="The blob belongs to another record.", param="blob_id")
        cursor.execute(
            "DELETE FROM evidence_blobchunk WHERE connection_id = %s AND blob_id = %s", name
        )


def _split_chunks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in chunks of CHUNK_BYTES; the last one may be shorter."""
    buffer = bytearray()
    for chunk in chunks:
        for start in range(0, len(chunk), CHUNK_BYTES):
            buffer += chunk[start : start + CHUNK_BYTES]
            if len(buffer) >= CHUNK_BYTES:
                yield bytes(buffer[:CHUNK_BYTES])
                del buffer[:CHUNK_BYTES]
    if buffer:
        yield bytes(buffer)


def stored_blobs(connection_id: str, blob_ids: Collection[str]) -> frozenset[str]:
    """Return which of ``blob_ids`` are stored for the connection."""
    rows = Blob.unscoped.filter(connection_id=connection_id, blob_id__in=list(blob_ids))
    return frozenset(rows.values_list("blob_id", flat=True))
