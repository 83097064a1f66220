"""Restart the server when a source file changes, for `manage.py run --reload`.

The parent process holds the embedded PostgreSQL, so the database keeps running between restarts.
"""

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

POLL_SECONDS = 0.5
STOP_SECONDS = 30
SUFFIXES = frozenset((".css", ".html", ".js", ".json", ".py", ".toml"))


def run_with_reload(command: Sequence[str], folders: Sequence[Path]) -> None:
    """Run `command` until interrupted, and start it again after each change in `folders`.

    A command that ends by itself, as after a syntax error, is started again at the next change.
    """
    process = subprocess.Popen(command)
    try:
        for paths in _changes(folders):
            sys.stderr.write(f"Restarting after a change of {paths[0].name}.\n")
            _stop(process)
            process = subprocess.Popen(command)
    finally:
        _stop(process)


def _changes(folders: Sequence[Path]) -> Iterator[list[Path]]:
    """Yield the changed, new and deleted files after each change."""
    before = _modification_times(folders)
    while True:
        time.sleep(POLL_SECONDS)
        now = _modification_times(folders)
        if changed := sorted({path for path, _ in before.items() ^ now.items()}):
            before = now
            yield changed


def _modification_times(folders: Sequence[Path]) -> dict[Path, int]:
    times = {}
    for folder in folders:
        for path in folder.rglob("*"):
            if path.suffix in SUFFIXES:
                with contextlib.suppress(FileNotFoundError):
                    times[path] = path.stat().st_mtime_ns
    return times


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """Stop a server with SIGTERM, and with SIGKILL if it does not end in time."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
