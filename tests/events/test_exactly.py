"""Somebody is told exactly when what the grant shows has changed: over generated grants and writes."""

from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone
from hypothesis import HealthCheck, given, settings

from evidence.events.event_scheduler import look_after
from evidence.models.events import Event, Subscription
from tests.events.receiving import SUBSCRIPTIONS, ask
from tests.test_non_interference import Terms, grants, writes
from tests.world import RECORDS, World

State = dict[tuple[str, str], dict[str, Any]]


def shown(terms: Terms, state: State) -> dict[str, dict[str, Any]]:
    """By connection, what the oracle lets the grant see of each record."""
    seen: dict[str, dict[str, Any]] = {}
    for (connection_id, key), data in state.items():
        visible = terms.shows(connection_id, data)
        if visible is not None:
            seen.setdefault(connection_id, {})[key] = visible
    return seen


@pytest.mark.django_db
def test_an_event_is_made_for_each_visible_change_and_for_no_other(world: World) -> None:
    before: State = {
        (connection_id, data["id"]): data
        for connection_id, stream, data in RECORDS
        if stream == "messages" and "channel" not in data
    }

    @settings(max_examples=12, suppress_health_check=list(HealthCheck))
    @given(terms=grants, written=writes)
    def check(terms: Terms, written: list[tuple[str, dict[str, Any]]]) -> None:
        with transaction.atomic():
            world.grant("erin", terms.request())
            made = ask(world, "POST", SUBSCRIPTIONS, "erin", callback_url="https://a.example/")
            subscription_id = made.body["subscription_id"]
            Subscription.unscoped.update(status=Subscription.Status.ACTIVE)
            after = dict(before)
            for connection_id, data in written:
                world.put((connection_id, "messages", data))
                after[connection_id, data["id"]] = data

            look_after(subscription_id, now=timezone.now())

            events = Event.unscoped.filter(type=Event.Type.CHANGED, stream="messages")
            old, new = shown(terms, before), shown(terms, after)
            changed = {each for each in {*old, *new} if old.get(each) != new.get(each)}
            assert {event.connection_id for event in events} == changed
            transaction.set_rollback(True)

    check()
