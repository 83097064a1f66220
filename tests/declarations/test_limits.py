"""How large, deep and involved a declaration may be."""

from typing import Any

import pytest

from evidence.declarations.errors import FAULTS_KEPT
from evidence.declarations.validation import faults
from tests.declarations.documents import TEXT, Document, bare, changed, declaration, found

SCHEMA = "$.streams[0].schema"
PROPERTIES = "streams.0.schema.properties"


def test_what_looks_like_a_reference_in_data_is_none() -> None:
    body = {"type": "object", "const": {"$ref": "https://x.example"}}
    named = {"type": "object", "properties": {"$ref": {"type": "string"}}}
    document = changed(declaration(), f"{PROPERTIES}.headers", body)

    assert faults(changed(document, f"{PROPERTIES}.extra", named)) == []


def test_a_schema_may_refer_to_itself() -> None:
    tree = {"type": "object", "properties": {"children": {"items": {"$ref": "#/$defs/tree"}}}}
    document = changed(declaration(), "streams.0.schema.$defs", {"tree": tree})

    assert faults(changed(document, f"{PROPERTIES}.tree", {"$ref": "#/$defs/tree"})) == []
    assert faults(changed(document, f"{PROPERTIES}.tree", {"$ref": "#"})) == []


@pytest.mark.parametrize("reference", ["#/$defs/d{}", "#/%24defs/d{}", "#anchor{}"])
def test_references_that_multiply_are_too_complex(reference: str) -> None:
    both = [
        {"$anchor": f"anchor{n}", "allOf": [{"$ref": reference.format(n + 1)}] * 2}
        for n in range(40)
    ]
    definitions = {f"d{n}": node for n, node in enumerate(both)}
    definitions["d40"] = {"$anchor": "anchor40", "type": "object"}
    document = changed(declaration(), "streams.0.schema.$defs", definitions)
    changed(document, f"{PROPERTIES}.deep", {"$ref": reference.format(0)})

    assert found(document) == [("schema_too_complex", SCHEMA)]


def test_a_long_chain_of_references_is_too_complex() -> None:
    chain: Document = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(5_000)}
    document = changed(declaration(), "streams.0.schema.$defs", chain)
    changed(document, f"{PROPERTIES}.deep", {"$ref": "#/$defs/d0"})

    assert found(document) == [("schema_too_complex", SCHEMA)]


def test_a_document_is_bounded() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    wide = {f"f{n}": TEXT for n in range(501)}

    assert found({**declaration(), "extensions": deep}) == [
        ("too_deep", "$.extensions" + "[0]" * 63)
    ]
    assert found({**declaration(), "extensions": "x" * 1_048_576}) == [("too_large", "$")]
    assert found({**declaration(), "extensions": [1] * 1_048_576}) == [("too_large", "$")]
    assert found({**declaration(), "streams": [bare()] * 1_001}) == [
        ("too_many", "$.streams"),
    ]
    assert ("too_many", f"{SCHEMA}.properties") in (
        found(changed(declaration(), "streams.0.schema.properties", wide))
    )


def test_text_that_the_database_cannot_hold_is_a_fault() -> None:
    document = {**declaration(), "extensions": {"a": ["\0"], "\ud800": 1}}

    assert sorted(found(document)) == [
        ("invalid_text", "$.extensions.a[0]"),
        ("invalid_text", '$.extensions["\\ud800"]'),
    ]


@pytest.mark.parametrize("value", [b"bytes", {1: 2}, float("nan"), (1, 2), {"a"}, [10**5_000]])
def test_what_is_no_json_is_a_fault(value: object) -> None:
    ((code, _),) = found({**declaration(), "extensions": {"a": value}})

    assert code in {"invalid_member_type", "too_large"}


def test_a_document_of_nothing_but_faults_is_described_only_so_far() -> None:
    document = {**declaration(), "streams": [{"views": [5] * 500}] * 500}

    assert len(faults(document)) == FAULTS_KEPT
