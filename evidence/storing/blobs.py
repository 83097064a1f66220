"""Bytes that belong to a record, taken in piece by piece."""

import hashlib
import re
import secrets
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime

from django.db import connection, transaction

from evidence.errors import InvalidRequest
from evidence.models.digests import key_digest
from evidence.models.records import Blob
from evidence.storing.locks import hold_one

PIECE_BYTES = 256 * 1024
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
    """Keeps the bytes of ``chunks``, of whatever sizes, under a given or a new id.

    The same id again replaces the bytes, for the same record only. The connection is held
    meanwhile, so the chunks should be at hand. Raises ``ConnectionNotFound``, and
    ``InvalidRequest`` for an id or media type that will not do or a record that was erased.
    """
    blob = Blob(
        connection_id=connection_id,
        blob_id=_checked(blob_id or "blb_" + secrets.token_hex(12), BLOB_ID, "blob_id"),
        stream=stream,
        record_key=record_key,
        media_type=_checked(media_type, MEDIA_TYPE, "media_type"),
        size_bytes=0,
        created_at=now,
    )
    with transaction.atomic():
        hold_one(connection_id)
        _make_room(blob)
        _fill(blob, chunks)
        blob.save(force_insert=True)
    return blob


def _fill(blob: Blob, chunks: Iterable[bytes]) -> None:
    """Stores the pieces, and tells the blob what they come to."""
    digest = hashlib.sha256()
    with connection.cursor() as cursor:
        for position, piece in enumerate(_pieces(chunks)):
            digest.update(piece)
            blob.size_bytes += len(piece)
            cursor.execute(
                "INSERT INTO evidence_blobchunk (connection_id, blob_id, position, content)"
                " VALUES (%s, %s, %s, %s)",
                [blob.connection_id, blob.blob_id, position, piece],
            )
    blob.sha256 = digest.digest()


def _checked(text: str, grammar: re.Pattern[str], param: str) -> str:
    if not grammar.fullmatch(text):
        raise InvalidRequest(message=f"The {param} is not valid.", param=param)
    return text


def _make_room(blob: Blob) -> None:
    """Refuses a blob that cannot be, and takes away the bytes that it replaces."""
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


def _pieces(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces of PIECE_BYTES, the last one shorter."""
    waiting = bytearray()
    for chunk in chunks:
        for start in range(0, len(chunk), PIECE_BYTES):
            waiting += chunk[start : start + PIECE_BYTES]
            if len(waiting) >= PIECE_BYTES:
                yield bytes(waiting[:PIECE_BYTES])
                del waiting[:PIECE_BYTES]
    if waiting:
        yield bytes(waiting)


def kept_blobs(connection_id: str, blob_ids: Collection[str]) -> frozenset[str]:
    """Those of ``blob_ids`` that the connection has."""
    rows = Blob.unscoped.filter(connection_id=connection_id, blob_id__in=list(blob_ids))
    return frozenset(rows.values_list("blob_id", flat=True))
