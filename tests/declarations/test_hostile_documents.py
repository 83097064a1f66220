"""Whatever the document, validation answers with faults; and what it lets by can be used."""

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from evidence.declarations.parser import parse
from evidence.declarations.record_validation import RecordValidator
from evidence.declarations.storage_layout import build_layout, columns
from evidence.declarations.validation import faults
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
anything = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(texts, inner, max_size=5),
        st.dictionaries(scalars, inner, max_size=2),
    ),
    max_leaves=25,
)


def places(node: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of a document."""
    found: list[tuple[Any, Any]] = []
    stack = [node]
    while stack:
        inner = stack.pop()
        keys = list(inner) if isinstance(inner, dict) else range(len(inner))
        for key in keys:
            found.append((inner, key))
            if isinstance(inner[key], dict | list):
                stack.append(inner[key])
    return found


def holds(document: Any) -> None:
    """No exception; and a document without faults becomes everything that a source needs."""
    if faults(document):
        return
    source = parse(document)
    layout = build_layout(source, None)
    for name, stream in source.streams.items():
        data = dict.fromkeys(stream.fields, "2026-11-21")
        assert (RecordValidator(stream).check(data) or "$").startswith("$")
        assert len(columns(layout[name], data).words) == layout[name]["widths"]["w"]


@given(anything)
def test_any_value_at_all(document: Any) -> None:
    holds(document)


@settings(max_examples=150)
@given(st.sampled_from([declaration, manifest]), st.data())
def test_a_good_document_with_anything_put_anywhere(build: Any, data: st.DataObject) -> None:
    document = copy.deepcopy(build())
    for _ in range(data.draw(st.integers(1, 3))):
        container, key = data.draw(st.sampled_from(places(document)))
        container[key] = data.draw(anything)
        if not places(document):
            break
    holds(document)


@settings(max_examples=150)
@given(st.sampled_from([declaration, manifest]), st.data())
def test_a_good_document_with_its_own_parts_in_the_wrong_places(
    build: Any, data: st.DataObject
) -> None:
    document = copy.deepcopy(build())
    spots = places(document)
    source, target = data.draw(st.sampled_from(spots)), data.draw(st.sampled_from(spots))
    target[0][target[1]] = copy.deepcopy(source[0][source[1]])
    holds(document)


@settings(max_examples=150)
@given(st.sampled_from([declaration, manifest]), st.data())
def test_a_good_document_with_parts_missing(build: Any, data: st.DataObject) -> None:
    document = copy.deepcopy(build())
    container, key = data.draw(st.sampled_from(places(document)))
    del container[key]
    holds(document)
