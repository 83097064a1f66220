"""Parse PDF and TNEF files read from standard input; runs as the sandbox subprocess.

A request is a line of the format (``pdf`` or ``tnef``), seconds and length, followed by that many
bytes. The response is a line of JSON, followed by as many bytes as each of its "sizes". The process
exits when the seconds are over, even if its parent is gone. It imports no module of this project.
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

MAX_PAGES = 500
MAX_CHARS = 1_000_000
MEMORY_BYTES = 1024 * 1024 * 1024

SandboxResult = tuple[dict[str, Any], list[bytes]]


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    logging.disable(logging.CRITICAL)
    while line := sys.stdin.buffer.readline():
        format_name, seconds, size = line.split()
        content = sys.stdin.buffer.read(int(size))
        # SIGALRM without a handler ends the process, even inside C code.
        signal.setitimer(signal.ITIMER_REAL, float(seconds))
        fields, parts = PARSERS[format_name](content)
        signal.setitimer(signal.ITIMER_REAL, 0)
        header = json.dumps(fields | {"sizes": [len(part) for part in parts]})
        sys.stdout.buffer.write(header.encode("ascii") + b"\n" + b"".join(parts))
        sys.stdout.buffer.flush()


def parse_pdf(content: bytes) -> SandboxResult:
    """Return {"text", "pages"}, with the text of all pages before the first damaged one."""
    texts: list[str] = []
    pages = None
    try:
        reader = PdfReader(io.BytesIO(content))
        pages = len(reader.pages)
        for page in reader.pages[:MAX_PAGES]:
            texts.append(page.extract_text())
            if sum(map(len, texts)) > MAX_CHARS:
                break
    except Exception:  # noqa: BLE001, S110 - the parser raises arbitrary errors on damaged files
        pass
    text = "\n\n".join(filter(None, (text.strip() for text in texts)))
    text = text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
    return {"text": text[:MAX_CHARS] or None, "pages": pages}, []


def parse_tnef(content: bytes) -> SandboxResult:
    """Return {"names", "body"} with the bytes of the files, followed by those of the body.

    "body" is "plain", "html" or None. "names" is None for damaged TNEF or another format.
    """
    try:
        tnef = TNEF(content, do_checksum=False)
        files = [(str(attachment.long_filename() or ""), bytes(attachment.data or b""))
                 for attachment in tnef.attachments]  # fmt: skip
        body_type, body = next(_bodies(tnef), (None, b""))
    except Exception:  # noqa: BLE001 - the parser raises arbitrary errors on damaged files
        return {"names": None, "body": None}, []
    fields = {"names": [name for name, _ in files], "body": body_type}
    return fields, [*(data for _, data in files), body]


def _bodies(tnef: TNEF) -> Iterator[tuple[str, bytes]]:
    for body_type, text in (("plain", tnef.body), ("html", tnef.htmlbody)):
        if text:
            content = text if isinstance(text, bytes) else str(text).encode("utf-8", "replace")
            yield body_type, content


PARSERS = {b"pdf": parse_pdf, b"tnef": parse_tnef}

if __name__ == "__main__":
    main()
