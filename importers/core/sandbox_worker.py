"""Reads what can take for ever, or all memory. Run as a program, with nothing of ours around it.

Asked on standard input with a line, ``pdf`` or ``tnef``, seconds and a length, and as many bytes;
answers with a line of JSON, and for each of its "sizes" as many bytes more. It ends by itself once
the seconds are over, also when nobody is there any more who could end it.
"""

import io
import json
import logging
import resource
import signal
import sys
from collections.abc import Iterator
from typing import Any

from pypdf import PdfReader
from tnefparse import TNEF

PAGES = 500
CHARS = 1_000_000
MEMORY = 1024 * 1024 * 1024

Answer = tuple[dict[str, Any], list[bytes]]


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    logging.disable(logging.CRITICAL)
    while line := sys.stdin.buffer.readline():
        kind, seconds, size = line.split()
        content = sys.stdin.buffer.read(int(size))
        # Without a handler the alarm ends the process, in the middle of whatever it does.
        signal.setitimer(signal.ITIMER_REAL, float(seconds))
        said, parts = READERS[kind](content)
        signal.setitimer(signal.ITIMER_REAL, 0)
        answer = json.dumps(said | {"sizes": [len(part) for part in parts]})
        sys.stdout.buffer.write(answer.encode("ascii") + b"\n" + b"".join(parts))
        sys.stdout.buffer.flush()


def pdf(content: bytes) -> Answer:
    """{"text", "pages"}: what could be read until something went wrong."""
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
    return {"text": clean[:CHARS] or None, "pages": pages}, []


def tnef(content: bytes) -> Answer:
    """{"names", "body"} with the bytes of the files and then of the body; "body" is "plain", "html"
    or None, and "names" is None for what is no TNEF."""
    try:
        parsed = TNEF(content, do_checksum=False)
        files = [(str(each.long_filename() or ""), bytes(each.data or b""))
                 for each in parsed.attachments]  # fmt: skip
        body, text = next(_bodies(parsed), (None, b""))
    except Exception:  # noqa: BLE001 - the parser raises whatever it stumbles over
        return {"names": None, "body": None}, []
    return {"names": [name for name, _ in files], "body": body}, [
        *(data for _, data in files),
        text,
    ]


def _bodies(parsed: TNEF) -> Iterator[tuple[str, bytes]]:
    for kind, text in (("plain", parsed.body), ("html", parsed.htmlbody)):
        if text:
            yield kind, text if isinstance(text, bytes) else str(text).encode("utf-8", "replace")


READERS = {b"pdf": pdf, b"tnef": tnef}

if __name__ == "__main__":
    main()
