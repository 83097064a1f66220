"""The connect page: one way for each program, and what has come of it."""

import datetime as dt
from typing import Any
from urllib.parse import quote

import pytest
from django.utils import timezone

from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest, issue, register_client
from evidence.access.tokens import create_token
from owner.connected_apps import is_public
from tests.owner.pages.browser import Browser
from tests.scenarios import scenario
from tests.world import BANK, World

PROGRAMS = [
    "Claude Code", "Codex", "claude.ai", "ChatGPT", "Gemini CLI", "VS Code",
    "Apps that only start local servers (mcp-remote)", "Your own app, with an SDK",
]  # fmt: skip
NEVER_SHOWN = ("/mcp/events", "event-subscription", "webhook", "owner token", "pdpp_own_", "profile",
    "toolset", "inspector")  # fmt: skip


@scenario("C1")
def test_each_app_has_one_primary_guide(world: World, alice: Browser) -> None:
    page = alice.open("/connect")

    assert page.status == 200
    places = [page.text.index(program) for program in PROGRAMS]
    assert places == sorted(places)
    assert "cannot reach this server yet" in page.text
    chapters = page.html.split('<details class="guide"')[1:]
    assert len(chapters) == len(PROGRAMS)
    for chapter in chapters:
        first, _, others = chapter.partition('<details class="others">')
        assert "http://127.0.0.1:8000/mcp" in first
        assert "Bearer" not in first
        assert "Other options" in others or not others
    for word in NEVER_SHOWN:
        assert word not in page.html.casefold(), word


def test_connect_page_shows_the_public_url(world: World, alice: Browser, settings: Any) -> None:
    settings.PDPP_PUBLIC_URL = "https://records.example"

    page = alice.open("/connect")

    assert "claude mcp add --transport http pdpp https://records.example/mcp" in page.text
    assert "127.0.0.1" not in page.text
    assert "cannot reach this server yet" not in page.text


@pytest.mark.parametrize(
    ("url", "public"),
    [("https://records.example", True), ("http://records.example", False),
     ("https://localhost:8000", False), ("http://127.0.0.1:8000", False)],
)  # fmt: skip
def test_remote_app_needs_a_public_url(url: str, public: bool) -> None:
    assert is_public(url) is public


def test_progress_shows_sign_in_and_first_request(world: World, alice: Browser) -> None:
    since = quote((timezone.now() - dt.timedelta(seconds=1)).isoformat())
    status = f"/connect?since={since}"
    assert "Waiting for a connection" in alice.open(status).text

    client = register_client("Claude Code", owner_id=world.owner_id, now=timezone.now())
    request = GrantRequest(connection_ids=[BANK], streams=[StreamRequest(name="transactions")])
    package, _ = issue([request], client=client, now=timezone.now())
    assert "Claude Code signed in" in alice.open(status).text
    assert "Waiting for its first request" in alice.open(status).text

    token = create_token(package, resource="/v1", now=timezone.now())
    world.get("/v1/streams/transactions/records", token)
    assert "Connected. First request" in alice.open(status).text


@pytest.mark.parametrize("since", ["", "yesterday", "2026-11-22T00:00:00", "2099-01-01T00:00:00Z"])
def test_invalid_since_means_now(world: World, alice: Browser, since: str) -> None:
    assert "Waiting for a connection" in alice.open(f"/connect?since={quote(since)}").text
