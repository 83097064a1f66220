"""A layout only grows, and says when stored rows lack something."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from evidence.declarations.declaration import SourceDeclaration
from evidence.declarations.storage_layout import (
    Layout,
    build_layout,
    code,
    columns,
    links,
    needs_reindex,
)
from tests.declarations.documents import MOMENT, TEXT, Change, Document, parsed

KINDS: dict[str, Document] = {
    "number": {"type": "integer"},
    "time": MOMENT,
    "word": TEXT,
    "list": {"type": "array", "items": TEXT},
}


def stored(layout: Layout) -> Layout:
    """As it comes back from a JSON column."""
    return cast("Layout", json.loads(json.dumps(layout)))


def grown(*changes: Change) -> list[Layout]:
    """The layouts of one version after another."""
    layouts: list[Layout] = []
    for change in changes:
        previous = stored(layouts[-1]) if layouts else None
        layouts.append(build_layout(parsed(change), previous))
    return layouts


def as_declared(_document: Document) -> None:
    """The first version."""


def test_declared_fields_get_slots_by_kind_and_search_fields_get_letters() -> None:
    (layout,) = grown(as_declared)

    assert layout["messages"] == {
        "typed": {
            "thread_id": ("w", 1),
            "sent_at": ("t", 1),
            "day": ("t", 2),
            "seen": ("w", 2),
            "size": ("n", 1),
        },
        "widths": {"n": 1, "t": 2, "w": 2},
        "search": {"subject": "a", "body": "b", "labels": "c"},
        "links": {"thread_id": 1},
        "sort": ["sent_at", "time"],
        "time": ["sent_at", "time"],
    }
    assert layout["threads"]["typed"] == {}
    assert layout["threads"]["sort"] is None


def test_the_same_declaration_again_changes_nothing() -> None:
    first, second = grown(as_declared, as_declared)

    assert stored(first) == stored(second)
    assert needs_reindex(stored(first), second) == frozenset()
    assert needs_reindex(None, first) == frozenset()


def test_a_field_that_comes_first_in_a_later_version_still_comes_last_in_the_layout() -> None:
    def ask_for_subject(document: Document) -> None:
        query = document["streams"][0]["query"]
        query["aggregations"]["group_by"] = ["subject", "seen"]
        query["search"]["lexical_fields"] = ["thread_id", "subject", "body", "labels"]

    first, second = grown(as_declared, ask_for_subject)

    assert second["messages"]["typed"] == first["messages"]["typed"] | {"subject": ("w", 3)}
    assert second["messages"]["search"]["thread_id"] == "d"
    assert needs_reindex(stored(first), second) == {"messages"}


def test_a_field_that_is_no_longer_asked_for_keeps_its_place() -> None:
    def forget(document: Document) -> None:
        document["streams"][0]["query"] = {}

    first, second, third = grown(as_declared, forget, as_declared)

    assert stored(first) == stored(second) == stored(third)
    assert needs_reindex(stored(first), second) == frozenset()


def reached_by(*foreign_keys: str) -> Change:
    """Threads that reach messages by these keys."""

    def change(document: Document) -> None:
        messages, threads = document["streams"]
        messages["schema"]["properties"] |= dict.fromkeys(foreign_keys, TEXT)
        threads["relationships"] = [
            {"name": key, "stream": "messages", "foreign_key": key, "cardinality": "has_many"}
            for key in foreign_keys
        ]
        threads["query"]["expand"] = [{"name": key} for key in foreign_keys]

    return change


def test_keys_that_records_are_reached_by_get_columns_that_stay_theirs() -> None:
    first, second, third = grown(
        as_declared, reached_by("other", "thread_id"), reached_by("a", "b", "c")
    )

    assert first["messages"]["links"] == {"thread_id": 1}
    assert second["messages"]["links"] == {"thread_id": 1, "other": 2}
    assert third["messages"]["links"] == {"thread_id": 1, "other": 2, "a": 3}
    assert needs_reindex(stored(first), second) == {"messages"}


def test_a_layout_from_before_there_were_columns_gets_them() -> None:
    (now,) = grown(as_declared)
    earlier = stored(now)
    del earlier["messages"]["links"]
    assert needs_reindex(earlier, now) == {"messages"}


def test_a_link_is_the_key_that_a_record_could_have() -> None:
    (layout,) = grown(reached_by("thread_id"))
    for value, link in (
        ("t1", "t1"), (7, "7"), (1.5, "1.5"), (True, "true"), ("é" * 100, "é" * 100),
        ("é" * 101, None), ("", None), (None, None), (["t1"], None), ({}, None),
    ):  # fmt: skip
        assert links(layout["messages"], {"thread_id": value}) == [link, None, None]
    assert links(layout["threads"], {"thread_id": "t1"}) == [None, None, None]


def test_a_stream_that_is_no_longer_declared_keeps_its_places() -> None:
    def forget(document: Document) -> None:
        del document["streams"][0]

    first, second = grown(as_declared, forget)

    assert stored(first) == stored(second)


def test_a_field_of_another_kind_moves_and_its_old_slot_is_never_given_again() -> None:
    def to_text(document: Document) -> None:
        stream = document["streams"][0]
        stream["schema"]["properties"]["size"] = TEXT
        stream["query"]["aggregations"]["sum"] = []

    def count_something(document: Document) -> None:
        to_text(document)
        stream = document["streams"][0]
        stream["schema"]["properties"]["count"] = {"type": "integer"}
        stream["query"]["range_filters"]["count"] = ["lt"]

    first, second, third = grown(as_declared, to_text, count_something)

    assert second["messages"]["typed"]["size"] == ("w", 3)
    assert third["messages"]["typed"]["count"] == ("n", 2)
    assert needs_reindex(stored(first), second) == {"messages"}


def test_another_order_or_another_kind_of_order_needs_new_keys() -> None:
    def order_by_day(document: Document) -> None:
        document["streams"][0]["cursor_field"] = "day"

    def order_by_date(document: Document) -> None:
        document["streams"][0]["schema"]["properties"]["sent_at"]["format"] = "date"

    for change in (order_by_day, order_by_date):
        first, second = grown(as_declared, change)
        assert needs_reindex(stored(first), second) == {"messages"}


def test_a_record_fills_as_many_positions_as_the_layout_has() -> None:
    (layout,) = grown(as_declared)
    data = {"sent_at": "2026-11-21T08:00:00Z", "size": 12, "seen": False, "day": None, "other": 1}

    row = columns(stored(layout)["messages"], data)

    assert row.numbers == [12]
    assert row.times == [datetime(2026, 11, 21, 8, tzinfo=UTC), None]
    assert row.words == [None, "false"]


def test_a_value_of_another_type_is_null() -> None:
    (layout,) = grown(as_declared)
    data = {"sent_at": 5, "size": "12", "seen": {}, "day": "soon", "thread_id": ["a"]}

    row = columns(layout["messages"], data)

    assert row == ([None], [None, None], [None, None])
    assert columns(layout["messages"], {"size": 0.1}).numbers == [Decimal("0.1")]


def test_letters_count_on_after_z() -> None:
    assert [code(index) for index in (0, 1, 25, 26, 27, 51, 52, 701, 702)] == (
        ["a", "b", "z", "aa", "ab", "az", "ba", "zz", "aaa"]
    )
    assert len({code(index) for index in range(2_000)}) == 2_000


versions = st.lists(
    st.dictionaries(st.sampled_from("pqrst"), st.sampled_from(sorted(KINDS)), max_size=5),
    min_size=1,
    max_size=6,
)


@given(versions)
def test_no_two_fields_ever_share_a_place(history: list[dict[str, str]]) -> None:
    held: dict[tuple[object, ...], str] = {}
    layout: Layout | None = None
    for version in history:
        layout = build_layout(declared(version), stored(layout) if layout else None)
        stream = layout["messages"]
        for name, (slot, position) in stream["typed"].items():
            assert held.setdefault((slot, position), name) == name
            assert 1 <= position <= stream["widths"][slot]
        for name, letters in stream["search"].items():
            assert held.setdefault((letters,), name) == name
        for name, kind in version.items():
            assert (name in stream["search"]) or kind in {"number", "time"}
            assert (name in stream["typed"]) or kind == "list"


def declared(fields: dict[str, str]) -> SourceDeclaration:
    """A version with these fields, each used in every way that its kind allows."""

    def change(document: Document) -> None:
        stream = document["streams"][0]
        schemas = {name: KINDS[kind] for name, kind in fields.items()}
        searched = [name for name, kind in fields.items() if kind in {"word", "list"}]
        ranged = {name: ["lt"] for name, kind in fields.items() if kind != "list"}
        stream["schema"]["properties"] |= schemas
        stream["query"] = {"search": {"lexical_fields": searched}, "range_filters": ranged}

    return parsed(change)
