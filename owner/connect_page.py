"""Setup page: connection instructions for each app, its progress, and the connection check."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlsplit

import httpx2
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from evidence.access.grant_states import with_grant_state
from evidence.ledger.disclosures import first_disclosure_at
from evidence.models.owners import current_owner
from operations.doctor import HOSTS, diagnose
from owner.grants.grantable_sources import LOOPBACK_HOSTS
from owner.permissions import owner_required
from owner.text import format_time

CHECK_TIMEOUT = 5.0
"""Seconds per request of the connection check."""


@require_http_methods(["GET", "HEAD", "POST"])
@owner_required
def doctor(request: HttpRequest) -> HttpResponse:
    """Run the connection check against the public URL only, and show each step."""
    host = request.POST.get("host", "")
    findings: object = ()
    if request.method == "POST":
        with httpx2.Client(timeout=CHECK_TIMEOUT) as client:
            findings = diagnose(settings.PDPP_PUBLIC_URL, client, host=host)
    context = {
        "here": "connect",
        "url": settings.PDPP_PUBLIC_URL,
        "hosts": HOSTS.values(),
        "host": host,
        "findings": findings,
    }
    return render(request, "owner/connect/check.html", context)


SERVER_NAME = "pdpp"


@dataclass(frozen=True, slots=True)
class SetupStep:
    """An instruction, and a command or value to copy if there is one."""

    text: str
    command: str = ""


@dataclass(frozen=True, slots=True)
class SetupGuide:
    """Steps to connect one app. `needs_public_url` means that the app runs on the internet."""

    key: str
    app: str
    steps: tuple[SetupStep, ...]
    alternatives: tuple[SetupStep, ...] = ()
    needs_public_url: bool = False


def setup_guides(url: str) -> tuple[SetupGuide, ...]:
    """Return the guides for the server at `url`, in display order."""
    endpoint = f"{url}/mcp"
    return (
        _claude_code(endpoint),
        _codex(endpoint),
        _claude_ai(endpoint),
        _chatgpt(endpoint),
        _gemini(endpoint),
        _vs_code(endpoint),
        _mcp_remote(endpoint),
        _sdks(endpoint),
    )


def is_public(url: str) -> bool:
    """Return whether apps on the internet may reach `url`: https, and not loopback."""
    parts = urlsplit(url)
    return parts.scheme == "https" and parts.hostname not in LOOPBACK_HOSTS


def _claude_code(endpoint: str) -> SetupGuide:
    return SetupGuide(
        "claude-code",
        "Claude Code",
        (
            SetupStep(
                "In a terminal:", f"claude mcp add --transport http {SERVER_NAME} {endpoint}"
            ),
            SetupStep("Start Claude Code, choose this server and sign in:", "/mcp"),
        ),
        (
            SetupStep(
                "For all your projects:",
                f"claude mcp add --scope user --transport http {SERVER_NAME} {endpoint}",
            ),
            _with_token(
                f"claude mcp add --transport http {SERVER_NAME} {endpoint}"
                ' --header "Authorization: Bearer $PDPP_TOKEN"'
            ),
        ),
    )


def _codex(endpoint: str) -> SetupGuide:
    return SetupGuide(
        "codex",
        "Codex",
        (
            SetupStep("In a terminal:", f"codex mcp add {SERVER_NAME} --url {endpoint}"),
            SetupStep("Then sign in:", f"codex mcp login {SERVER_NAME}"),
        ),
        (
            _with_token(
                f"codex mcp add {SERVER_NAME} --url {endpoint} --bearer-token-env-var PDPP_TOKEN"
            ),
        ),
    )


def _claude_ai(endpoint: str) -> SetupGuide:
    return SetupGuide(
        "claude-ai",
        "claude.ai",
        (
            SetupStep(
                "Open Settings, Connectors, Add custom connector. Enter a name and this address:",
                endpoint,
            ),
            SetupStep("Choose Connect and sign in."),
        ),
        needs_public_url=True,
    )


def _chatgpt(endpoint: str) -> SetupGuide:
    return SetupGuide(
        "chatgpt",
        "ChatGPT",
        (
            SetupStep(
                "Open Settings, Apps & Connectors, Advanced settings. Turn on developer mode."
            ),
            SetupStep("Create a connector with OAuth and this address:", endpoint),
            SetupStep("Sign in, then choose it in a chat under Developer mode."),
        ),
        needs_public_url=True,
    )


def _gemini(endpoint: str) -> SetupGuide:
    return SetupGuide(
        "gemini-cli",
        "Gemini CLI",
        (
            SetupStep(
                "In a terminal:",
                f"gemini mcp add -s user --transport http {SERVER_NAME} {endpoint}",
            ),
            SetupStep("Start Gemini CLI and sign in:", f"/mcp auth {SERVER_NAME}"),
        ),
        (
            _with_token(
                f"gemini mcp add -s user --transport http"
                f' -H "Authorization: Bearer $PDPP_TOKEN" {SERVER_NAME} {endpoint}'
            ),
        ),
    )


def _vs_code(endpoint: str) -> SetupGuide:
    server = f'{{"name":"{SERVER_NAME}","type":"http","url":"{endpoint}"}}'
    return SetupGuide(
        "vs-code",
        "VS Code",
        (
            SetupStep("In a terminal:", f"code --add-mcp '{server}'"),
            SetupStep("VS Code asks you to sign in when a chat first uses it."),
        ),
        (
            SetupStep(
                "For one project, in .vscode/mcp.json:",
                f'{{"servers": {{"{SERVER_NAME}": {{"type": "http", "url": "{endpoint}"}}}}}}',
            ),
        ),
    )


def _mcp_remote(endpoint: str) -> SetupGuide:
    arguments = f'"-y", "mcp-remote", "{endpoint}"'
    if endpoint.startswith("http://"):
        arguments += ', "--allow-http"'
    return SetupGuide(
        "mcp-remote",
        "Apps that only start local servers (mcp-remote)",
        (
            SetupStep(
                "In the server list of the app's settings:",
                f'{{"mcpServers": {{"{SERVER_NAME}": {{"command": "npx", "args": [{arguments}]}}}}}}',
            ),
            SetupStep("Start the app. Your browser opens and you sign in."),
        ),
    )


def _sdks(endpoint: str) -> SetupGuide:
    return SetupGuide(
        "sdks",
        "Your own app, with an SDK",
        (
            SetupStep("Give the client this address. It discovers the sign-in page:", endpoint),
            SetupStep("For example, list everything with FastMCP:", f"fastmcp list {endpoint}"),
        ),
        (
            SetupStep(
                "Without a browser, send a grant's token in this header:",
                "Authorization: Bearer $PDPP_TOKEN",
            ),
        ),
    )


def _with_token(command: str) -> SetupStep:
    return SetupStep("Without a browser, with a token from “Give access”:", command)


MAX_PROGRESS_AGE = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class ConnectionProgress:
    """Progress of the app that signed in last."""

    client: str = ""
    signed_in: str = ""
    called: str = ""

    @property
    def stage(self) -> str:
        if self.called:
            return "called"
        return "signed-in" if self.client else "waiting"


@require_safe
@owner_required
def connect(request: HttpRequest) -> HttpResponse:
    """Show the page. `since` in the URL keeps the progress across reloads."""
    url = settings.PDPP_PUBLIC_URL
    since = _since(request, timezone.now())
    context = {
        "here": "connect",
        "endpoint": f"{url}/mcp",
        "guides": setup_guides(url),
        "is_public": is_public(url),
        "since": since.isoformat(),
        "progress": connection_progress(since),
    }
    return render(request, "owner/connect/setup.html", context)


@require_safe
@owner_required
def connect_status(request: HttpRequest) -> HttpResponse:
    """Render the progress alone, for the page's script."""
    progress = connection_progress(_since(request, timezone.now()))
    return render(request, "owner/connect/progress.html", {"progress": progress})


def connection_progress(since: datetime) -> ConnectionProgress:
    """Return the progress of the app that was last allowed access after `since`."""
    rows = with_grant_state(timezone.now()).filter(
        package__owner_id=current_owner(), package__created_at__gte=since
    )
    newest = rows.order_by("-package__created_at").first()
    if newest is None:
        return ConnectionProgress()
    package = newest.package
    grant_ids = list(rows.filter(package=package).values_list("pk", flat=True))
    first_call_at = first_disclosure_at(grant_ids)
    return ConnectionProgress(
        client=package.client.display_name,
        signed_in=format_time(package.created_at),
        called="" if first_call_at is None else format_time(first_call_at),
    )


def _since(request: HttpRequest, now: datetime) -> datetime:
    """Return the requested time, limited to the past MAX_PROGRESS_AGE."""
    try:
        since = datetime.fromisoformat(request.GET.get("since", ""))
    except ValueError:
        return now
    if since.tzinfo is None:
        return now
    return min(now, max(since, now - MAX_PROGRESS_AGE))
