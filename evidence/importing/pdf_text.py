"""The text of PDF files, read by another process: what is in them can take for ever, or all memory.

The process is started with the first PDF, serves one after the other, and is replaced when it
takes too long, runs out of the memory that it may have, or dies.
"""

import atexit
import subprocess
import sys
import threading
from pathlib import Path

import orjson

SECONDS = 20
PDF_BYTES = 50 * 1024 * 1024
_PROGRAM = Path(__file__).with_name("pdf_worker.py")


class _Worker:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def read(self, content: bytes) -> tuple[str | None, int | None]:
        with self._lock:
            process = self._running()
            watch = threading.Timer(SECONDS, process.kill)
            watch.start()
            try:
                return _asked(process, content)
            except (OSError, ValueError):
                self._end()
                return None, None
            finally:
                watch.cancel()

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


def _asked(process: "subprocess.Popen[bytes]", content: bytes) -> tuple[str | None, int | None]:
    if process.stdin is None or process.stdout is None:
        raise ValueError("no pipes")
    process.stdin.write(b"%d\n" % len(content) + content)
    process.stdin.flush()
    answer = orjson.loads(process.stdout.readline())
    return answer["text"], answer["pages"]


_worker = _Worker()
atexit.register(_worker.end)


def read(content: bytes) -> tuple[str | None, int | None]:
    """The text, None where there is none to be had, and the number of pages where it is known."""
    if len(content) > PDF_BYTES or b"%PDF" not in content[:1024]:
        return None, None
    return _worker.read(content)


def end() -> None:
    """Ends the process, if there is one."""
    _worker.end()
