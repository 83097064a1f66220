"""PDF and TNEF, read by another process: what is in them can take for ever, or all memory.

The process is started with the first file, serves one after the other, and is replaced when it
has ended: it does so by itself when it takes too long.
"""

import atexit
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import orjson

SECONDS = {b"pdf": 20, b"tnef": 5}
PDF_BYTES = 50 * 1024 * 1024
_PROGRAM = Path(__file__).with_name("sandbox_worker.py")
_TNEF = b"\x78\x9f\x3e\x22"

Answer = tuple[dict[str, Any], list[bytes]]


class _Worker:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, kind: bytes, content: bytes) -> Answer | None:
        """None where it did not come back."""
        with self._lock:
            process = self._running()
            try:
                return _asked(process, kind, content)
            except (OSError, ValueError):
                self._end()
                return None

    def _running(self) -> "subprocess.Popen[bytes]":
        if self._process is None or self._process.poll() is not None:
            self._end()
            self._process = subprocess.Popen(
                [sys.executable, "-I", str(_PROGRAM)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        return self._process

    def end(self) -> None:
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._process is None:
            return
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:  # what was not yet written has nowhere to go
                    continue
        self._process.wait()
        self._process = None


def _asked(process: "subprocess.Popen[bytes]", kind: bytes, content: bytes) -> Answer:
    if process.stdin is None or process.stdout is None:
        raise ValueError("no pipes")
    process.stdin.write(b"%s %f %d\n" % (kind, SECONDS[kind], len(content)))
    process.stdin.write(content)
    process.stdin.flush()
    said = orjson.loads(process.stdout.readline())
    return said, [process.stdout.read(size) for size in said["sizes"]]


_worker = _Worker()
atexit.register(_worker.end)


def pdf(content: bytes) -> tuple[str | None, int | None]:
    """The text, None where there is none to be had, and the number of pages where it is known."""
    if len(content) > PDF_BYTES or b"%PDF" not in content[:1024]:
        return None, None
    answer = _worker.ask(b"pdf", content)
    return (None, None) if answer is None else (answer[0]["text"], answer[0]["pages"])


def tnef(content: bytes) -> Answer | None:
    """{"names", "body"} with the bytes of the files and then of the body, which is "plain", "html"
    or None. None for what is no TNEF, or a damaged one."""
    if not content.startswith(_TNEF):
        return None
    answer = _worker.ask(b"tnef", content)
    return None if answer is None or answer[0]["names"] is None else answer


def end() -> None:
    """Ends the process, if there is one."""
    _worker.end()
