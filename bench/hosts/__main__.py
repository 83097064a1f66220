"""`make hosts`: sign in with real MCP hosts, and show what their models see of three calls.

Each host runs with a home folder of its own, opens the consent page in Chromium, and calls schema, search
and query_records for a scripted model. mcp-remote has no model: a client calls through it.
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp import Client, StdioServerParameters, stdio_client
from selenium.common.exceptions import WebDriverException
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from bench.hosts.model import CALLS, ModelServer, ScriptedModel
from bench.hosts.session import BIN, Session, end, prepare
from bench.served import demo_installation
from tests.browser.chromium import chromium, press, wait_for

PASSWORD = "correct horse battery"  # noqa: S105 - of a made-up owner


def _sign_in(session: Session, *command: str, **environment: str) -> None:
    process = session.start(*command, terminal=True, **environment)
    session.allow(lambda: process.poll() is not None)
    end(process)


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
    end(process)
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
            session = Session(prepare(home), server, models.url, browser)
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


def _row(name: str, version: str, views: list[str]) -> str:
    sizes = [f"{len(view.encode()):,} bytes" for view in views] + ["-"] * (len(CALLS) - len(views))
    channel = "-"
    if len(views) > 1:
        # Only the structured output marks the origin of what it shows.
        channel = "structured" if "untrusted data" in views[1] else "text"
    return f"| {name} | {version} | {' | '.join(sizes)} | {channel} |"


if __name__ == "__main__":
    sys.exit(main())
