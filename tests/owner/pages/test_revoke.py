"""The owner ends a grant, a package or a token, and it holds at the next request."""

import pytest

from evidence.models.grants import AccessToken, Grant
from tests.access.test_narrowed_meanwhile import narrow_bobs
from tests.owner.pages.browser import Browser
from tests.owner.pages.giving import at
from tests.world import World

MESSAGES = "/v1/streams/messages/records"
TRANSACTIONS = "/v1/streams/transactions/records"


def grant_page(world: World, name: str, source: str) -> str:
    (grant,) = [each for each in world.grants[name] if each.source.connector_key == source]
    return at("grant", grant.pk)


def test_an_ended_grant_reads_nothing_from_the_next_request_on(
    world: World, alice: Browser
) -> None:
    assert world.get(MESSAGES, "bob").status == 200
    page = alice.open(grant_page(world, "bob", "mail"))

    question = alice.open(page.link("Revoke this grant"))
    assert world.get(MESSAGES, "bob").status == 200
    done = alice.press(question.form)

    refused = world.get(MESSAGES, "bob")
    assert (refused.status, refused.error["code"]) == (403, "grant_revoked")
    assert "1 grant revoked." in done.text
    assert "Revoked" in done.text
    assert not done.has_link("Revoke this grant")


def test_a_question_that_is_out_of_date_ends_what_the_grant_has_become(
    world: World, alice: Browser
) -> None:
    question = alice.open(alice.open(grant_page(world, "bob", "mail")).link("Revoke this grant"))
    narrow_bobs(world)
    assert world.get(MESSAGES, "bob").status == 200

    assert "1 grant revoked." in alice.press(question.form).text
    assert world.get(MESSAGES, "bob").error["code"] == "grant_revoked"


def test_ending_one_grant_of_a_package_leaves_the_others(world: World, alice: Browser) -> None:
    page = alice.open(grant_page(world, "dora", "mail"))

    alice.press(alice.open(page.link("Revoke this grant")).form)

    assert world.get(TRANSACTIONS, "dora").status == 200
    assert world.get(MESSAGES, "dora").ids == ["c2", "c1"]


def test_everything_given_together_ends_together(world: World, alice: Browser) -> None:
    page = alice.open(grant_page(world, "dora", "mail"))

    question = alice.open(page.link("Revoke all grants of this sign-in"))
    assert "Revoke 3 grants?" in question.text
    alice.press(question.form)

    for path in (TRANSACTIONS, MESSAGES):
        assert world.get(path, "dora").error["code"] == "grant_revoked"
    assert world.get(TRANSACTIONS, "charlie").status == 200


def test_several_grants_are_ended_from_the_list_after_a_question(
    world: World, alice: Browser
) -> None:
    chosen = [world.grants["bob"][0].pk, world.grants["charlie"][0].pk]
    form = alice.open("/admin/evidence/grant/").forms[-1]
    form.answers += [("_selected_action", each) for each in chosen]
    form.fill("action", "revoke")

    question = alice.press(form, "index", "0")
    assert "Revoke 2 grants?" in question.text
    assert world.get(MESSAGES, "bob").status == 200
    done = alice.press(question.form)

    assert "2 grants revoked." in done.text
    assert world.get(MESSAGES, "bob").status == 403
    assert world.get(TRANSACTIONS, "charlie").status == 403
    assert world.get(TRANSACTIONS, "dora").status == 200


@pytest.mark.parametrize("name", ["bob", "alice"])
def test_an_ended_token_opens_nothing_and_its_neighbours_stay(
    world: World, alice: Browser, name: str
) -> None:
    package = world.packages.get(name)
    token = AccessToken.unscoped.get(resource="/v1", package=package)
    question = alice.open(alice.open("/tokens").link(f"Revoke the token {token.pk}"))
    assert world.get(MESSAGES, name, connection_id="cin_personal").status == 200
    done = alice.press(question.form)

    assert "1 token revoked." in done.text
    assert world.get(MESSAGES, name).status == 401
    assert world.get(TRANSACTIONS, "charlie").status == 200
    others = AccessToken.unscoped.exclude(pk=token.pk)
    assert not others.exclude(revoked_at=None).exists()


def test_asking_alone_ends_nothing(world: World, alice: Browser) -> None:
    grant = world.grants["bob"][0]
    question = alice.open(at("grant", grant.pk, "revoke"))

    question.form.answers.remove(("confirmed", "yes"))
    again = alice.press(question.form)

    assert "Revoke this grant?" in again.text
    assert world.get(MESSAGES, "bob").status == 200


def test_a_forged_request_ends_nothing(world: World, alice: Browser) -> None:
    grant = world.grants["bob"][0]

    answer = alice.http.post(at("grant", grant.pk, "revoke"), {"confirmed": "yes"})

    assert answer.status_code == 403
    assert Grant.unscoped.get(pk=grant.pk).revoked_at is None


def test_ending_twice_keeps_the_first_time(world: World, alice: Browser) -> None:
    grant = world.grants["bob"][0]
    address = at("grant", grant.pk, "revoke")
    question = alice.open(address)
    alice.press(question.form)
    first = Grant.unscoped.get(pk=grant.pk).revoked_at

    again = alice.press(question.form)

    assert "0 grants revoked." in again.text
    assert Grant.unscoped.get(pk=grant.pk).revoked_at == first
