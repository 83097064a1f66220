"""Events are created exactly for visible changes, over generated grants and writes."""

import dataclasses
from itertools import pairwise
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone
from hypothesis import HealthCheck, given, settings

from evidence.events.event_scheduler import queue_changes
from evidence.models.events import Event, Subscription
from tests.events.receiving import SUBSCRIPTIONS, send_json
from tests.test_non_interference import Terms, grants, writes
from tests.world import RECORDS, World

State = dict[tuple[str, str], dict[str, Any]]


def visible_records(terms: Terms, state: State) -> dict[str, dict[str, Any]]:
    """Return what the oracle shows of each record, by connection."""
    visible_by_connection: dict[str, dict[str, Any]] = {}
    for (connection_id, key), data in state.items():
        visible = terms.shows(connection_id, data)
        if visible is not None:
            visible_by_connection.setdefault(connection_id, {})[key] = visible
    return visible_by_connection


def without_notes(terms: Terms) -> Terms:
    """Return the terms without the fields that the declaration of this test lacks."""
    fields = tuple(name for name in terms.fields if name not in {"aa_note", "zz_note"})
    return dataclasses.replace(terms, fields=fields)


@pytest.mark.django_db
def test_events_are_created_exactly_for_visible_changes(world: World) -> None:
    before: State = {
        (connection_id, data["id"]): data
        for connection_id, stream, data in RECORDS
        if stream == "messages" and "channel" not in data
    }

    @settings(max_examples=12, suppress_health_check=list(HealthCheck))
    @given(terms=grants.map(without_notes), written=writes)
    def check(terms: Terms, written: list[tuple[str, dict[str, Any]]]) -> None:
        with transaction.atomic():
            world.grant("erin", terms.request())
            created = send_json(
                world, "POST", SUBSCRIPTIONS, "erin", callback_url="https://a.example/"
            )
            subscription_id = created.body["subscription_id"]
            Subscription.unscoped.update(status=Subscription.Status.ACTIVE)
            state, states = dict(before), [visible_records(terms, before)]
            for connection_id, data in written:
                world.put((connection_id, "messages", data))
                state[connection_id, data["id"]] = data
                states.append(visible_records(terms, state))

            queue_changes(subscription_id, now=timezone.now())

            events = Event.unscoped.filter(type=Event.Type.CHANGED, stream="messages")
            changed = {
                (connection_id, key)
                for old, new in pairwise(states)
                for connection_id in {*old, *new}
                for key in {*old.get(connection_id, {}), *new.get(connection_id, {})}
                if old.get(connection_id, {}).get(key) != new.get(connection_id, {}).get(key)
            }
            known = {
                (connection_id, key)
                for shown in (states[0], states[-1])
                for connection_id, records in shown.items()
                for key in records
            }
            told = {connection_id for connection_id, _ in changed & known}
            assert {event.connection_id for event in events} == told
            transaction.set_rollback(True)

    check()
