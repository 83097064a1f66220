"""Blobs: real pictures and pages, described truly by the records that point at them."""

import hashlib
import struct
import zlib

from demo import life
from tests.demo import index


def test_every_blob_is_what_its_record_says() -> None:
    for blob in life.blobs():
        reference = index.named(blob)["data"]["blob_ref"]
        assert reference == {
            "blob_id": blob["blob_id"],
            "media_type": blob["media_type"],
            "size_bytes": len(blob["content"]),
            "sha256": hashlib.sha256(blob["content"]).hexdigest(),
        }


def test_every_reference_has_its_blob() -> None:
    made = {(blob["connection_id"], blob["stream"], blob["record_key"]) for blob in life.blobs()}
    referring = {
        key for key, line in index.records().items() if line["data"].get("blob_ref") is not None
    }
    assert referring == made
    assert len(made) >= 10


def test_pictures_are_valid_png() -> None:
    pictures = [blob["content"] for blob in life.blobs() if blob["media_type"] == "image/png"]
    assert len(pictures) >= 4
    for content in pictures:
        assert content.startswith(b"\x89PNG\r\n\x1a\n")
        chunks = dict(_chunks(content))
        width, height = struct.unpack(">II", chunks[b"IHDR"][:8])
        assert len(zlib.decompress(chunks[b"IDAT"])) == height * (1 + 3 * width)


def _chunks(content: bytes) -> list[tuple[bytes, bytes]]:
    at, found = 8, []
    while at < len(content):
        (size,) = struct.unpack_from(">I", content, at)
        kind, body = content[at + 4 : at + 8], content[at + 8 : at + 8 + size]
        (crc,) = struct.unpack_from(">I", content, at + 8 + size)
        assert crc == zlib.crc32(kind + body)
        found.append((kind, body))
        at += 12 + size
    return found


def test_pages_are_pdf_whose_table_points_at_its_objects() -> None:
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
