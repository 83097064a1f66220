"""Sources show what they declare, in words."""

from evidence.models.sources import Source
from tests.owner.pages.browser import Browser
from tests.world import World


def test_a_source_shows_its_streams_and_fields(world: World, alice: Browser) -> None:
    page = alice.open(alice.open("/admin/evidence/source/").link("Mail"))

    assert "Identity https://registry.example/connectors/mail" in page.text
    assert "Access can be limited by time, using “Received at”." in page.text
    assert "Threads threads Conversations. Records may change later." in page.text
    assert "Access cannot be limited by time." in page.text
    assert "Id id text identifies the record" in page.text
    assert (
        "Received at received_at when it happened; date and time"
        " puts records in order, limits access in time" in page.text
    )
    assert page.has_link("Personal mail")


def test_an_empty_list_says_so_once(world: World, alice: Browser) -> None:
    page = alice.open("/admin/evidence/source/?q=zzz")

    assert "Nothing matches." in page.text
    assert "0 sources" not in page.text


def test_a_source_has_nothing_to_send(world: World, alice: Browser) -> None:
    page = alice.open(alice.open("/admin/evidence/source/").link("Bank"))

    assert "Records are only added." in page.text
    assert page.own_forms == []


def test_a_source_that_declares_nothing_is_said_to(world: World, alice: Browser) -> None:
    Source.unscoped.create(
        owner_id=world.owner_id, source_id="urn:x", connector_key="bare", display_name="Bare"
    )

    listed = alice.open("/admin/evidence/source/")

    assert "Bare bare not declared" in listed.text
    assert "Nothing is declared." in alice.open(listed.link("Bare")).text
    assert alice.open("/admin/evidence/source/99999/change/").status == 404
