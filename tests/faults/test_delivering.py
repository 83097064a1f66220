"""Whoever delivers is killed while a receiver has not answered yet, and another goes on."""

import contextlib
import json
from collections import Counter
from collections.abc import Iterator

import psycopg
import pytest

from tests.events.receiving import SUBSCRIPTIONS, Received, Receiver, running_receiver
from tests.events.test_workers import wait_until
from tests.faults.load import WHERE, hold_to_account
from tests.pdpp_site.installation import Installation, installed, running
from tests.pdpp_site.living import Cast, cast_in

pytestmark = pytest.mark.faults

CHANGED = "pdpp.records.changed"
HERE = {"PDPP_LOCAL_RECEIVERS": "true"}
LONG = 60.0
"""Some three times what the documentation promises: the machine may be busy."""


def test_what_was_on_its_way_is_sent_again_and_is_in_the_ledger_each_time() -> None:
    with running_receiver() as one, running_receiver() as other, installed() as installation:
        try:
            with running(installation, **HERE) as server:
                cast = cast_in(installation)
                secrets = [subscribed(cast, each) for each in (one, other)]
                one.willing.clear()
                other.status, other.headers["retry-after"] = 429, "1"
                put(cast, "n1")
                wait_until(lambda: one.of(CHANGED) and 429 in answers(cast), seconds=LONG)
                put(cast, "n2")
                server.process.kill()
                server.process.wait()
            other.willing.clear()
            put_off = len(other.of(CHANGED))
            with working(installation):
                wait_until(lambda: len(other.of(CHANGED)) > put_off, seconds=LONG)
        finally:
            one.willing.set()
            other.willing.set()
        other.status = 200
        sent = [len(one.of(CHANGED)), len(other.of(CHANGED))]
        with running(installation, **HERE):
            wait_until(lambda: len(one.of(CHANGED)) > sent[0], seconds=LONG)
            wait_until(lambda: len(other.of(CHANGED)) > sent[1], seconds=LONG)
            wait_until(lambda: set(answers(cast)) == {200}, seconds=LONG)
            for receiver, secret in zip((one, other), secrets, strict=True):
                messages = receiver.of(CHANGED)
                assert all(message.verified(secret) for message in messages)
                assert messages[sent[receiver is other]].headers["webhook-id"] == identity(messages)
                assert read(cast, messages[0]) >= {"n1", "n2"}
            hold_to_account(cast)
            told = Counter(identity([each]) for each in one.of(CHANGED) + other.of(CHANGED))
            assert told <= recorded(cast), "told, and not recorded"


def subscribed(cast: Cast, receiver: Receiver) -> str:
    """The secret of a subscription of Bob's that is active."""
    with cast.http("bob") as http:
        wanted = {"callback_url": receiver.url, "filters": {"streams": ["messages"]}}
        made = http.post(SUBSCRIPTIONS, json=wanted)
        assert made.status_code == 201, made.text
        path = f"{SUBSCRIPTIONS}/{made.json()['subscription_id']}"
        wait_until(lambda: http.get(path).json()["status"] == "active", seconds=LONG)
        return str(made.json()["secret"])


def put(cast: Cast, key: str) -> None:
    data = {"id": key, "body_text": "new", "received_at": "2026-03-08T09:00:00Z"}
    line = {"key": key, "data": data, "emitted_at": "2026-11-01T00:00:00Z"}
    with cast.http("alice") as http:
        done = http.post("/v1/ingest/messages", params=WHERE, content=json.dumps(line).encode())
        assert done.json()["records_accepted"] == 1, done.text


@contextlib.contextmanager
def working(installation: Installation) -> Iterator[None]:
    """``manage.py worker`` on its own, killed in the end."""
    worker = installation.manage("worker", **HERE)
    try:
        yield
    finally:
        worker.kill()
        worker.communicate()


def identity(messages: list[Received]) -> str:
    return messages[0].headers["webhook-id"]


def answers(cast: Cast) -> list[int | None]:
    """What was last answered to each event, None where nothing has been yet."""
    with psycopg.connect(cast.database) as database:
        return [answered for (answered,) in database.execute("SELECT answered FROM evidence_event")]


def read(cast: Cast, message: Received) -> set[str]:
    """The keys of what Bob finds changed where a message tells him to read."""
    place = {name: message.data[name] for name in ("connection_id", "changes_since")}
    with cast.http("bob") as http:
        answer = http.get("/v1/streams/messages/records", params=place)
        assert answer.status_code == 200, answer.text
        return {row["id"] for row in answer.json()["data"]}


def recorded(cast: Cast) -> Counter[str]:
    """How often the ledger says that an event of changes went out, by the event's id."""
    with psycopg.connect(cast.database) as database:
        rows = database.execute(
            "SELECT request_id FROM evidence_disclosure WHERE route = 'event records changed'"
        )
        return Counter(request_id for (request_id,) in rows)
