"""What a sync brings is reported once, to ``changes_since`` and to event subscriptions."""

from collections.abc import Iterator
from typing import Any

import pytest

from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest
from tests.events.receiving import (
    Receiver,
    create_active_subscription,
    deliver_round,
    running_receiver,
)
from tests.importers.dovecot import Dovecot, message, messages, run_dovecot
from tests.importers.syncing import connect, kill_sync, run_sync
from tests.world import World

pytestmark = pytest.mark.slow

USER = "ida@mail.example"
PATH = "/v1/streams/messages/records"
SUBJECTS, ALL = ("id", "subject"), ("id", "subject", "folder", "is_read")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Dovecot]:
    with run_dovecot() as dovecot:
        monkeypatch.setenv("SSL_CERT_FILE", str(dovecot.authority))
        yield dovecot


@pytest.fixture
def receiver(settings: Any) -> Iterator[Receiver]:
    settings.PDPP_LOCAL_RECEIVERS = True
    with running_receiver() as listening:
        yield listening


class Reader:
    """A client that reads changes, each time from where it stopped."""

    def __init__(
        self, world: World, name: str, connection_id: str, fields: tuple[str, ...]
    ) -> None:
        self._world, self._name = world, name
        self._query = {"connection_id": connection_id, "limit": "100"}
        self._bookmark = "beginning"
        streams = [StreamRequest(name="messages", fields=fields)]
        world.grant(name, GrantRequest(connection_ids=[connection_id], streams=streams))

    def changes(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while True:
            query = self._query | {"changes_since": self._bookmark}
            body = self._world.get(PATH, self._name, **query).body
            found += [each["data"] for each in body["data"]]
            self._bookmark = body["next_changes_since"]
            if not body["has_more"]:
                return found

    def subjects(self) -> list[str]:
        return sorted(each["subject"] for each in self.changes())


@pytest.mark.django_db
def test_new_messages_flags_and_moves_are_reported_once(
    world: World, server: Dovecot, receiver: Receiver
) -> None:
    server.append(USER, message(1), message(2), message(3))
    server.append(USER, message(4), folder="Archive")
    pk = connect(server, USER)
    run_sync(pk)
    everything, subjects = (
        Reader(world, name, pk, fields) for name, fields in (("all", ALL), ("subjects", SUBJECTS))
    )
    create_active_subscription(world, receiver, "all")
    first = everything.subjects()
    subjects.changes()
    server.append(USER, message(5))
    with server.client(USER) as other:
        other.select()
        other.uid("STORE", "1", "+FLAGS", r"(\Seen)")
        other.uid("MOVE", "2", "Archive")

    run_sync(pk)
    told = {each["subject"]: (each["folder"], each["is_read"]) for each in everything.changes()}
    deliver_round()
    run_sync(pk)
    deliver_round()

    assert first == ["Letter 1", "Letter 2", "Letter 3", "Letter 4"]
    assert told == {
        "Letter 1": ("inbox", True),
        "Letter 2": ("Archive", False),
        "Letter 5": ("inbox", False),
    }
    assert everything.changes() == []
    # Read state and folder are outside this grant.
    assert subjects.subjects() == ["Letter 5"]
    assert [each["change_count_hint"] for each in receiver.changes] == [3]


@pytest.mark.django_db(transaction=True)
def test_killed_and_repeated_run_reports_each_message_once(
    committed: World, server: Dovecot, settings: Any
) -> None:
    settings.PDPP_TRIPWIRE_SHARE = 0  # the client reads everything
    server.append(USER, message(0))
    pk = connect(server, USER)
    run_sync(pk)
    reader = Reader(committed, "reader", pk, SUBJECTS)
    told = reader.subjects()
    server.fill(USER, messages(range(1, 1_200)))
    for _ in range(2):
        kill_sync(pk)
        told += reader.subjects()
    killed_at = len(told)
    run_sync(pk)
    told += reader.subjects()
    run_sync(pk)

    assert killed_at < 1_200
    assert sorted(told) == sorted(f"Letter {number}" for number in range(1_200))
    assert reader.changes() == []
