"""Limits on size, depth and complexity of a declaration."""

from typing import Any

import pytest

from evidence.declarations.schema_validation import MAX_ERRORS
from evidence.declarations.validation import find_errors
from tests.declarations.documents import (
    TEXT,
    Document,
    changed,
    declaration,
    error_codes,
    minimal_stream,
)

SCHEMA = "$.streams[0].schema"
PROPERTIES = "streams.0.schema.properties"


def test_references_in_data_are_ignored() -> None:
    body = {"type": "object", "const": {"$ref": "https://x.example"}}
    named = {"type": "object", "properties": {"$ref": {"type": "string"}}}
    document = changed(declaration(), f"{PROPERTIES}.headers", body)

    assert find_errors(changed(document, f"{PROPERTIES}.extra", named)) == []


def test_schema_can_refer_to_itself() -> None:
    tree = {"type": "object", "properties": {"children": {"items": {"$ref": "#/$defs/tree"}}}}
    document = changed(declaration(), "streams.0.schema.$defs", {"tree": tree})

    assert find_errors(changed(document, f"{PROPERTIES}.tree", {"$ref": "#/$defs/tree"})) == []
    assert find_errors(changed(document, f"{PROPERTIES}.tree", {"$ref": "#"})) == []


@pytest.mark.parametrize("reference", ["#/$defs/d{}", "#/%24defs/d{}", "#anchor{}"])
def test_exponential_references_are_too_complex(reference: str) -> None:
    both = [
        {"$anchor": f"anchor{n}", "allOf": [{"$ref": reference.format(n + 1)}] * 2}
        for n in range(40)
    ]
    definitions = {f"d{n}": node for n, node in enumerate(both)}
    definitions["d40"] = {"$anchor": "anchor40", "type": "object"}
    document = changed(declaration(), "streams.0.schema.$defs", definitions)
    changed(document, f"{PROPERTIES}.deep", {"$ref": reference.format(0)})

    assert error_codes(document) == [("schema_too_complex", SCHEMA)]


def test_long_chain_of_references_is_too_complex() -> None:
    chain: Document = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(5_000)}
    document = changed(declaration(), "streams.0.schema.$defs", chain)
    changed(document, f"{PROPERTIES}.deep", {"$ref": "#/$defs/d0"})

    assert error_codes(document) == [("schema_too_complex", SCHEMA)]


def test_size_and_depth_of_document_are_limited() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    wide = {f"f{n}": TEXT for n in range(501)}

    assert error_codes({**declaration(), "extensions": deep}) == [
        ("too_deep", "$.extensions" + "[0]" * 63)
    ]
    assert error_codes({**declaration(), "extensions": "x" * 1_048_576}) == [("too_large", "$")]
    assert error_codes({**declaration(), "extensions": [1] * 1_048_576}) == [("too_large", "$")]
    assert error_codes({**declaration(), "streams": [minimal_stream()] * 1_001}) == [
        ("too_many", "$.streams"),
    ]
    assert ("too_many", f"{SCHEMA}.properties") in (
        error_codes(changed(declaration(), "streams.0.schema.properties", wide))
    )


def test_unstorable_text_is_an_error() -> None:
    document = {**declaration(), "extensions": {"a": ["\0"], "\ud800": 1}}

    assert sorted(error_codes(document)) == [
        ("invalid_text", "$.extensions.a[0]"),
        ("invalid_text", '$.extensions["\\ud800"]'),
    ]


@pytest.mark.parametrize("value", [b"bytes", {1: 2}, float("nan"), (1, 2), {"a"}, [10**5_000]])
def test_values_that_are_not_json_are_errors(value: object) -> None:
    ((code, _),) = error_codes({**declaration(), "extensions": {"a": value}})

    assert code in {"invalid_member_type", "too_large"}


def test_number_of_errors_is_limited() -> None:
    document = {**declaration(), "streams": [{"views": [5] * 500}] * 500}

    assert len(find_errors(document)) == MAX_ERRORS
