"""Validation never raises, and valid documents can be used."""

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from evidence.declarations.declaration import parse_declaration
from evidence.declarations.record_validation import RecordValidator
from evidence.declarations.storage_layout import build_layout, typed_columns
from evidence.declarations.validation import find_errors
from tests.declarations.documents import declaration, manifest

WORDS = [
    "id", "name", "type", "string", "object", "streams", "messages", "threads", "schema", "query",
    "properties", "$ref", "#", "#/$defs/a", "$defs", "anyOf", "allOf", "items", "format", "date",
    "pattern", "required", "null", "sent_at", "size", "0.1.0", "$id", "$anchor", "$dynamicRef", "*",
]  # fmt: skip

texts = st.one_of(st.sampled_from(WORDS), st.text(max_size=8))
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    texts,
    st.just(10**400),
    st.binary(max_size=2),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(texts, inner, max_size=5),
        st.dictionaries(scalars, inner, max_size=2),
    ),
    max_leaves=25,
)


def find_locations(node: Any) -> list[tuple[Any, Any]]:
    """Return (container, key) of every node of a document."""
    locations: list[tuple[Any, Any]] = []
    stack = [node]
    while stack:
        inner = stack.pop()
        keys = list(inner) if isinstance(inner, dict) else range(len(inner))
        for key in keys:
            locations.append((inner, key))
            if isinstance(inner[key], dict | list):
                stack.append(inner[key])
    return locations


def check_document(document: Any) -> None:
    """Validate a document, and use it if it is valid; no step raises."""
    if find_errors(document):
        return
    source = parse_declaration(document)
    layout = build_layout(source, None)
    for name, stream in source.streams.items():
        data = dict.fromkeys(stream.fields, "2026-11-21")
        assert (RecordValidator(stream).find_error(data) or "$").startswith("$")
        columns = typed_columns(layout[name], data, fields=stream.fields)
        assert len(columns.words) == layout[name]["widths"]["w"]


@given(values)
def test_arbitrary_values_do_not_raise(document: Any) -> None:
    check_document(document)


@settings(max_examples=150)
@given(st.sampled_from([declaration, manifest]), st.data())
def test_documents_with_arbitrary_values_inserted_do_not_raise(
    build: Any, data: st.DataObject
) -> None:
    document = copy.deepcopy(build())
    for _ in range(data.draw(st.integers(1, 3))):
        container, key = data.draw(st.sampled_from(find_locations(document)))
        container[key] = data.draw(values)
        if not find_locations(document):
            break
    check_document(document)


@settings(max_examples=150)
@given(st.sampled_from([declaration, manifest]), st.data())
def test_documents_with_swapped_parts_do_not_raise(build: Any, data: st.DataObject) -> None:
    document = copy.deepcopy(build())
    locations = find_locations(document)
    source, target = data.draw(st.sampled_from(locations)), data.draw(st.sampled_from(locations))
    target[0][target[1]] = copy.deepcopy(source[0][source[1]])
    check_document(document)


@settings(max_examples=150)
@given(st.sampled_from([declaration, manifest]), st.data())
def test_documents_with_missing_parts_do_not_raise(build: Any, data: st.DataObject) -> None:
    document = copy.deepcopy(build())
    container, key = data.draw(st.sampled_from(find_locations(document)))
    del container[key]
    check_document(document)
