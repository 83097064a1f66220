"""Test upserts and deletes in batches of any size against a dictionary model."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evidence.models.connections import Connection
from evidence.models.records import Record, RecordChange, SearchText
from evidence.write import batches
from evidence.write.ingest import ingest_lines
from evidence.write.ndjson import NdjsonLine
from tests.world import NOW, PERSONAL, WORK, World
from tests.write import stored

START = datetime(2026, 10, 1, tzinfo=UTC)
VALUES = st.sampled_from([None, "one", "two", 1, 1.5, True, [1, {"a": "b"}]])
FIELDS = st.fixed_dictionaries(
    {},
    optional={"subject": st.sampled_from([None, "alpha", "beta"]), "extra": VALUES, "more": VALUES},
)
OPERATION = st.tuples(
    st.sampled_from([PERSONAL, WORK]),
    st.sampled_from(["k1", "k2", "k3"]),
    st.one_of(st.none(), FIELDS),
)
Operation = tuple[str, str, dict[str, Any] | None]
Name = tuple[str, str]


def lines(operations: Sequence[Operation]) -> list[NdjsonLine]:
    made = []
    for number, (connection_id, key, fields) in enumerate(operations, 1):
        members: dict[str, Any] = {
            "connection_id": connection_id,
            "stream": "messages",
            "key": key,
            "emitted_at": (START + timedelta(minutes=number)).isoformat(),
        }
        members |= {"op": "delete"} if fields is None else {"data": {"id": key} | fields}
        made.append(NdjsonLine(number, json.dumps(members).encode()))
    return made


def expected(operations: Sequence[Operation]) -> tuple[dict[Name, Any], dict[Name, list[Any]]]:
    """Return the final records and all their versions; None means absent."""
    now: dict[Name, Any] = {}
    past: dict[Name, list[Any]] = {}
    for connection_id, key, fields in operations:
        name = (connection_id, key)
        new = None if fields is None else {"id": key} | fields
        if json.dumps(now.get(name), sort_keys=True) != json.dumps(new, sort_keys=True):
            past.setdefault(name, []).append(now.get(name))
            now[name] = new
    return {name: data for name, data in now.items() if data is not None}, past


def empty() -> None:
    for model in (Record, RecordChange, SearchText):
        model.unscoped.all().delete()
    Connection.unscoped.update(change_seq=0)
    with_counts = Connection.unscoped.first()
    assert with_counts is not None
    from evidence.models.connections import StreamState

    StreamState.unscoped.all().delete()


def changed_names(past: Any, after: Any) -> set[str] | None:
    if past is None or after is None:
        return None
    return {
        name
        for name in past.keys() | after.keys()
        if name not in past
        or name not in after
        or json.dumps(past[name], sort_keys=True) != json.dumps(after[name], sort_keys=True)
    }


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operations=st.lists(OPERATION, max_size=14), batch_size=st.integers(1, 6))
def test_operations_match_a_dictionary_model(
    world: World, operations: list[Operation], batch_size: int
) -> None:
    empty()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "BATCH_LINES", batch_size)
        ingest_lines(lines(operations), owner_id=world.owner_id, now=NOW)
    current, past = expected(operations)
    kept = {(each.connection_id, each.record_key): each.data for each in Record.unscoped.all()}
    assert kept == current
    assert stored.counts() == stored.true_counts()
    for name, states in past.items():
        following = [*states[1:], current.get(name)]
        changes = [change.changed for change in stored.changes(*name)]
        assert [None if names is None else {*names} for names in changes] == [
            changed_names(state, after) for state, after in zip(states, following, strict=True)
        ]
    for connection_id in (PERSONAL, WORK):
        numbers = [change.seq for change in stored.changes(connection_id)]
        assert numbers == list(range(1, len(numbers) + 1))
        assert stored.change_seq(connection_id) == len(numbers)
    indexed = SearchText.unscoped.values_list("connection_id", "record_key")
    assert set(indexed) == set(current)
    for name, data in current.items():
        words = {data["subject"]} if data.get("subject") else set()
        assert words <= stored.terms(*name)
        assert stored.terms(*name).isdisjoint({"alpha", "beta"} - words)
