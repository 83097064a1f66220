"""Generate small PNG images and PDF documents, byte for byte the same everywhere."""

from __future__ import annotations

import hashlib
import struct
import zlib
from dataclasses import dataclass
from functools import cache
from typing import Any

from demo.rng import Rng

SIZE = 96


@dataclass(frozen=True, kw_only=True)
class GeneratedFile:
    """The content of an attachment."""

    media_type: str
    content: bytes

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    @property
    def blob_id(self) -> str:
        return f"blob_{self.sha256[:24]}"

    def blob_ref(self) -> dict[str, Any]:
        """Return the `blob_ref` of a record."""
        return {
            "blob_id": self.blob_id,
            "media_type": self.media_type,
            "size_bytes": len(self.content),
            "sha256": self.sha256,
        }


def generate_file(entry: dict[str, Any]) -> GeneratedFile:
    """Generate the file of an entry with a `filename` and a `picture` name or a `text`."""
    if "picture" in entry:
        return GeneratedFile(media_type="image/png", content=picture(entry["picture"]))
    if entry["filename"].endswith(".pdf"):
        return GeneratedFile(media_type="application/pdf", content=pdf(entry["text"]))
    return GeneratedFile(media_type="text/plain", content=entry["text"].encode())


@cache
def picture(name: str) -> bytes:
    """Return a PNG landscape that depends on the name: a sky, a sun and three hills."""
    rng = Rng(f"picture/{name}")
    sky = [rng.between(120, 210) for _ in range(3)]
    sun = (rng.between(20, SIZE - 20), rng.between(14, 36), rng.between(6, 11))
    hills = [
        (rng.between(42, 84), rng.between(-18, 18), [rng.between(20, 130) for _ in range(3)])
        for _ in range(3)
    ]
    hills.sort(key=lambda hill: hill[0])
    rows = b"".join(
        b"\0" + b"".join(_pixel(x, y=y, sky=sky, sun=sun, hills=hills) for x in range(SIZE))
        for y in range(SIZE)
    )
    header = struct.pack(">IIBBBBB", SIZE, SIZE, 8, 2, 0, 0, 0)
    # Uncompressed, because zlib builds compress to different bytes.
    return (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", body=header)
        + _chunk(b"IDAT", body=_stored(rows))
        + _chunk(b"IEND", body=b"")
    )


def _pixel(
    x: int,
    *,
    y: int,
    sky: list[int],
    sun: tuple[int, int, int],
    hills: list[tuple[int, int, list[int]]],
) -> bytes:
    color = [min(255, part + y // 4) for part in sky]
    if (x - sun[0]) ** 2 + (y - sun[1]) ** 2 < sun[2] ** 2:
        color = [255, 236, 170]
    for top, slope, shade in hills:
        if y > top + slope * (x - SIZE // 2) // SIZE:
            color = shade
    return bytes(color)


def _chunk(kind: bytes, *, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def _stored(body: bytes) -> bytes:
    """Return a zlib stream of uncompressed blocks."""
    blocks = [body[at : at + 65535] for at in range(0, len(body), 65535)]
    stream = b"\x78\x01"
    for number, block in enumerate(blocks):
        last = number == len(blocks) - 1
        stream += bytes([last]) + struct.pack("<HH", len(block), 0xFFFF ^ len(block)) + block
    return stream + struct.pack(">I", zlib.adler32(body))


def pdf(text: str) -> bytes:
    """Return a one-page PDF of `text` with a valid cross-reference table."""
    lines = "".join(f"({_pdf_string(line)}) Tj T*\n" for line in text.strip().splitlines())
    stream = f"BT /F1 11 Tf 14 TL 56 780 Td\n{lines}ET\n".encode("cp1252", "replace")
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 5 0 R"
        b" /Resources << /Font << /F1 4 0 R >> >> >>",
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        b"<< /Length %d >>\nstream\n%sendstream" % (len(stream), stream),
    ]
    out = b"%PDF-1.4\n"
    offsets = []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    size = len(objects) + 1
    return out + (
        b"xref\n0 %d\n0000000000 65535 f \n%strailer\n<< /Size %d /Root 1 0 R >>\n"
        b"startxref\n%d\n%%%%EOF\n" % (size, table, size, len(out))
    )


def _pdf_string(line: str) -> str:
    return line.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")
