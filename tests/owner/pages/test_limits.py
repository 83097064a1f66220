"""The owner sets how much is read through a grant, and sees how much was."""

import re

import pytest

from evidence.access import grants
from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest
from evidence.access.quotas import list_quotas
from evidence.models.grants import Grant
from tests.access.test_narrowed_meanwhile import narrow_bobs
from tests.owner.pages.browser import Browser, Form, Page
from tests.owner.pages.giving import allow, at, bearers, give, review, what
from tests.world import NOW, PERSONAL, World

LIST = "/v1/streams/messages/records"


def limits_form(page: Page) -> Form:
    (form,) = [each for each in page.forms if each.action.endswith("/limits")]
    return form


def test_a_limit_set_on_the_grant_page_applies_to_the_next_request(
    world: World, alice: Browser
) -> None:
    page = at("grant", world.grants["bob"][0].pk)
    form = limits_form(alice.open(page))
    form.fill("max_calls_day", "1")
    form.fill("max_bytes_hour", "500")

    said = alice.press(form)

    assert "Limits saved: 1 call per day and 500 kilobytes per hour" in said.text
    assert [world.get(LIST).status for _ in range(2)] == [200, 429]
    shown = alice.open(page)
    assert "1 of 1 call today" in shown.text
    assert limits_form(shown).values("max_calls_day") == ["1"]
    emptied = limits_form(shown)
    emptied.fill("max_calls_day", "")
    alice.press(emptied)
    assert world.get(LIST).status == 200


def test_limits_of_any_grant_open_from_its_card(
    world: World, alice: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An underscore and two hexadecimal digits are no escaped character."""
    monkeypatch.setattr(grants, "new_id", lambda prefix: f"{prefix}25c0ffee0000000000000000")
    messages = StreamRequest(name="messages")
    world.grant("erin", GrantRequest(connection_ids=[PERSONAL], streams=[messages]))
    cards = alice.open("/connected")
    [address] = re.findall(r'href="([^"]*grt_[^"]*25c0ffee[^"]*#limits)"', cards.html)

    assert limits_form(alice.open(address.removesuffix("#limits")))


def test_the_message_about_a_wrong_limit_is_short(world: World, alice: Browser) -> None:
    form = limits_form(alice.open(at("grant", world.grants["bob"][0].pk)))
    form.fill("max_calls_minute", "0")
    form.fill("max_calls_hour", "1" * 14)
    form.fill("max_calls_day", "many")

    assert alice.press(form).errors == ["At least 1.", "Too large.", "Not a number."]


def test_opening_the_address_of_the_form_keeps_the_limits(world: World, alice: Browser) -> None:
    grant_id = world.grants["bob"][0].pk
    form = limits_form(alice.open(at("grant", grant_id)))
    form.fill("max_calls_day", "1")
    alice.press(form)

    alice.open(form.action)

    assert [quota.most for quota in list_quotas(grant_id, now=NOW)] == [1]


def test_a_page_that_is_out_of_date_limits_what_the_grant_has_become(
    world: World, alice: Browser
) -> None:
    form = limits_form(alice.open(at("grant", world.grants["bob"][0].pk)))
    form.fill("max_calls_day", "1")
    narrow_bobs(world)

    alice.press(form)

    assert [world.get(LIST).status for _ in range(2)] == [200, 429]


def test_a_limit_that_is_no_number_is_marked_and_changes_nothing(
    world: World, alice: Browser
) -> None:
    grant_id = world.grants["bob"][0].pk
    form = limits_form(alice.open(at("grant", grant_id)))
    for wrong in ("0", "-1", "many", "1" + "0" * 15):
        form.fill("max_calls_day", wrong)
        page = alice.press(form)
        assert (page.status, len(page.errors)) == (422, 1)
    assert list_quotas(grant_id, now=NOW) == []


def test_access_is_given_with_limits_or_without(world: World, alice: Browser) -> None:
    form = what(alice, "Bank account")
    form.tick("Transactions")
    form.tick("my own app")
    form.fill("limits-max_records_day", "3")
    reviewed = review(alice, form)
    assert "Limit for each source: 3 records per day" in reviewed.text
    token = bearers(allow(alice, reviewed.form))[-1]

    answers = [world.get("/v1/streams/transactions/records", token).status for _ in range(2)]

    assert answers == [200, 429]
    without = what(alice, "Bank account", client="Codex")
    without.tick("Transactions")
    assert "Your new token" in give(alice, without).text
    newest = Grant.unscoped.order_by("-issued_at")[0]
    assert list_quotas(newest.pk, now=NOW) == []
