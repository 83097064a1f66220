"""The changes feed against a plain dictionary, and against a twin with more going on out of sight.

A client applies what it is told to a mirror. Whatever is written, also between its pages, the
mirror ends as exactly what the grant shows; where nothing is written between the pages, exactly the
records of which something shown has changed are told, also when it changed back.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evidence.access import change_log
from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest
from tests.world import World

pytestmark = pytest.mark.slow

PATH = "/v1/streams/things/records"
CONNECTIONS = ("cin_x", "cin_y")
THINGS: dict[str, Any] = {
    "protocol_version": "0.1.0",
    "connector_id": "https://registry.example/connectors/things",
    "connector_key": "things",
    "version": "1.0.0",
    "display_name": "Things",
    "streams": [
        {
            "name": name,
            "semantics": "mutable_state",
            "schema": {
                "type": "object",
                "properties": {
                    "id": {"type": "string"},
                    "title": {"type": "string"},
                    "note": {"type": ["array", "null"]},
                    "secret": {"type": "integer"},
                    "at": {"type": "string", "format": "date-time"},
                },
            },
            "primary_key": ["id"],
            "cursor_field": "at",
            "consent_time_field": "at",
            "selection": {"fields": True, "resources": True},
        }
        for name in ("things", "others")
    ],
}
SINCE = datetime(2026, 1, 1, tzinfo=UTC)
EARLY, IN_RANGE = "2025-05-05T00:00:00Z", ("2026-02-02T00:00:00Z", "2026-03-03T00:00:00Z")
KEYS = ("a", "b", "c", "d")
HIDDEN_KEYS = ("h1", "h2")


@pytest.fixture(autouse=True)
def _both_walks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some connections have few changes, which are read by number, and some more, read by key."""
    monkeypatch.setattr(change_log, "MAX_SORTED_CHANGES", 2)


Data = dict[str, Any]
Name = tuple[str, str]


@dataclass(frozen=True)
class Terms:
    """A grant of the stream, and in plain lines of its own what it shows."""

    fields: frozenset[str]
    since: datetime | None
    keys: tuple[str, ...] | None

    def request(self) -> GrantRequest:
        stream = StreamRequest(
            name="things", fields=sorted(self.fields), since=self.since, resources=self.keys
        )
        return GrantRequest(connection_ids=CONNECTIONS, streams=[stream])

    def shows(self, data: Data | None) -> Data | None:
        if data is None or (self.keys is not None and data["id"] not in self.keys):
            return None
        if self.since is not None:
            at = data.get("at")
            if at is None or datetime.fromisoformat(at) < self.since:
                return None
        return {name: value for name, value in data.items() if name in self.fields | {"id"}}


@dataclass(frozen=True)
class Put:
    name: Name
    data: Data

    def line(self) -> Data:
        return {"connection_id": self.name[0], "stream": "things", "key": self.name[1],
                "data": self.data}  # fmt: skip


@dataclass(frozen=True)
class Delete:
    name: Name

    def line(self) -> Data:
        return {"connection_id": self.name[0], "stream": "things", "key": self.name[1],
                "op": "delete"}  # fmt: skip


@dataclass(frozen=True)
class Edit:
    """Some fields of a record that is there."""

    name: Name
    more: Data


@dataclass(frozen=True)
class Read:
    """One page."""

    limit: int


Write = Put | Delete | Edit
Step = Write | Read


def thing(key: str, more: Data) -> Data:
    return {"id": key} | more


