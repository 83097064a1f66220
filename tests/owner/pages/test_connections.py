"""Connections are renamed, paused and revoked; their contents are shown."""

import pytest

from evidence.models.connections import Connection
from tests.owner.pages.browser import Browser, Form
from tests.world import BANK, PERSONAL, World

MESSAGES = "/v1/streams/messages/records"


def the_form(browser: Browser) -> Form:
    return browser.open(f"/connections/{PERSONAL}").form


def test_the_page_counts_the_records_of_each_stream(world: World, alice: Browser) -> None:
    page = alice.open(f"/connections/{PERSONAL}")

    assert "Messages Sender, subject, date and text. 5 records" in page.text
    assert "Threads Conversations. 1 record" in page.text
    listed = [at for words, at in page.links if words == "View"]
    assert "Lease signed" in alice.open(listed[0]).text


def test_the_list_counts_and_says_the_state(world: World, alice: Browser) -> None:
    page = alice.open("/connections")

    assert "Personal mail Mail 6 records Active" in page.text


def test_a_new_name_and_languages_are_kept(world: World, alice: Browser) -> None:
    before = Connection.unscoped.get(pk=PERSONAL)
    form = the_form(alice)
    assert form.is_ticked("German")
    form.fill("display_name", "Home mail")
    form.untick("German")
    form.tick("French")

    alice.press(form)

    after = Connection.unscoped.get(pk=PERSONAL)
    assert (after.display_name, after.languages) == ("Home mail", ["en", "fr"])
    assert after.updated_at > before.updated_at
    assert (after.change_seq, after.source_id) == (before.change_seq, before.source_id)


def test_a_stream_that_only_grows_may_be_replaced_where_the_owner_says_so(
    world: World, alice: Browser
) -> None:
    assert "that only grow" not in alice.open(f"/connections/{PERSONAL}").text
    form = alice.open(f"/connections/{BANK}").form
    form.tick("Replace records of streams that only grow")

    alice.press(form)

    assert Connection.unscoped.get(pk=BANK).replaces
    assert not Connection.unscoped.get(pk=PERSONAL).replaces


def test_the_name_of_another_connection_is_refused(world: World, alice: Browser) -> None:
    form = the_form(alice)
    form.fill("display_name", "work mail")

    page = alice.press(form)

    assert "Another connection has this name. Choose another." in page.text
    assert Connection.unscoped.get(pk=PERSONAL).display_name == "Personal mail"


def test_a_language_without_a_name_survives(world: World, alice: Browser) -> None:
    Connection.unscoped.filter(pk=PERSONAL).update(languages=["tlh", "en"])

    alice.press(the_form(alice))

    assert set(Connection.unscoped.get(pk=PERSONAL).languages) == {"en", "tlh"}


@pytest.mark.parametrize(("words", "seen"), [("Paused", 7), ("Revoked", 2)])
def test_pausing_hides_nothing_and_ending_hides_everything(
    world: World, alice: Browser, words: str, seen: int
) -> None:
    form = the_form(alice)
    status = form.boxes[next(said for said in form.boxes if said.startswith(words))]
    form.fill(*status)

    alice.press(form)
    # Dora reads messages of both mailboxes; the chat has a stream of that name too.
    shown = world.get("/v1/search", "dora", q="lease OR budget OR invoice OR dinner OR plants")

    hidden = {each["connection_id"] for each in shown.body["data"]}
    assert (PERSONAL in hidden) is (words == "Paused")
    back = the_form(alice)
    back.fill("status", "active")
    alice.press(back)
    assert len(world.get(MESSAGES, "bob", connection_id=PERSONAL).ids) == 3


@pytest.mark.parametrize(
    ("name", "value"), [("status", "gone"), ("status", "draft"), ("languages", "klingon")]
)
def test_what_is_not_offered_is_refused(
    world: World, alice: Browser, name: str, value: str
) -> None:
    form = the_form(alice)
    form.fill(name, value)

    page = alice.press(form)

    assert any("is not one of the available choices" in error for error in page.errors)
    assert Connection.unscoped.get(pk=PERSONAL).status == "active"


def test_a_draft_may_stay_one(world: World, alice: Browser) -> None:
    Connection.unscoped.filter(pk=PERSONAL).update(status="draft")
    form = the_form(alice)
    assert form.values("status") == ["draft"]

    alice.press(form)

    assert Connection.unscoped.get(pk=PERSONAL).status == "draft"


def test_the_owners_own_addresses_are_kept_as_they_are_compared(
    world: World, alice: Browser
) -> None:
    form = the_form(alice)
    form.fill("identities", " Alice@Example.org \n\nalice  liddell\nalice@example.org")

    alice.press(form)

    kept = ["alice@example.org", "alice liddell"]
    assert Connection.unscoped.get(pk=PERSONAL).identities == kept
    again = the_form(alice)
    assert again.values("identities") == ["alice@example.org\nalice liddell"]
    again.fill("identities", "x" * 201)
    assert "up to 200 printable characters" in alice.press(again).text
