"""The page on which the owner gives a program a token that stores records, and takes it back."""

import re

from evidence.models.connections import Connection
from evidence.models.grants import Collector
from tests.owner.pages.browser import Browser
from tests.world import BANK, World

PAGE = "/collectors"
STATE = "/v1/state/mail"


def test_a_token_is_shown_once_and_revoked_in_the_list(world: World, alice: Browser) -> None:
    form = alice.open(PAGE).form
    form.fill("name", "Gmail on the laptop")
    form.tick("Work mail")

    shown = alice.press(form)

    world.tokens["new"] = re.findall(r"pdpp_col_\w+(?:[-\w]+)", shown.text)[0]
    assert world.get(STATE, "new").body["connection_id"] == "cin_work"
    listed = alice.open(PAGE)
    assert "Gmail on the laptop Work mail" in listed.text
    assert world.tokens["new"] not in listed.html
    assert "Last used: never" not in listed.text
    question = alice.open(listed.link("Revoke Gmail on the laptop"))
    assert "Gmail on the laptop" in question.text
    assert world.get(STATE, "new").status == 200, "only asked so far"

    assert "Revoked." in alice.press(question.form).text

    assert world.get(STATE, "new").status == 401
    assert "Gmail on the laptop" not in alice.open(PAGE).text


def test_a_collector_needs_a_name_and_a_connection(world: World, alice: Browser) -> None:
    page = alice.press(alice.open(PAGE).form)

    assert "Choose a connection." in page.text
    assert not Collector.unscoped.exists()


def test_a_connection_named_as_its_source_is_listed_once(world: World, alice: Browser) -> None:
    Connection.unscoped.filter(pk=BANK).update(display_name="Bank")

    page = alice.open(PAGE).text

    assert "Bank Personal" in page or "Bank Work" in page
    assert "Bank, Bank" not in page
