"""`manage.py run --reload` starts the server again after a change of a source file."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")

PARENT = """
import sys
from pathlib import Path
from pdpp_site import command_line, reloader
import signal
signal.signal(signal.SIGTERM, command_line._exit_on_signal)
reloader.POLL_SECONDS = 0.02
reloader.run_with_reload([sys.executable, sys.argv[1]], [Path(sys.argv[2])])
"""
SERVER = "import os, time; open({log!r}, 'a').write(f'{{os.getpid()}}\\n'); {then}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    watched = tmp_path / "watched"
    watched.mkdir()
    write_server(watched, "time.sleep(600)")
    return watched


@pytest.fixture
def parent(folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    root = Path(__file__).parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(folder / "server.py"), str(folder)], cwd=root
    )
    yield process
    process.terminate()  # which also ends its server
    process.wait(60)


def write_server(folder: Path, then: str) -> None:
    (folder / "server.py").write_text(SERVER.format(log=str(folder.parent / "log"), then=then))


def started(folder: Path, count: int) -> list[int]:
    """Wait until `count` servers have started, and return their process ids."""
    log = folder.parent / "log"
    return await_that(
        lambda: [int(line) for line in log.read_text().split()] if log.exists() else [],
        lambda ids: len(ids) >= count,
    )


def await_that(look: Callable[[], T], is_done: Callable[[T], bool]) -> T:
    deadline = time.monotonic() + 60
    while not is_done(found := look()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


def runs(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_changed_template_restarts_the_server(
    folder: Path, parent: "subprocess.Popen[bytes]"
) -> None:
    [first] = started(folder, 1)
    (folder / "page.html").write_text("<p>")

    _, second = started(folder, 2)
    assert not runs(first)
    assert runs(second)

    parent.send_signal(signal.SIGTERM)
    assert parent.wait(60) == 128 + signal.SIGTERM
    assert not runs(second)


def test_a_server_that_failed_starts_again_after_the_next_change(
    folder: Path, parent: "subprocess.Popen[bytes]"
) -> None:
    started(folder, 1)
    write_server(folder, "raise SystemExit(1)")
    started(folder, 2)

    write_server(folder, "time.sleep(600)")
    assert runs(started(folder, 3)[2])
    assert parent.poll() is None
