"""Apps are renamed, and given more access."""

import pytest
from django.contrib.admin.utils import quote

from evidence.models.clients import Client
from tests.owner.pages.browser import Browser, Form
from tests.world import World


def client_form(browser: Browser, client_id: str) -> Form:
    return browser.open(f"/admin/evidence/client/{quote(client_id)}/change/").forms[-1]


def test_a_client_is_renamed_and_keeps_what_it_may_read(world: World, alice: Browser) -> None:
    bob = world.packages["bob"].client
    form = client_form(alice, bob.pk)
    form.fill("display_name", "Bob: agent")

    alice.press(form, "_save")

    assert Client.unscoped.get(pk=bob.pk).display_name == "Bob: agent"
    assert world.get("/v1/streams/messages/records", "bob").status == 200


@pytest.mark.parametrize("name", ["", "   ", "a\u200bb", "x" * 201])
def test_a_name_has_to_be_readable(world: World, alice: Browser, name: str) -> None:
    bob = world.packages["bob"].client
    form = client_form(alice, bob.pk)
    form.fill("display_name", name)

    page = alice.press(form, "_save")

    assert page.errors
    assert Client.unscoped.get(pk=bob.pk).display_name == "Bob"


def test_more_access_starts_with_the_client_chosen(world: World, alice: Browser) -> None:
    bob = world.packages["bob"].client
    page = alice.open("/connected")
    [address] = [at for words, at in page.links if at.endswith(f"/give?client={bob.pk}")]

    form = alice.open(address).form

    assert form.values("client") == [bob.pk]
