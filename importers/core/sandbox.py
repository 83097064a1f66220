"""Parse PDF and TNEF files in a subprocess with time and memory limits.

The subprocess starts with the first file and parses one file after another. It exits by itself
when a file takes too long; the next file starts a new one.
"""

import atexit
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import orjson

TIMEOUT_SECONDS = {b"pdf": 20, b"tnef": 5}
PDF_MAX_BYTES = 50 * 1024 * 1024
_PROGRAM = Path(__file__).with_name("sandbox_worker.py")
_TNEF_SIGNATURE = b"\x78\x9f\x3e\x22"

SandboxResult = tuple[dict[str, Any], list[bytes]]


class _SandboxProcess:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def request(self, format_name: bytes, content: bytes) -> SandboxResult | None:
        """Return None when the subprocess exits instead of responding."""
        with self._lock:
            process = self._running()
            try:
                return _exchange(process, format_name, content)
            except (OSError, ValueError):
                self._stop()
                return None

    def stop(self) -> None:
        with self._lock:
            self._stop()

    def _running(self) -> "subprocess.Popen[bytes]":
        if self._process is None or self._process.poll() is not None:
            self._stop()
            self._process = subprocess.Popen(
                [sys.executable, "-I", str(_PROGRAM)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        return self._process

    def _stop(self) -> None:
        if self._process is None:
            return
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:  # buffered bytes could not be written
                    continue
        self._process.wait()
        self._process = None


def _exchange(
    process: "subprocess.Popen[bytes]", format_name: bytes, content: bytes
) -> SandboxResult:
    if process.stdin is None or process.stdout is None:
        raise ValueError("no pipes")
    process.stdin.write(b"%s %f %d\n" % (format_name, TIMEOUT_SECONDS[format_name], len(content)))
    process.stdin.write(content)
    process.stdin.flush()
    header = orjson.loads(process.stdout.readline())
    return header, [process.stdout.read(size) for size in header["sizes"]]


_process = _SandboxProcess()
stop = _process.stop
"""Stop the subprocess, if one is running."""
atexit.register(stop)


def parse_pdf(content: bytes) -> tuple[str | None, int | None]:
    """Return the text of a PDF and its number of pages, each None where it cannot be read."""
    if len(content) > PDF_MAX_BYTES or b"%PDF" not in content[:1024]:
        return None, None
    result = _process.request(b"pdf", content)
    return (None, None) if result is None else (result[0]["text"], result[0]["pages"])


def parse_tnef(content: bytes) -> SandboxResult | None:
    """Return {"names", "body"} with the bytes of the files, followed by those of the body.

    "body" is "plain", "html" or None. Returns None for damaged TNEF or another format.
    """
    if not content.startswith(_TNEF_SIGNATURE):
        return None
    result = _process.request(b"tnef", content)
    return None if result is None or result[0]["names"] is None else result
