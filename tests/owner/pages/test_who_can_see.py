"""Who can see a record is what the tokens themselves are shown, with the clause that decides."""

import pytest
from django.utils import timezone

from evidence.access.grants import GrantRequest, StreamRequest, pause_client, revoke_client
from evidence.models.ledger import Disclosure
from owner.records.record_summaries import record_url
from tests.owner.pages.browser import Browser, Page
from tests.world import BANK, PERSONAL, WORK, World

WHO = "/who"


def who(browser: Browser, key: str, connection_id: str = PERSONAL) -> Page:
    """From the page of the record."""
    address = record_url(connection_id, "messages", key)
    return browser.open(browser.open(address).link("See why"))


@pytest.fixture
def many(world: World) -> World:
    world.grant(
        "erin",
        GrantRequest(
            connection_ids=[PERSONAL], streams=[StreamRequest(name="messages", resources=("m3",))]
        ),
    )
    world.grant(
        "frank", GrantRequest(connection_ids=[WORK], streams=[StreamRequest(name="messages")])
    )
    world.grant(
        "gina", GrantRequest(connection_ids=[PERSONAL], streams=[StreamRequest(name="threads")])
    )
    return world


def split(page: Page) -> tuple[str, str]:
    can, cannot = page.text.split("Can see it:")[1].split("Cannot see it:")
    return can, cannot


def test_each_grant_is_named_with_the_reason(many: World, alice: Browser) -> None:
    can, cannot = split(who(alice, "m0"))

    assert "Dora Active It can read" in can
    assert "Its access: Messages: every field of all records" in can
    assert "Bob Active It reads records of a certain time only" in cannot
    assert "Charlie Active It reads Bank only." in cannot
    assert "Erin Active It reads 1 single records only, and this is none of them." in cannot
    assert "Frank Active It reads this stream through other connections only." in cannot
    assert "Gina Active It does not read this stream." in cannot


def test_an_app_that_can_see_it_is_not_listed_as_one_that_cannot(
    world: World, alice: Browser
) -> None:
    requests = [
        GrantRequest(connection_ids=[connection], streams=[StreamRequest(name=stream)])
        for connection, stream in ((PERSONAL, "messages"), (BANK, "transactions"))
    ]
    world.grant("hal", *requests)
    can, cannot = split(who(alice, "m1"))

    assert "Hal Active It can read" in can
    assert "Hal" not in cannot


def test_it_says_which_record_it_is(world: World, alice: Browser) -> None:
    assert "“Lease signed” · Eva Lang · 10 January 2026" in who(alice, "m1").text


def test_it_names_the_fields_that_are_shown_and_no_others(many: World, alice: Browser) -> None:
    can, _ = split(who(alice, "m1"))
    bob = can[can.index("Bob") : can.index("Dora")]
    assert "From name" in bob
    assert "From email" not in bob.split("The grant says:")[0]


def test_the_page_says_what_the_tokens_are_shown(many: World, alice: Browser) -> None:
    everybody = ("bob", "charlie", "dora", "erin", "frank", "gina")
    for connection_id, key in ((PERSONAL, "m0"), (PERSONAL, "m3"), (PERSONAL, "m4"), (WORK, "w2")):
        can, _ = split(who(alice, key, connection_id))
        shown = {
            name
            for name in everybody
            if many.get(
                f"/v1/streams/messages/records/{key}", name, connection_id=connection_id
            ).status
            == 200
        }
        assert {name for name in everybody if name.title() in can} == shown, (connection_id, key)


def test_what_has_ended_is_left_out_and_what_is_paused_is_marked(
    many: World, alice: Browser
) -> None:
    revoke_client(many.packages["bob"].client_id, now=timezone.now())
    pause_client(many.packages["dora"].client_id, now=timezone.now())
    page = who(alice, "m1")
    assert "Bob" not in page.text
    assert "Dora Paused" in page.text


def test_looking_writes_nothing_to_what_was_read(many: World, alice: Browser) -> None:
    who(alice, "m1")
    before = Disclosure.unscoped.count()
    alice.open(f"{WHO}?connection={PERSONAL}&stream=messages&key=m1")
    assert Disclosure.unscoped.count() == before


def test_what_is_not_there_is_not_found(many: World, alice: Browser) -> None:
    for query in ("", f"connection={PERSONAL}&stream=messages&key=none", "connection=x&stream=y&key=z",
                  f"connection={BANK}&stream=messages&key=m1"):  # fmt: skip
        assert alice.open(f"{WHO}?{query}").status == 404
