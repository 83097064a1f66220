"""`make hosts`: sign in with real MCP hosts, and show what their models see of three calls.

Each host runs with a home folder of its own, opens the consent page in Chromium, and calls schema, search
and query_records for a scripted model. mcp-remote has no model: a client calls through it.
"""

import asyncio
import json
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import mcp_types as types
from mcp import Client, StdioServerParameters, stdio_client
from selenium.common.exceptions import WebDriverException
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from bench.hosts.model import CALLS, ModelServer, ScriptedModel
from bench.served import ROOT, DemoServer, demo_installation
from tests.browser.chromium import chromium, press, reach, wait_for

BIN = ROOT / "var" / "hosts" / "node_modules" / ".bin"
PASSWORD = "correct horse battery"  # noqa: S105 - of a made-up owner
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
            _end(process)
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
            with suppress(AssertionError, WebDriverException):  # the page is about to change
                press(self.browser, "Allow")
        while not ended() and time.monotonic() < deadline:
            time.sleep(0.2)
        return True


def _copy(terminal: int, log: BinaryIO) -> None:
    """Copy what a terminal shows, until its program ends."""
    with suppress(OSError):
        while output := os.read(terminal, 4096):
            log.write(output)
            log.flush()


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a host and the processes that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _sign_in(session: Session, *command: str, **environment: str) -> None:
    process = session.start(*command, terminal=True, **environment)
    session.allow(lambda: process.poll() is not None)
    _end(process)


def _claude_code(session: Session) -> None:
    session.run(
        "claude", "mcp", "add", "-s", "user", "--transport", "http", "pdpp", session.mcp_url
    )
    _sign_in(session, "claude", "mcp", "login", "pdpp")
    session.run(
        "claude", "-p", "Go", "--allowedTools", "mcp__pdpp", ANTHROPIC_BASE_URL=session.model_url,
        ANTHROPIC_API_KEY="none", ENABLE_TOOL_SEARCH="false",
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
    )  # fmt: skip


def _codex(session: Session) -> None:
    folder = session.home / ".codex"
    folder.mkdir()
    (folder / "config.toml").write_text(
        'model = "scripted"\nmodel_provider = "scripted"\napproval_policy = "never"\n'
        "[model_providers.scripted]\n"
        f'name = "scripted"\nbase_url = "{session.model_url}/v1"\nwire_api = "responses"\n'
        f'[mcp_servers.pdpp]\nurl = "{session.mcp_url}"\n'
    )
    _sign_in(session, "codex", "mcp", "login", "pdpp")
    session.run("codex", "exec", "--skip-git-repo-check", "Go")


def _gemini(session: Session) -> None:
    folder = session.home / ".gemini"
    folder.mkdir()
    settings = {
        "mcpServers": {"pdpp": {"httpUrl": session.mcp_url}},
        "security": {"auth": {"selectedType": "gemini-api-key"}},
    }
    (folder / "settings.json").write_text(json.dumps(settings))
    environment: dict[str, Any] = {
        "GEMINI_API_KEY": "none",
        "GOOGLE_GEMINI_BASE_URL": session.model_url,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }
    process = session.start(
        "gemini", "-m", "gemini-2.5-flash", typed="/mcp auth pdpp", **environment
    )
    tokens = folder / "mcp-oauth-tokens.json"
    session.allow(lambda: process.poll() is not None or tokens.exists())
    _end(process)
    session.run(
        "gemini", "-m", "gemini-2.5-flash", "-p", "Go", "--approval-mode", "yolo", **environment
    )


def _opencode(session: Session) -> None:
    folder = session.home / ".config" / "opencode"
    folder.mkdir(parents=True)
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{session.model_url}/v1", "apiKey": "none"},
        "models": {"scripted": {"name": "scripted", "tool_call": True}},
    }
    settings = {
        "mcp": {"pdpp": {"type": "remote", "url": session.mcp_url, "enabled": True}},
        "provider": {"scripted": provider},
    }
    (folder / "opencode.json").write_text(json.dumps(settings))
    _sign_in(session, "opencode", "mcp", "auth", "pdpp")
    session.run("opencode", "run", "-m", "scripted/scripted", "Go")


