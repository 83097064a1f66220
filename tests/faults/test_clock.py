"""The clock is set forward and back while programs go on."""

from datetime import timedelta

import pytest
from django.utils import timezone
from time_machine import Traveller

from evidence.ledger.checkpoints import sign_entries
from evidence.ledger.verification import verify
from evidence.models.ledger import Disclosure
from tests.world import NOW, PERSONAL, World

LIST = "/v1/streams/messages/records"


@pytest.fixture
def clock(world: World, time_machine: Traveller) -> Traveller:
    time_machine.move_to(NOW, tick=False)
    return time_machine


def test_the_ledger_stays_whole_and_in_the_order_of_events(world: World, clock: Traveller) -> None:
    for hours in (0, 3, -2, 24 * 365, 0):
        clock.move_to(NOW + timedelta(hours=hours), tick=False)
        assert world.get(LIST).status == 200
        sign_entries(world.owner_id, now=timezone.now())

    rows = list(Disclosure.unscoped.order_by("seq").values_list("at", flat=True))
    assert [(at - NOW) // timedelta(hours=1) for at in rows] == [0, 3, -2, 24 * 365, 0]
    assert verify(world.owner_id).problems == []


def test_a_page_that_was_begun_goes_on_whatever_the_clock_says(
    world: World, clock: Traveller
) -> None:
    first = world.get(LIST, limit=1, connection_id=PERSONAL)
    cursor = first.body["next_cursor"]
    for jump in (timedelta(days=-400), timedelta(hours=1)):
        clock.move_to(NOW + jump, tick=False)
        second = world.get(LIST, limit=1, connection_id=PERSONAL, cursor=cursor)
        assert second.status == 200
        assert second.ids != first.ids


def test_bookmarks_of_the_future_are_honoured_and_old_ones_end_in_the_usual_form(
    world: World, clock: Traveller
) -> None:
    begun = world.get(LIST, connection_id=PERSONAL, changes_since="beginning")
    bookmark = begun.body["next_changes_since"]
    for jump in (timedelta(days=-400), timedelta(days=3000)):
        clock.move_to(NOW + jump, tick=False)
        answer = world.get(LIST, connection_id=PERSONAL, changes_since=bookmark)
        assert answer.status in (200, 410), answer.body
        assert answer.status == 200 or answer.error["code"] == "cursor_expired"


def test_a_token_ends_by_the_clock_of_the_server_and_by_no_other(
    world: World, clock: Traveller
) -> None:
    clock.shift(timedelta(days=3650))
    assert world.get(LIST).status in (401, 403)
    clock.move_to(NOW, tick=False)
    assert world.get(LIST).status == 200


def test_what_was_revoked_stays_revoked_when_the_clock_goes_back(
    world: World, clock: Traveller
) -> None:
    from evidence.access.grants import revoke_package

    revoke_package(world.packages["bob"].package_id, now=NOW)
    clock.shift(timedelta(days=-400))

    assert world.get(LIST).status == 403


def test_records_of_every_time_are_taken(world: World, clock: Traveller) -> None:
    for number, jump in enumerate((timedelta(days=-20_000), timedelta(days=20_000))):
        clock.move_to(NOW + jump, tick=False)
        outcome = world.put((PERSONAL, "messages", {"id": f"odd{number}"}))
        assert outcome.accepted == 1
