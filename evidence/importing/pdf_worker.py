"""Reads PDFs from standard input, their length on a line before each, and answers with a line of
JSON each: {"text", "pages"}. Run as a program, with nothing of ours around it."""

import io
import json
import logging
import resource
import sys

from pypdf import PdfReader

PAGES = 500
CHARS = 1_000_000
MEMORY = 1024 * 1024 * 1024


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    logging.disable(logging.CRITICAL)
    while line := sys.stdin.buffer.readline():
        text, pages = read(sys.stdin.buffer.read(int(line)))
        answer = json.dumps({"text": text, "pages": pages})
        sys.stdout.buffer.write(answer.encode("ascii") + b"\n")
        sys.stdout.buffer.flush()


def read(content: bytes) -> tuple[str | None, int | None]:
    """What could be read until something went wrong."""
    texts: list[str] = []
    pages = None
    try:
        reader = PdfReader(io.BytesIO(content))
        pages = len(reader.pages)
        for page in reader.pages[:PAGES]:
            texts.append(page.extract_text())
            if sum(map(len, texts)) > CHARS:
                break
    except Exception:  # noqa: BLE001, S110 - the parser raises whatever it stumbles over
        pass
    text = "\n\n".join(filter(None, (each.strip() for each in texts)))
    clean = text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
    return clean[:CHARS] or None, pages


if __name__ == "__main__":
    main()
