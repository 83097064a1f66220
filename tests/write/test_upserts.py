"""Upserts write the record, a change entry, search text and times."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pytest

from evidence.models.digests import value_digest
from tests.world import NOW, PERSONAL, World
from tests.write import stored


def put(world: World, emitted_at: str = "2026-10-02T00:00:00Z", **data: Any) -> None:
    world.put((PERSONAL, "messages", {"id": "r"} | data), emitted_at=emitted_at)


def at(day: int) -> str:
    return f"2026-10-{day:02}T00:00:00Z"


def test_new_record_has_a_change_entry_without_values(world: World) -> None:
    put(world, subject="Hello", received_at="2026-09-01T10:00:00+02:00")
    record, (change,) = stored.record(PERSONAL, "r"), stored.changes(PERSONAL, "r")
    assert record is not None
    assert record.consent_time == datetime(2026, 9, 1, 8, tzinfo=UTC)
    assert record.sort_key == "t2026-09-01T08:00:00.000000"
    assert (change.kind, change.changed, change.seq) == ("c", None, record.change_seq)
    assert change.recorded_at == NOW
    assert record.change_seq == stored.change_seq(PERSONAL)


def test_equal_record_writes_nothing_at_any_time(world: World) -> None:
    put(world, subject="Hello", labels=["a", "b"], size_bytes=3)
    before = stored.everything()
    outcome = world.put(
        (
            PERSONAL,
            "messages",
            {"size_bytes": 3, "labels": ["a", "b"], "subject": "Hello", "id": "r"},
        ),
        emitted_at=at(9),
    )
    assert outcome.unchanged == 1
    assert stored.everything() == before


def test_importing_all_test_data_again_writes_nothing(world: World) -> None:
    from tests.world import RECORDS

    before = stored.everything()
    assert world.put(*RECORDS).unchanged == len(RECORDS)
    assert stored.everything() == before


def test_change_entry_has_the_names_of_changed_fields_and_no_values(world: World) -> None:
    put(world, subject="Before", thread_id="t", size_bytes=1)
    put(world, subject="After", size_bytes=1, from_name="New")
    *_, change = stored.changes(PERSONAL, "r")
    assert change.kind == "u"
    assert sorted(change.changed) == ["from_name", "subject", "thread_id"]
    assert "Before" not in str(vars(change))


def test_change_entry_contains_the_previous_consent_time(world: World) -> None:
    put(world, received_at="2026-09-01T00:00:00Z")
    put(world, received_at="2026-09-05T00:00:00Z")
    put(world, received_at=None)
    assert [each.consent_time_before for each in stored.changes(PERSONAL, "r")] == [
        None,
        datetime(2026, 9, 1, tzinfo=UTC),
        datetime(2026, 9, 5, tzinfo=UTC),
    ]


EQUAL: Iterable[tuple[Any, Any]] = [
    (1, 1.0),
    (10**17, 1e17),
    ({"a": 1, "b": [2.0]}, {"b": [2], "a": 1}),
    (0.0, -0.0),
]
DIFFERENT: Iterable[tuple[Any, Any]] = [
    (1, True),
    (0, False),
    (None, False),
    ([1, 2], [2, 1]),
    ([], {}),
    ("1", 1),
    ([True], [1]),
    ({"a": None}, {}),
]


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_values_equal_in_jsonb_are_unchanged(world: World, one: Any, other: Any) -> None:
    put(world, extra=one)
    put(world, extra=other)
    assert stored.kinds(PERSONAL, "r") == "c"
    assert value_digest(one) == value_digest(other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_values_different_in_jsonb_are_changed(world: World, one: Any, other: Any) -> None:
    put(world, extra=one)
    put(world, extra=other)
    assert stored.kinds(PERSONAL, "r") == "cu"
    assert value_digest(one) != value_digest(other)


def test_unchanged_field_keeps_its_time(world: World) -> None:
    put(world, at(1), subject="One", is_seen=False)
    put(world, at(2), subject="One", is_seen=True)
    put(world, at(3), subject="One", is_seen=True, size_bytes=1)
    record = stored.record(PERSONAL, "r")
    assert record is not None
    assert record.emitted_at == datetime(2026, 10, 3, tzinfo=UTC)
    assert record.field_emitted == {
        "id": "2026-10-01T00:00:00+00:00",
        "subject": "2026-10-01T00:00:00+00:00",
        "is_seen": "2026-10-02T00:00:00+00:00",
    }


def test_late_line_wins_without_lowering_the_emitted_time(world: World) -> None:
    put(world, at(5), subject="Newer", is_seen=False)
    put(world, at(1), subject="Late", is_seen=False)
    record = stored.record(PERSONAL, "r")
    assert record is not None
    assert record.data["subject"] == "Late"
    assert record.emitted_at == datetime(2026, 10, 5, tzinfo=UTC)
    assert record.field_emitted == {"subject": "2026-10-01T00:00:00+00:00"}


def test_removed_field_changes_only_the_record_time(
    world: World,
) -> None:
    put(world, at(1), subject="One")
    put(world, at(2))
    record = stored.record(PERSONAL, "r")
    assert record is not None
    assert record.emitted_at == datetime(2026, 10, 2, tzinfo=UTC)
    assert record.field_emitted == {"id": "2026-10-01T00:00:00+00:00"}


def test_equal_field_times_are_not_stored(world: World) -> None:
    put(world, at(2), subject="One")
    put(world, at(1), subject="One", is_seen=True)
    world.put((PERSONAL, "messages", {"id": "r", "subject": "One"}), emitted_at=at(1))
    record = stored.record(PERSONAL, "r")
    assert record is not None
    assert record.emitted_at == datetime(2026, 10, 2, tzinfo=UTC)
    assert record.field_emitted is None


def test_search_text_is_updated_with_the_record(world: World) -> None:
    put(world, subject="Aubergine harvest")
    assert "aubergine" in stored.terms(PERSONAL, "r")
    put(world, subject="Rhubarb harvest")
    assert "rhubarb" in stored.terms(PERSONAL, "r")
    assert "aubergine" not in stored.terms(PERSONAL, "r")


def test_new_consent_time_updates_search_text(world: World) -> None:
    from evidence.models.records import SearchText

    put(world, subject="x", received_at="2026-09-01T00:00:00Z")
    put(world, subject="x", received_at="2026-09-05T00:00:00Z")
    row = SearchText.unscoped.get(connection_id=PERSONAL, stream="messages", record_key="r")
    assert row.authored_at == datetime(2026, 9, 5, tzinfo=UTC)


def test_emitted_time_defaults_to_now(world: World) -> None:
    world.send([{"connection_id": PERSONAL, "stream": "messages", "data": {"id": "now"}}])
    record = stored.record(PERSONAL, "now")
    assert record is not None
    assert record.emitted_at == NOW


def test_stream_stores_its_latest_emitted_time(world: World) -> None:
    from evidence.models.connections import StreamState

    put(world, at(7), subject="x")
    put(world, at(3), subject="y")
    state = StreamState.unscoped.get(connection_id=PERSONAL, stream="messages")
    assert state.latest_emitted_at == datetime(2026, 10, 7, tzinfo=UTC)
