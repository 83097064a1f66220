"""Storing and returning collector state."""

from typing import Any

import pytest

from evidence.errors import ConnectionNotFound, InvalidRequest, StreamNotDeclared
from evidence.write.connections import get_state, put_state
from tests.world import NOW, PERSONAL, WORK, World


def put(world: World, state: Any, connection_id: str = PERSONAL, **more: Any) -> None:
    put_state(connection_id, state=state, owner_id=world.owner_id, now=NOW, **more)


def get(world: World, connection_id: str = PERSONAL, **more: Any) -> Any:
    return get_state(connection_id, owner_id=world.owner_id, **more)


def test_initial_state_is_empty(world: World) -> None:
    empty = get(world)
    assert (empty.state, empty.updated_at) == ({}, None)


def test_state_is_stored_per_stream(world: World) -> None:
    put(world, {"messages": {"cursor": "x"}})
    put(world, {"threads": {"page": 2}})
    put(world, {"messages": {"cursor": "y"}})
    kept = get(world)
    assert kept.state == {"messages": {"cursor": "y"}, "threads": {"page": 2}}
    assert kept.updated_at == NOW


def test_state_is_separate_per_grant_and_connection(world: World) -> None:
    put(world, {"messages": 1})
    put(world, {"messages": 2}, grant_id="grt_1")
    assert get(world).state == {"messages": 1}
    assert get(world, grant_id="grt_1").state == {"messages": 2}
    assert get(world, WORK).state == {}


def test_undeclared_stream_is_refused(world: World) -> None:
    with pytest.raises(StreamNotDeclared):
        put(world, {"nothing": 1})


def test_unknown_connection_is_refused(world: World) -> None:
    with pytest.raises(ConnectionNotFound):
        put(world, {}, "nothing")
    with pytest.raises(ConnectionNotFound):
        get(world, "nothing")


@pytest.mark.parametrize("state", [["messages"], {"messages": "a\0b"}])
def test_invalid_state_is_refused(world: World, state: Any) -> None:
    with pytest.raises(InvalidRequest):
        put(world, state)
