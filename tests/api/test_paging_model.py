"""Pages against a plain list in memory: nothing dropped, nothing repeated, in one order."""

from datetime import datetime
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.world import World

LIST = "/v1/streams/{}/records"
CONNECTIONS = ("cin_x", "cin_y", "cin_z")


def declaration(cursor: dict[str, Any]) -> dict[str, Any]:
    return {
        "protocol_version": "0.1.0",
        "connector_id": "https://registry.example/connectors/things",
        "connector_key": "things",
        "version": "1.0.0",
        "display_name": "Things",
        "streams": [
            {
                "name": "things",
                "semantics": "mutable_state",
                "schema": {
                    "type": "object",
                    "properties": {"a": {"type": "string"}, "b": {"type": "string"}, "at": cursor},
                },
                "primary_key": ["a", "b"],
                "cursor_field": "at",
                "selection": {"fields": True, "resources": True},
            }
        ],
    }


NUMBERS = st.one_of(
    st.none(), st.integers(-3, 3), st.floats(-2, 2, allow_nan=False).map(lambda n: round(n, 2))
)
TEXTS = st.one_of(st.none(), st.sampled_from(["", "a", "B", "ä", "aa", "Z", "~", "😀", "é"]))
TIMES = st.one_of(
    st.none(),
    st.sampled_from(
        [
            "2026-01-01T00:00:00Z",
            "2026-01-01T01:00:00+01:00",
            "2025-12-31T23:59:59.999999Z",
            "1999-01-01T00:00:00-11:00",
        ]
    ),
)
KINDS = [
    pytest.param({"type": ["number", "null"]}, NUMBERS, id="numbers"),
    pytest.param({"type": ["string", "null"]}, TEXTS, id="texts"),
    pytest.param({"type": ["string", "null"], "format": "date-time"}, TIMES, id="moments"),
]


@pytest.fixture
def things(world: World, request: pytest.FixtureRequest) -> World:
    world.declare(declaration(request.param))
    for connection_id in CONNECTIONS:
        world.connect(connection_id, "things", connection_id)
    return world


def rank(value: Any) -> Any:
    """The order of cursor values: numbers by value, moments in time, other texts by their bytes."""
    if not isinstance(value, str):
        return value
    return datetime.fromisoformat(value) if value[4:5] == "-" else value.encode()


def expected(rows: dict[tuple[str, str], Any], *, descending: bool) -> list[tuple[str, str]]:
    """What the server should list, worked out on the whole set at once."""
    present = [(rank(at), key, cid) for (cid, key), at in rows.items() if at not in (None, "")]
    missing = [(key, cid) for (cid, key), at in rows.items() if at in (None, "")]
    ordered = sorted(present, reverse=descending)
    return [(cid, key) for _, key, cid in ordered] + [
        (cid, key) for key, cid in sorted(missing, reverse=descending)
    ]


def line(connection_id: str, key: tuple[str, str], at: Any) -> dict[str, Any]:
    data = {"a": key[0], "b": key[1]} | ({} if at is None else {"at": at})
    return {
        "connection_id": connection_id,
        "stream": "things",
        "key": list(key),
        "data": data,
        "emitted_at": "2026-10-01T00:00:00Z",
    }


def name(key: tuple[str, str]) -> str:
    return f'["{key[0]}","{key[1]}"]'


@pytest.mark.parametrize(("things", "values"), KINDS, indirect=["things"])
def test_pages_are_the_whole_list_in_order(things: World, values: st.SearchStrategy[Any]) -> None:
    keys = st.tuples(st.sampled_from("abc"), st.sampled_from("123"))
    rows = st.dictionaries(st.tuples(st.sampled_from(CONNECTIONS), keys), values, max_size=10)

    @settings(max_examples=6, suppress_health_check=list(HealthCheck))
    @given(rows=rows, late=rows, limit=st.integers(2, 6), descending=st.booleans())
    def check(rows: Any, late: Any, limit: int, descending: bool) -> None:
        with transaction.atomic():
            things.send(line(cid, key, at) for (cid, key), at in rows.items())
            model = {(cid, name(key)): at for (cid, key), at in rows.items()}
            _compare(things, model, late, limit=limit, descending=descending)
            transaction.set_rollback(True)

    check()


def _compare(
    world: World, model: dict[Any, Any], late: Any, *, limit: int, descending: bool
) -> None:
    """Follow the cursor to the end; after the first page, others write new records."""
    seen: list[tuple[str, str]] = []
    query: dict[str, Any] = {"limit": limit, "order": "desc" if descending else "asc"}
    new = {(cid, key): at for (cid, key), at in late.items() if (cid, name(key)) not in model}
    for _ in range(60):
        page = world.get(LIST.format("things"), "alice", **query)
        assert page.status == 200, page.body
        seen += [(each["connection_id"], each["id"]) for each in page.body["data"]]
        if not page.body["has_more"]:
            break
        query["cursor"] = page.body["next_cursor"]
        world.send(line(cid, key, at) for (cid, key), at in new.items())
        new = {}
    assert len(seen) == len(set(seen))
    assert [each for each in seen if each in model] == expected(model, descending=descending)
