"""How to connect an agent, with the address filled in, and what has come of it so far."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlsplit

import httpx2
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from evidence.access.grant_states import grants_with_state
from evidence.ledger.disclosures import first_under
from evidence.models.accounts import OWNER_ID
from operations.doctor import HOSTS, diagnose
from owner.formatting import when
from owner.permissions import owners_page

SECONDS = 5.0
"""A page is waited for; whatever takes longer than this would fail in a host, too."""


@require_http_methods(["GET", "HEAD", "POST"])
@owners_page
def doctor(request: HttpRequest) -> HttpResponse:
    """The walk goes to the public address and nowhere else, whoever asks."""
    host = request.POST.get("host", "")
    context = {
        "here": "connect",
        "url": settings.PDPP_PUBLIC_URL,
        "hosts": HOSTS.values(),
        "host": host,
        "findings": _walked(host) if request.method == "POST" else (),
    }
    return render(request, "owner/connecting/doctor.html", context)


def _walked(host: str) -> object:
    with httpx2.Client(timeout=SECONDS) as client:
        return diagnose(settings.PDPP_PUBLIC_URL, client, host=host)


NAME = "pdpp"
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Step:
    """Words, and a line to copy where there is one."""

    text: str
    line: str = ""


@dataclass(frozen=True, slots=True)
class Way:
    """``others`` are further ways to do the same; ``needs_public`` says that the program runs
    elsewhere and has to reach this server over the internet."""

    key: str
    program: str
    steps: tuple[Step, ...]
    others: tuple[Step, ...] = ()
    needs_public: bool = False


def ways(url: str) -> tuple[Way, ...]:
    """For the server that answers at ``url``, in the order in which they are offered."""
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
    """Whether a program elsewhere could reach it: https, and not only this machine."""
    parts = urlsplit(url)
    return parts.scheme == "https" and parts.hostname not in LOOPBACK


def _claude_code(endpoint: str) -> Way:
    return Way(
        "claude-code",
        "Claude Code",
        (
            Step("In a terminal:", f"claude mcp add --transport http {NAME} {endpoint}"),
            Step("Start Claude Code, choose this server and sign in:", "/mcp"),
        ),
        (
            Step(
                "For every project of yours:",
                f"claude mcp add --scope user --transport http {NAME} {endpoint}",
            ),
            _with_token(
                f"claude mcp add --transport http {NAME} {endpoint}"
                ' --header "Authorization: Bearer $PDPP_TOKEN"'
            ),
        ),
    )


def _codex(endpoint: str) -> Way:
    return Way(
        "codex",
        "Codex",
        (
            Step("In a terminal:", f"codex mcp add {NAME} --url {endpoint}"),
            Step("Then sign in:", f"codex mcp login {NAME}"),
        ),
        (_with_token(f"codex mcp add {NAME} --url {endpoint} --bearer-token-env-var PDPP_TOKEN"),),
    )


def _claude_ai(endpoint: str) -> Way:
    return Way(
        "claude-ai",
        "claude.ai",
        (
            Step("Settings, Connectors, Add custom connector. Name it and paste:", endpoint),
            Step("Press Connect and sign in."),
        ),
        needs_public=True,
    )


def _chatgpt(endpoint: str) -> Way:
    return Way(
        "chatgpt",
        "ChatGPT",
        (
            Step("Settings, Apps & Connectors, Advanced settings: switch developer mode on."),
            Step("Create a connector with OAuth and paste:", endpoint),
            Step("Sign in, then choose it in a chat under Developer mode."),
        ),
        needs_public=True,
    )


def _gemini(endpoint: str) -> Way:
    return Way(
        "gemini-cli",
        "Gemini CLI",
        (
            Step("In a terminal:", f"gemini mcp add -s user --transport http {NAME} {endpoint}"),
            Step("Start Gemini CLI and sign in:", f"/mcp auth {NAME}"),
        ),
        (
            _with_token(
                f"gemini mcp add -s user --transport http"
                f' -H "Authorization: Bearer $PDPP_TOKEN" {NAME} {endpoint}'
            ),
        ),
    )


def _vs_code(endpoint: str) -> Way:
    server = f'{{"name":"{NAME}","type":"http","url":"{endpoint}"}}'
    return Way(
        "vs-code",
        "VS Code",
        (
            Step("In a terminal:", f"code --add-mcp '{server}'"),
            Step("VS Code asks you to sign in when a chat first uses it."),
        ),
        (
            Step(
                "For one project, in .vscode/mcp.json:",
                f'{{"servers": {{"{NAME}": {{"type": "http", "url": "{endpoint}"}}}}}}',
            ),
        ),
    )


def _mcp_remote(endpoint: str) -> Way:
    arguments = f'"-y", "mcp-remote", "{endpoint}"'
    if endpoint.startswith("http://"):
        arguments += ', "--allow-http"'
    return Way(
        "mcp-remote",
        "Programs that only start local servers (mcp-remote)",
        (
            Step(
                "In the settings of the program, where servers are listed:",
                f'{{"mcpServers": {{"{NAME}": {{"command": "npx", "args": [{arguments}]}}}}}}',
            ),
            Step("Start the program; your browser opens and you sign in."),
        ),
    )


def _sdks(endpoint: str) -> Way:
    return Way(
        "sdks",
        "Your own program, with an SDK",
        (
            Step("Give the client this address; it finds the sign-in by itself:", endpoint),
            Step("With FastMCP, for one, everything is listed by:", f"fastmcp list {endpoint}"),
        ),
        (
            Step(
                "Without a browser at hand, send a token of a grant as",
                "Authorization: Bearer $PDPP_TOKEN",
            ),
        ),
    )


def _with_token(line: str) -> Step:
    return Step("Without a browser, with a token that you make under “Give access”:", line)


LONGEST_WAIT = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a program has come that signed in since the page was opened."""

    client: str = ""
    signed_in: str = ""
    called: str = ""

    @property
    def stage(self) -> str:
        if self.called:
            return "called"
        return "signed-in" if self.client else "waiting"


@require_safe
@owners_page
def connect(request: HttpRequest) -> HttpResponse:
    """The page; with ``since`` it goes on waiting for what it waited for before."""
    url = settings.PDPP_PUBLIC_URL
    since = _since(request, timezone.now())
    context = {
        "here": "connect",
        "endpoint": f"{url}/mcp",
        "ways": ways(url),
        "is_public": is_public(url),
        "since": since.isoformat(),
        "progress": progress(since),
    }
    return render(request, "owner/connecting/connect.html", context)


@require_safe
@owners_page
def connect_status(request: HttpRequest) -> HttpResponse:
    """The part of the page that changes, for its script."""
    found = progress(_since(request, timezone.now()))
    return render(request, "owner/connecting/progress.html", {"progress": found})


def progress(since: datetime) -> Progress:
    """Of the program that signed in last since then."""
    rows = grants_with_state(timezone.now()).filter(
        package__owner_id=OWNER_ID, package__created_at__gte=since
    )
    newest = rows.order_by("-package__created_at").first()
    if newest is None:
        return Progress()
    package = newest.package
    together = list(rows.filter(package=package).values_list("pk", flat=True))
    first = first_under(together)
    return Progress(
        client=package.client.display_name,
        signed_in=when(package.created_at),
        called="" if first is None else when(first),
    )


def _since(request: HttpRequest, now: datetime) -> datetime:
    """As asked, but neither in the future nor long ago."""
    try:
        asked = datetime.fromisoformat(request.GET.get("since", ""))
    except ValueError:
        return now
    if asked.tzinfo is None:
        return now
    return min(now, max(asked, now - LONGEST_WAIT))