terms = st.builds(
    Terms,
    fields=st.sampled_from([frozenset({"title", "note"}), frozenset({"title", "at"})]),
    since=st.sampled_from([None, SINCE]),
    keys=st.sampled_from([None, ("a", "b", "d", "h1")]),
)
names = st.tuples(st.sampled_from(CONNECTIONS), st.sampled_from(KEYS))
contents = st.fixed_dictionaries(
    {},
    optional={
        "title": st.sampled_from(["x", "y"]),
        "note": st.sampled_from([None, [1], [1.0], [True]]),
        "secret": st.integers(0, 2),
        "at": st.sampled_from([EARLY, *IN_RANGE]),
    },
)
puts = st.builds(lambda name, more: Put(name, thing(name[1], more)), names, contents)
edits = st.builds(
    Edit,
    names,
    st.one_of(
        st.fixed_dictionaries({"at": st.sampled_from([EARLY, *IN_RANGE])}),
        st.fixed_dictionaries({"title": st.sampled_from(["x", "y"])}),
        st.fixed_dictionaries({"secret": st.integers(0, 2)}),
    ),
)
writes = st.one_of(puts, edits, edits, st.builds(Delete, names))
steps = st.lists(st.one_of(writes, writes, st.builds(Read, st.integers(1, 3))), max_size=14)


@dataclass
class Client:
    """Somebody who follows the feed."""

    world: World
    mirror: dict[Name, Data] = field(default_factory=dict)
    since: str = "beginning"

    def read(self, limit: int) -> tuple[list[Data], bool]:
        """The rows of the next page, applied, and whether there are more."""
        answer = self.world.get(PATH, "zoe", changes_since=self.since, limit=limit)
        assert answer.status == 200, answer.body
        rows: list[Data] = answer.body["data"]
        assert len(rows) <= limit
        for row in rows:
            name = row["connection_id"], row["id"]
            if row.get("deleted"):
                self.mirror.pop(name, None)
            else:
                self.mirror[name] = row["data"]
        self.since = answer.body["next_changes_since"]
        return rows, answer.body["has_more"]

    def read_all(self, limit: int) -> list[Data]:
        rows, has_more = self.read(limit)
        while has_more:
            page, has_more = self.read(limit)
            rows += page
        return rows


@pytest.fixture
def things(world: World) -> World:
    world.declare(THINGS)
    for connection_id in CONNECTIONS:
        world.connect(connection_id, "things", connection_id)
    return world


def apply(world: World, records: dict[Name, Data], step: Write) -> None:
    if isinstance(step, Edit):
        if step.name not in records:
            return
        step = Put(step.name, records[step.name] | step.more)
    world.send([step.line()])
    if isinstance(step, Put):
        records[step.name] = step.data
    else:
        records.pop(step.name, None)


def visible(records: dict[Name, Data], held: Terms) -> dict[Name, Data]:
    shown = ((name, held.shows(data)) for name, data in records.items())
    return {name: data for name, data in shown if data is not None}


def alike(data: Data | None) -> str:
    """The same text for what is equal to the store, to which 1 is 1.0 and not true."""
    return json.dumps(data, sort_keys=True).replace("1.0", "1")


COMMON = settings(deadline=None, suppress_health_check=list(HealthCheck))


@settings(COMMON, max_examples=40)
@given(held=terms, script=steps, limit=st.integers(1, 4))
def test_the_mirror_ends_as_what_the_grant_shows(
    things: World, held: Terms, script: Sequence[Step], limit: int
) -> None:
    with transaction.atomic():
        things.grant("zoe", held.request())
        client, records = Client(things), dict[Name, Data]()
        for step in script:
            if isinstance(step, Read):
                rows, _ = client.read(step.limit)
                _check_rows(rows, records, held)
            else:
                apply(things, records, step)
        client.read_all(limit)
        client.read_all(limit)
        assert client.mirror == visible(records, held)
        assert client.read_all(limit) == []
        transaction.set_rollback(True)


def _check_rows(rows: Sequence[Data], records: dict[Name, Data], held: Terms) -> None:
    """A record is told as it is now, a tombstone stands for what is not visible now."""
    for row in rows:
        now = held.shows(records.get((row["connection_id"], row["id"])))
        assert now == (None if row.get("deleted") else row["data"])


