"""Blobs are valid files and match the records that refer to them."""

import hashlib
import struct
import zlib

from demo import life
from tests.demo import index


def test_blob_ref_matches_content() -> None:
    for blob in life.blobs():
        reference = index.find_record(blob)["data"]["blob_ref"]
        assert reference == {
            "blob_id": blob["blob_id"],
            "media_type": blob["media_type"],
            "size_bytes": len(blob["content"]),
            "sha256": hashlib.sha256(blob["content"]).hexdigest(),
        }


def test_every_blob_ref_has_a_blob() -> None:
    blobs = {(blob["connection_id"], blob["stream"], blob["record_key"]) for blob in life.blobs()}
    referring = {
        key for key, line in index.records().items() if line["data"].get("blob_ref") is not None
    }
    assert referring == blobs
    assert len(blobs) >= 10


def test_pictures_are_valid_png() -> None:
    pictures = [blob["content"] for blob in life.blobs() if blob["media_type"] == "image/png"]
    assert len(pictures) >= 4
    for content in pictures:
        assert content.startswith(b"\x89PNG\r\n\x1a\n")
        chunks = dict(_chunks(content))
        width, height = struct.unpack(">II", chunks[b"IHDR"][:8])
        assert len(zlib.decompress(chunks[b"IDAT"])) == height * (1 + 3 * width)


def _chunks(content: bytes) -> list[tuple[bytes, bytes]]:
    offset, chunks = 8, []
    while offset < len(content):
        (size,) = struct.unpack_from(">I", content, offset)
        kind, body = content[offset + 4 : offset + 8], content[offset + 8 : offset + 8 + size]
        (crc,) = struct.unpack_from(">I", content, offset + 8 + size)
        assert crc == zlib.crc32(kind + body)
        chunks.append((kind, body))
        offset += 12 + size
    return chunks


def test_pdf_cross_reference_tables_are_valid() -> None:
    pages = [blob["content"] for blob in life.blobs() if blob["media_type"] == "application/pdf"]
    assert pages
    for content in pages:
        assert content.startswith(b"%PDF-1.4\n")
        assert content.endswith(b"%%EOF\n")
        table = int(content.rsplit(b"startxref\n", 1)[1].split()[0])
        lines = content[table:].splitlines()
        assert lines[0] == b"xref"
        for number, entry in enumerate(lines[3:8], start=1):
            assert content[int(entry[:10]) :].startswith(b"%d 0 obj" % number)
