"""Run one MCP host in a home folder of its own, and allow what it asks for in a browser."""

import os
import pty
import re
import signal
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from selenium.common.exceptions import WebDriverException
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from bench.served import ROOT, DemoServer
from tests.browser.chromium import press, reach, wait_for

BIN = ROOT / "var" / "hosts" / "node_modules" / ".bin"
SIGN_IN_SECONDS, CALL_SECONDS = 60, 180
# A terminal without a size draws no prompt; a wide one shows the address of the page in one line.
TERMINAL_SIZE = (40, 1_000)
_AUTHORIZE = re.compile(r"http\S+/oauth/authorize\?[\w%&=.~+-]+")
_OPENER = """#!/bin/sh
for url in "$@"; do case "$url" in http*) printf '%s\\n' "$url" >>"$PDPP_OPENED";; esac; done
"""


@dataclass(frozen=True, slots=True)
class Session:
    """Where one host runs: its folders, the two servers, and the browser of the owner."""

    home: Path
    server: DemoServer
    model_url: str
    browser: Chrome

    @property
    def mcp_url(self) -> str:
        return f"{self.server.url}/mcp"

    @property
    def environment(self) -> dict[str, str]:
        opener = str(self.home / "bin" / "xdg-open")
        return {
            "PATH": f"{self.home / 'bin'}:{BIN}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "BROWSER": opener,
            "DISPLAY": ":0",
            "TERM": "xterm-256color",
            "PDPP_OPENED": str(self.home / "opened"),
        }

    def start(
        self, *command: str, terminal: bool = False, typed: str = "", **environment: Any
    ) -> "subprocess.Popen[bytes]":
        """Start a command of the host, if it asks for one with a terminal of its own, and type there."""
        log = (self.home / "log").open("ab")
        if not (terminal or typed):
            return self._popen(command, environment, subprocess.DEVNULL, log)
        leader, follower = pty.openpty()
        termios.tcsetwinsize(follower, TERMINAL_SIZE)
        process = self._popen(command, environment, follower, follower)
        os.close(follower)
        threading.Thread(target=_copy, args=(leader, log), daemon=True).start()
        if typed:
            self._type(leader, typed)
        return process

    def _type(self, terminal: int, typed: str) -> None:
        """Type a line when the host is ready for one, then Enter, and Enter at its question."""
        log = self.home / "log"
        deadline = time.monotonic() + SIGN_IN_SECONDS
        while b"Type your message" not in log.read_bytes():
            if time.monotonic() > deadline:
                return
            time.sleep(0.2)
        for keys in (typed, "\r", "\r"):
            # Until its suggestions match what was typed, Enter would insert one of them.
            shown = -1
            while log.stat().st_size != shown and time.monotonic() < deadline:
                shown = log.stat().st_size
                time.sleep(2)
            for key in keys:
                os.write(terminal, key.encode())
                time.sleep(0.05)

    def _popen(
        self, command: Sequence[str], environment: Mapping[str, str], stdin: int, output: Any
    ) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            command, cwd=self.home / "work", env={**self.environment, **environment},
            stdin=stdin, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip

    def run(self, *command: str, **environment: Any) -> int:
        """Run a command of the host to its end, or to the end of its time."""
        process = self.start(*command, **environment)
        try:
            return process.wait(CALL_SECONDS)
        except subprocess.TimeoutExpired:
            end(process)
            return -1

    def _opened_url(self) -> str | None:
        """Return the address that the host opened in a browser, or printed."""
        shown = (self.home / name for name in ("opened", "log"))
        found = (
            _AUTHORIZE.search(file.read_text("utf-8", "replace")) for file in shown if file.exists()
        )
        return next((match[0] for match in found if match), None)

    def allow(self, ended: Callable[[], bool]) -> bool:
        """Wait for the page that the host opens, allow all in it, and wait until it has ended."""
        deadline = time.monotonic() + SIGN_IN_SECONDS
        while not (url := self._opened_url()):
            if time.monotonic() > deadline or ended():
                return False
            time.sleep(0.2)
        self.browser.get(url)
        wait_for(self.browser, "wants to read")
        for box in self.browser.find_elements(By.CSS_SELECTOR, "fieldset input[type=checkbox]"):
            if box.is_displayed() and not box.is_selected():
                reach(self.browser, box)
        while self.browser.current_url.startswith(self.server.url):
            # The page shows a changed summary once more before it takes the answer.
            time.sleep(1)
            with suppress(WebDriverException):  # the page is about to change
                press(self.browser, "Allow", seconds=1)
        while not ended() and time.monotonic() < deadline:
            time.sleep(0.2)
        return True


def _copy(terminal: int, log: BinaryIO) -> None:
    """Copy what a terminal shows, until its program ends."""
    with suppress(OSError):
        while output := os.read(terminal, 4096):
            log.write(output)
            log.flush()


def end(process: "subprocess.Popen[bytes]") -> None:
    """End a host and the processes that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def prepare(home: Path) -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "work").mkdir()
    for name in ("xdg-open", "open", "sensible-browser", "x-www-browser"):
        (home / "bin" / name).write_text(_OPENER)
        (home / "bin" / name).chmod(0o755)
    return home
