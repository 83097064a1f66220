"""Clients are named and renamed."""

import pytest

from evidence.models.clients import Client
from tests.owner.pages.browser import Browser
from tests.owner.pages.giving import at
from tests.world import World


def test_a_client_is_made_by_its_name_alone(world: World, alice: Browser) -> None:
    form = alice.open("/admin/evidence/client/add/").form
    form.fill("display_name", "  My script ")

    alice.press(form, "_save")

    client = Client.unscoped.get(display_name="My script")
    assert client.pk.startswith("cli_")
    assert client.owner_id == world.owner_id


def test_a_client_is_renamed_and_keeps_what_it_may_read(world: World, alice: Browser) -> None:
    bob = world.packages["bob"].client
    page = alice.open(at("client", bob.pk, "change"))
    assert "Mail Personal mail, Work mail Messages" in page.text
    form = page.form
    form.fill("display_name", "Bob: agent")

    alice.press(form, "_save")

    assert Client.unscoped.get(pk=bob.pk).display_name == "Bob: agent"
    assert world.get("/v1/streams/messages/records", "bob").status == 200


@pytest.mark.parametrize("name", ["", "   ", "a\u200bb", "x" * 201])
def test_a_name_has_to_be_readable(world: World, alice: Browser, name: str) -> None:
    bob = world.packages["bob"].client
    form = alice.open(at("client", bob.pk, "change")).form
    form.fill("display_name", name)

    page = alice.press(form, "_save")

    assert page.errors
    assert Client.unscoped.get(pk=bob.pk).display_name == "Bob"


def test_the_list_shows_the_current_access_of_each_client(world: World, alice: Browser) -> None:
    page = alice.open("/admin/evidence/client/")

    assert "Bob 1 active grant 1 November 2026, 12:00" in page.text
    assert "Dora 3 active grants" in page.text


def test_more_access_starts_with_the_client_chosen(world: World, alice: Browser) -> None:
    bob = world.packages["bob"].client
    page = alice.open(at("client", bob.pk, "change"))

    form = alice.open(page.link("Give more access")).form

    assert form.values("client") == [bob.pk]
