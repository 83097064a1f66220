"""A layout only grows, and tells which json_round_trip rows need a reindex."""

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
    link_columns,
    needs_reindex,
    search_code,
    typed_columns,
)
from tests.declarations.documents import MOMENT, TEXT, Change, Document, parse_changed

KINDS: dict[str, Document] = {
    "number": {"type": "integer"},
    "time": MOMENT,
    "word": TEXT,
    "list": {"type": "array", "items": TEXT},
}


FIELDS = parse_changed().streams["messages"].fields


def json_round_trip(layout: Layout) -> Layout:
    """Return the layout as read from a JSON column."""
    return cast("Layout", json.loads(json.dumps(layout)))


def build_layouts(*changes: Change) -> list[Layout]:
    """Return the layouts of successive versions."""
    layouts: list[Layout] = []
    for change in changes:
        previous = json_round_trip(layouts[-1]) if layouts else None
        layouts.append(build_layout(parse_changed(change), previous))
    return layouts


def unchanged(_document: Document) -> None:
    """Leave the document unchanged."""


def test_fields_get_slots_and_search_codes() -> None:
    (layout,) = build_layouts(unchanged)

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


def test_same_declaration_keeps_the_layout() -> None:
    first, second = build_layouts(unchanged, unchanged)

    assert json_round_trip(first) == json_round_trip(second)
    assert needs_reindex(json_round_trip(first), second) == frozenset()
    assert needs_reindex(None, first) == frozenset()


def test_new_fields_are_appended_to_the_layout() -> None:
    def ask_for_subject(document: Document) -> None:
        query = document["streams"][0]["query"]
        query["aggregations"]["group_by"] = ["subject", "seen"]
        query["search"]["lexical_fields"] = ["thread_id", "subject", "body", "labels"]

    first, second = build_layouts(unchanged, ask_for_subject)

    assert second["messages"]["typed"] == first["messages"]["typed"] | {"subject": ("w", 3)}
    assert second["messages"]["search"]["thread_id"] == "d"
    assert needs_reindex(json_round_trip(first), second) == {"messages"}


def test_unused_field_keeps_its_slot() -> None:
    def remove(document: Document) -> None:
        document["streams"][0]["query"] = {}

    first, second, third = build_layouts(unchanged, remove, unchanged)

    assert json_round_trip(first) == json_round_trip(second) == json_round_trip(third)
    assert needs_reindex(json_round_trip(first), second) == frozenset()


def add_foreign_keys(*foreign_keys: str) -> Change:
    """Return a change that adds these foreign keys from threads to messages."""

    def change(document: Document) -> None:
        messages, threads = document["streams"]
        messages["schema"]["properties"] |= dict.fromkeys(foreign_keys, TEXT)
        threads["relationships"] = [
            {"name": key, "stream": "messages", "foreign_key": key, "cardinality": "has_many"}
            for key in foreign_keys
        ]
        threads["query"]["expand"] = [{"name": key} for key in foreign_keys]

    return change


def test_foreign_keys_get_permanent_columns() -> None:
    first, second, third = build_layouts(
        unchanged, add_foreign_keys("other", "thread_id"), add_foreign_keys("a", "b", "c")
    )

    assert first["messages"]["links"] == {"thread_id": 1}
    assert second["messages"]["links"] == {"thread_id": 1, "other": 2}
    assert third["messages"]["links"] == {"thread_id": 1, "other": 2, "a": 3}
    assert needs_reindex(json_round_trip(first), second) == {"messages"}


def test_old_layout_without_link_columns_needs_reindex() -> None:
    (now,) = build_layouts(unchanged)
    earlier = json_round_trip(now)
    del earlier["messages"]["links"]
    assert needs_reindex(earlier, now) == {"messages"}


def test_link_column_has_valid_record_key_or_null() -> None:
    (layout,) = build_layouts(add_foreign_keys("thread_id"))
    for value, link in (
        ("t1", "t1"), (7, "7"), (1.5, "1.5"), (True, "true"), ("é" * 100, "é" * 100),
        ("é" * 101, None), ("", None), (None, None), (["t1"], None), ({}, None),
    ):  # fmt: skip
        assert link_columns(layout["messages"], {"thread_id": value}) == [link, None, None]
    assert link_columns(layout["threads"], {"thread_id": "t1"}) == [None, None, None]


