"""The connect page: one way for each program, and what has come of it."""

import datetime as dt
from typing import Any
from urllib.parse import quote

import pytest
from django.utils import timezone

from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest, issue, mint_token, register_client
from owner.connect_page import is_public, ways
from tests.owner.pages.browser import Browser
from tests.scenarios import scenario
from tests.world import BANK, World

PROGRAMS = [
    "Claude Code", "Codex", "claude.ai", "ChatGPT", "Gemini CLI", "VS Code",
    "Programs that only start local servers (mcp-remote)", "Your own program, with an SDK",
]  # fmt: skip
NEVER_SHOWN = ("/mcp/events", "event-subscription", "webhook", "owner token", "pdpp_own_", "profile",
    "toolset", "inspector")  # fmt: skip


@scenario("C1")
def test_each_program_has_one_way_before_all_others(world: World, alice: Browser) -> None:
    page = alice.open("/connect")

    assert page.status == 200
    assert [way.program for way in ways("http://127.0.0.1:8000")] == PROGRAMS
    places = [page.text.index(program) for program in PROGRAMS]
    assert places == sorted(places)
    for chapter in page.html.split('<details class="way"')[1:]:
        first, _, others = chapter.partition('<details class="others">')
        assert "http://127.0.0.1:8000/mcp" in first
        assert "Bearer" not in first
        assert "Other ways" in others or not others
    for word in NEVER_SHOWN:
        assert word not in page.html.casefold(), word


def test_the_address_is_the_public_one(world: World, alice: Browser, settings: Any) -> None:
    settings.PDPP_PUBLIC_URL = "https://records.example"

    page = alice.open("/connect")

    assert "claude mcp add --transport http pdpp https://records.example/mcp" in page.text
    assert "127.0.0.1" not in page.text
    assert "has to be on the internet" not in page.text


@pytest.mark.parametrize(
    ("url", "public"),
    [("https://records.example", True), ("http://records.example", False),
     ("https://localhost:8000", False), ("http://127.0.0.1:8000", False)],
)  # fmt: skip
def test_what_runs_elsewhere_needs_an_address_it_can_reach(url: str, public: bool) -> None:
    assert is_public(url) is public


def test_the_page_waits_says_who_signed_in_and_when_the_first_call_came(
    world: World, alice: Browser
) -> None:
    since = quote((timezone.now() - dt.timedelta(seconds=1)).isoformat())
    status = f"/connect/status?since={since}"
    assert "Waiting for an agent to come" in alice.open(status).text

    client = register_client("Claude Code", owner_id=world.owner_id, now=timezone.now())
    request = GrantRequest(connection_ids=[BANK], streams=[StreamRequest(name="transactions")])
    package, _ = issue([request], client=client, now=timezone.now())
    assert "Claude Code signed in" in alice.open(status).text
    assert "Waiting for its first call" in alice.open(f"/connect?since={since}").text

    token = mint_token(package, resource="/v1", now=timezone.now())
    world.get("/v1/streams/transactions/records", token)
    assert "First call seen" in alice.open(status).text
    assert "It works." in alice.open(status).text


@pytest.mark.parametrize("since", ["", "yesterday", "2026-11-22T00:00:00", "2099-01-01T00:00:00Z"])
def test_a_time_to_wait_from_that_makes_no_sense_is_now(
    world: World, alice: Browser, since: str
) -> None:
    assert "Waiting for an agent" in alice.open(f"/connect/status?since={quote(since)}").text
