"""Another token for what a client may read already."""

from evidence.access.grants import revoke_package
from evidence.models.grants import AccessToken
from tests.owner.pages.browser import Browser
from tests.owner.pages.giving import at, bearers
from tests.world import NOW, World

MESSAGES = "/v1/streams/messages/records"


def address(world: World, name: str) -> str:
    return at("grant", world.grants[name][0].pk, "token")


def test_it_reads_the_same_as_the_first(world: World, alice: Browser) -> None:
    form = alice.open(address(world, "bob")).form
    form.untick("an AI agent")
    form.tick("my own app")

    page = alice.press(form)
    (token,) = bearers(page)

    assert "no-store" in page.headers["Cache-Control"]
    assert world.get(MESSAGES, token).body["data"] == world.get(MESSAGES, "bob").body["data"]


def test_it_has_to_be_for_something(world: World, alice: Browser) -> None:
    before = AccessToken.unscoped.count()
    form = alice.open(address(world, "bob")).form
    form.untick("an AI agent")

    page = alice.press(form)

    assert page.errors == ["Select at least one."]
    assert AccessToken.unscoped.count() == before


def test_there_is_none_for_a_grant_that_has_ended(world: World, alice: Browser) -> None:
    form = alice.open(address(world, "bob")).form
    revoke_package(world.packages["bob"].pk, now=NOW)
    before = AccessToken.unscoped.count()

    page = alice.press(form)

    assert bearers(page) == []
    assert "This grant is no longer valid" in page.text
    assert not page.has_link("Make another token")
    assert AccessToken.unscoped.count() == before