def test_removed_stream_keeps_its_layout() -> None:
    def remove(document: Document) -> None:
        del document["streams"][0]

    first, second = build_layouts(unchanged, remove)

    assert json_round_trip(first) == json_round_trip(second)


def test_field_of_changed_kind_gets_a_new_slot() -> None:
    def to_text(document: Document) -> None:
        stream = document["streams"][0]
        stream["schema"]["properties"]["size"] = TEXT
        stream["query"]["aggregations"]["sum"] = []

    def count_something(document: Document) -> None:
        to_text(document)
        stream = document["streams"][0]
        stream["schema"]["properties"]["count"] = {"type": "integer"}
        stream["query"]["range_filters"]["count"] = ["lt"]

    first, second, third = build_layouts(unchanged, to_text, count_something)

    assert second["messages"]["typed"]["size"] == ("w", 3)
    assert third["messages"]["typed"]["count"] == ("n", 2)
    assert needs_reindex(json_round_trip(first), second) == {"messages"}


def test_changed_cursor_field_needs_reindex() -> None:
    def order_by_day(document: Document) -> None:
        document["streams"][0]["cursor_field"] = "day"

    def order_by_date(document: Document) -> None:
        document["streams"][0]["schema"]["properties"]["sent_at"]["format"] = "date"

    for change in (order_by_day, order_by_date):
        first, second = build_layouts(unchanged, change)
        assert needs_reindex(json_round_trip(first), second) == {"messages"}


def test_typed_columns_are_as_wide_as_the_layout() -> None:
    (layout,) = build_layouts(unchanged)
    data = {"sent_at": "2026-11-21T08:00:00Z", "size": 12, "seen": False, "day": None, "other": 1}

    row = typed_columns(json_round_trip(layout)["messages"], data, fields=FIELDS)

    assert row.numbers == [12]
    assert row.times == [datetime(2026, 11, 21, 8, tzinfo=UTC), None]
    assert row.words == [None, "false"]


def test_value_of_another_type_is_null() -> None:
    (layout,) = build_layouts(unchanged)
    data = {"sent_at": 5, "size": "12", "seen": {}, "day": "soon", "thread_id": ["a"]}

    row = typed_columns(layout["messages"], data, fields=FIELDS)

    assert row == ([None], [None, None], [None, None])
    assert typed_columns(layout["messages"], {"size": 0.1}, fields=FIELDS).numbers == [
        Decimal("0.1")
    ]


def test_search_codes_continue_after_z() -> None:
    assert [search_code(index) for index in (0, 1, 25, 26, 27, 51, 52, 701, 702)] == (
        ["a", "b", "z", "aa", "ab", "az", "ba", "zz", "aaa"]
    )
    assert len({search_code(index) for index in range(2_000)}) == 2_000


versions = st.lists(
    st.dictionaries(st.sampled_from("pqrst"), st.sampled_from(sorted(KINDS)), max_size=5),
    min_size=1,
    max_size=6,
)


@given(versions)
def test_fields_never_share_a_slot(history: list[dict[str, str]]) -> None:
    assigned: dict[tuple[object, ...], str] = {}
    layout: Layout | None = None
    for version in history:
        layout = build_layout(parse_version(version), json_round_trip(layout) if layout else None)
        stream = layout["messages"]
        for name, (slot, position) in stream["typed"].items():
            assert assigned.setdefault((slot, position), name) == name
            assert 1 <= position <= stream["widths"][slot]
        for name, letters in stream["search"].items():
            assert assigned.setdefault((letters,), name) == name
        for name, kind in version.items():
            assert (name in stream["search"]) or kind in {"number", "time"}
            assert (name in stream["typed"]) or kind == "list"


def parse_version(fields: dict[str, str]) -> SourceDeclaration:
    """Parse a version whose fields are used in every way that their kinds allow."""

    def change(document: Document) -> None:
        stream = document["streams"][0]
        schemas = {name: KINDS[kind] for name, kind in fields.items()}
        searchable = [name for name, kind in fields.items() if kind in {"word", "list"}]
        range_filters = {name: ["lt"] for name, kind in fields.items() if kind != "list"}
        stream["schema"]["properties"] |= schemas
        stream["query"] = {"search": {"lexical_fields": searchable}, "range_filters": range_filters}

    return parse_changed(change)