async def _through_mcp_remote(session: Session, model: ScriptedModel) -> None:
    bridge = StdioServerParameters(
        command=str(BIN / "mcp-remote"), args=[session.mcp_url, "--allow-http"],
        env=session.environment,
    )  # fmt: skip
    allowed = asyncio.create_task(
        asyncio.to_thread(session.allow, lambda: "/callback" in session.browser.current_url)
    )
    log = (session.home / "log").open("w")
    async with Client(stdio_client(bridge, errlog=log)) as client:
        await allowed
        for name, arguments in CALLS:
            result = await client.call_tool(name, dict(arguments))
            (block,) = result.content
            model.views.append(block.text if isinstance(block, types.TextContent) else "")


HOSTS: Mapping[str, tuple[str, Callable[[Session], None] | None]] = {
    "Claude Code": ("@anthropic-ai/claude-code", _claude_code),
    "Codex": ("@openai/codex", _codex),
    "Gemini CLI": ("@google/gemini-cli", _gemini),
    "OpenCode": ("opencode-ai", _opencode),
    "mcp-remote": ("mcp-remote", None),
}


def main() -> int:
    """Return 0 if every host shows its model all three results."""
    names = [name for name in HOSTS if not sys.argv[1:] or name in sys.argv[1:]]
    versions = json.loads((Path(__file__).parent / "package.json").read_text())["dependencies"]
    rows = ["| host | version | " + " | ".join(name for name, _ in CALLS) + " | channel |"]
    rows.append("|" + "---|" * (len(CALLS) + 3))
    failed = []
    with (
        tempfile.TemporaryDirectory(prefix="pdpp-hosts-") as folder,
        demo_installation(var=Path(folder) / "var", PDPP_CLIENT_DOCUMENTS="false") as server,
        chromium() as browser,
    ):
        _set_up(browser, server.set_up_url)
        models = ModelServer()
        for name in names:
            package, run = HOSTS[name]
            home = Path(folder) / name.replace(" ", "-").lower()
            session = Session(_prepare(home), server, models.url, browser)
            models.model = ScriptedModel()
            browser.get("about:blank")
            try:
                if run is None:
                    asyncio.run(_through_mcp_remote(session, models.model))
                else:
                    run(session)
            except (AssertionError, OSError, WebDriverException) as error:
                sys.stdout.write(f"{name}: {error}\n")
            views = models.model.views
            if len(views) < len(CALLS):
                failed.append(name)
                log = home / "log"
                sys.stdout.write(f"{name}:\n{log.read_text()[-2_000:] if log.exists() else ''}\n")
            rows.append(_row(name, versions[package], views))
    sys.stdout.write("\n".join([*rows, ""]))
    if failed:
        sys.stdout.write(f"\nWithout all results: {', '.join(failed)}\n")
    return 1 if failed else 0


def _set_up(browser: Chrome, link: str) -> None:
    browser.get(link)
    browser.find_element(By.NAME, "username").send_keys("alice")
    for field in browser.find_elements(By.CSS_SELECTOR, "input[type=password]"):
        field.send_keys(PASSWORD)
    press(browser, "Save and sign in")
    wait_for(browser, "What apps read")


def _prepare(home: Path) -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "work").mkdir()
    for name in ("xdg-open", "open", "sensible-browser", "x-www-browser"):
        (home / "bin" / name).write_text(_OPENER)
        (home / "bin" / name).chmod(0o755)
    return home


def _row(name: str, version: str, views: list[str]) -> str:
    sizes = [f"{len(view.encode()):,} bytes" for view in views] + ["-"] * (len(CALLS) - len(views))
    channel = "-"
    if len(views) > 1:
        # Only the structured output marks the origin of what it shows.
        channel = "structured" if "untrusted data" in views[1] else "text"
    return f"| {name} | {version} | {' | '.join(sizes)} | {channel} |"


if __name__ == "__main__":
    sys.exit(main())
