"""Grants are listed, found and read in words; nothing edits or deletes one."""

import datetime as dt

import pytest
from django.utils import timezone

from evidence.access.grants import GrantRequest, StreamRequest, revoke_grant
from evidence.models.grants import Grant
from tests.owner.pages.browser import Browser, Page
from tests.owner.pages.giving import at
from tests.world import BANK, NOW, PERSONAL, World

LIST = "/admin/evidence/grant/"


def lines(page: Page) -> list[str]:
    """The clients and sources in the list, line by line."""
    return [words for words, address in page.links if "/change/" in address]


@pytest.fixture
def ended(world: World) -> World:
    """Next to the cast's: a grant that has run out, one that was revoked, one superseded."""
    request = GrantRequest(connection_ids=[BANK], streams=[StreamRequest(name="transactions")],
        purpose_description="Taxes of 2026", expires_at=timezone.now() - dt.timedelta(minutes=1))  # fmt: skip
    world.grant("eve", request)
    world.grant("fred", GrantRequest(connection_ids=[BANK], streams=request.streams))
    revoke_grant(world.grants["fred"][0].pk, now=timezone.now())
    world.grant("gina", GrantRequest(connection_ids=[BANK], streams=request.streams))
    Grant.unscoped.filter(pk=world.grants["gina"][0].pk).update(
        superseded_by=world.grants["charlie"][0]
    )
    return world


def test_the_list_is_filtered_and_searched(ended: World, alice: Browser) -> None:
    assert "Bob Active Mail" in alice.open(LIST).text
    for query, clients in (
        ("?state=active", {"Bob", "Charlie", "Dora"}),
        ("?state=expired", {"Eve"}),
        ("?state=revoked", {"Fred"}),
        ("?state=superseded", {"Gina"}),
        ("?state=nonsense", {"Bob", "Charlie", "Dora", "Eve", "Fred", "Gina"}),
        ("?q=taxes", {"Eve"}),
        ("?q=char", {"Charlie"}),
    ):
        assert set(lines(alice.open(LIST + query))) == clients, query


def test_a_grant_is_read_in_words(world: World, alice: Browser) -> None:
    page = alice.open(at("grant", world.grants["bob"][0].pk))

    assert (
        "Messages: Id, Conversation, Subject, From name, Received at and Body text of all"
        " records received from 1 January 2026 on, through “Personal mail” and “Work mail”."
        in page.text
    )
    assert "Package " + world.packages["bob"].pk in page.text


def test_a_grant_of_single_records_names_them(world: World, alice: Browser) -> None:
    keys = ["m1", "m3\u202e"]
    request = GrantRequest(
        connection_ids=[PERSONAL],
        streams=[StreamRequest(name="messages", resources=keys, until=NOW)],
    )
    world.grant("hugo", request)

    page = alice.open(at("grant", world.grants["hugo"][0].pk))

    assert "every field of 2 single records received up to 1 November 2026" in page.text
    assert "m1 m3⟨U+202E⟩" in page.text


def test_grants_of_one_package_lead_to_one_another(world: World, alice: Browser) -> None:
    mail, chat, bank = world.grants["dora"]

    page = alice.open(at("grant", mail.pk))

    for other in (chat, bank):
        address = at("grant", other.pk)
        assert ("Dora", address) in page.links
        assert alice.open(address).status == 200


def test_no_page_edits_or_deletes_a_grant(world: World, alice: Browser) -> None:
    grant = world.grants["bob"][0]
    before = Grant.unscoped.filter(pk=grant.pk).values().get()
    page = alice.open(at("grant", grant.pk))
    token = {"csrfmiddlewaretoken": alice.http.cookies["pdpp-csrf"].value}

    for action in ("change", "delete"):
        alice.http.post(
            at("grant", grant.pk, action),
            {**token, "post": "yes", "purpose_description": "wider", "streams": "[]"},
        )
    deleting = alice.http.post(LIST, {**token, "action": "delete_selected", "index": "0",
        "_selected_action": [grant.pk], "post": "yes"})  # fmt: skip

    actions = [form.action for form in page.own_forms]
    assert actions == [at("grant", grant.pk, "limits")], "which hold beside what was granted"
    assert deleting.status_code in {200, 302}
    assert Grant.unscoped.filter(pk=grant.pk).values().get() == before


def test_a_grant_that_is_not_there_is_not_found(world: World, alice: Browser) -> None:
    for action in ("", "revoke", "token"):
        assert alice.open(at("grant", "grt_none", action)).status == 404