@pytest.mark.slow
@settings(COMMON, max_examples=40)
@given(
    held=terms,
    sessions=st.lists(st.lists(writes, max_size=6), min_size=1, max_size=3),
    limit=st.integers(1, 4),
)
def test_exactly_what_visibly_changed_is_listed(
    things: World, held: Terms, sessions: Sequence[Sequence[Write]], limit: int
) -> None:
    with transaction.atomic():
        things.grant("zoe", held.request())
        client, records = Client(things), dict[Name, Data]()
        for session in sessions:
            before, changed = visible(records, held), set[Name]()
            for step in session:
                past = visible(records, held)
                apply(things, records, step)
                now = visible(records, held)
                changed |= {n for n in {*past, *now} if alike(past.get(n)) != alike(now.get(n))}
            told = [(row["connection_id"], row["id"]) for row in client.read_all(limit)]
            assert told == sorted(changed & {*before, *visible(records, held)})
        transaction.set_rollback(True)


# What goes on out of sight

noises = st.one_of(
    st.tuples(st.just("secret"), names, st.integers(3, 9)),
    st.tuples(
        st.just("out of range"),
        st.tuples(st.sampled_from(CONNECTIONS), st.sampled_from(HIDDEN_KEYS)),
        st.integers(0, 9),
    ),
    st.tuples(
        st.just("gone"),
        st.tuples(st.sampled_from(CONNECTIONS), st.sampled_from(HIDDEN_KEYS)),
        st.just(0),
    ),
    st.tuples(st.just("other stream"), names, st.integers(0, 9)),
    st.tuples(st.just("within range"), names, st.integers(0, 9)),
)


def disturb(world: World, records: dict[Name, Data], noise: Any) -> None:
    """Something that a grant of titles and notes since 2026 cannot see."""
    kind, name, number = noise
    known = records.get(name)
    if kind == "secret" and known is not None:
        apply(world, records, Put(name, known | {"secret": number}))
    elif kind == "out of range":
        apply(world, records, Put(name, thing(name[1], {"at": EARLY, "title": str(number)})))
    elif kind == "gone":
        apply(world, records, Delete(name))
    elif kind == "other stream":
        line = Put(name, thing(name[1], {"title": str(number)})).line()
        world.send([line | {"stream": "others"}])
    elif kind == "within range" and known is not None and known.get("at") in IN_RANGE:
        apply(world, records, Put(name, known | {"at": f"2026-04-{number + 1:02}T00:00:00Z"}))


BLIND = Terms(frozenset({"title", "note"}), SINCE, None)


def watched(world: World, script: Sequence[tuple[Step, Sequence[Any]]]) -> list[Any]:
    """Every answer to the script, bookmarks by their lengths."""
    client, records, answers = Client(world), dict[Name, Data](), list[Any]()
    for step, noise in script:
        if isinstance(step, Read):
            rows, has_more = client.read(step.limit)
            answers.append((rows, has_more, len(client.since)))
        elif isinstance(step, Put):
            # The record as the script has it, and whatever the noise did to what is hidden.
            hidden = {
                name: value
                for name, value in records.get(step.name, {}).items()
                if name == "secret" and name not in step.data
            }
            apply(world, records, Put(step.name, step.data | hidden))
        else:
            apply(world, records, step)
        for each in noise:
            disturb(world, records, each)
    for _ in range(2):
        answers.append((client.read_all(2), len(client.since)))
    return answers


@pytest.mark.slow
@settings(COMMON, max_examples=30)
@given(
    script=st.lists(
        st.tuples(
            st.one_of(writes, st.builds(Read, st.integers(1, 2))), st.lists(noises, max_size=3)
        ),
        max_size=10,
    )
)
def test_hidden_changes_alter_no_response(
    things: World, script: Sequence[tuple[Step, Sequence[Any]]]
) -> None:
    outcomes = []
    for noisy in (False, True):
        with transaction.atomic():
            things.grant("zoe", BLIND.request())
            quiet = [(step, noise if noisy else ()) for step, noise in script]
            outcomes.append(watched(things, quiet))
            transaction.set_rollback(True)
    assert outcomes[0] == outcomes[1]
