"""Every error of a declaration has a code and a path."""

from typing import Any

import pytest

from evidence.declarations.schema_validation import DeclarationErrorCode, child_path
from evidence.declarations.validation import find_errors, parse_valid
from evidence.errors import ConnectorInvalid
from tests.declarations.documents import (
    REMOVED,
    TEXT,
    changed,
    declaration,
    error_codes,
    manifest,
    minimal_stream,
)

STREAM = "$.streams[0]"
SCHEMA = f"{STREAM}.schema"
QUERY = f"{STREAM}.query"


def test_valid_documents_of_both_shapes_have_no_errors() -> None:
    assert find_errors(declaration()) == []
    assert find_errors(manifest()) == []


@pytest.mark.parametrize("code", DeclarationErrorCode)
def test_all_codes_share_a_prefix(code: DeclarationErrorCode) -> None:
    assert code.startswith("source.declaration.")


PROPERTIES = "streams.0.schema.properties"
AGGREGATIONS = "streams.0.query.aggregations"

CASES: list[tuple[str, Any, str, str]] = [
    # the source
    ("protocol_version", "0.2.0", "unsupported_version", "$.protocol_version"),
    ("protocol_version", REMOVED, "missing_member", "$.protocol_version"),
    ("source.kind", "device", "invalid_member_value", "$.source.kind"),
    ("source.id", "mailbox", "invalid_member_value", "$.source.id"),
    ("source.id", "https://x.example/größe", "invalid_member_value", "$.source.id"),
    ("source.id", "https://x.example/~mail", "invalid_name", "$.source.id"),
    ("source.owner", "me", "unknown_member", "$.source.owner"),
    ("source", "https://x.example/mail", "invalid_member_type", "$.source"),
    ("connector_key", "mail box", "invalid_name", "$.connector_key"),
    ("declaration_version", "", "invalid_member_value", "$.declaration_version"),
    ("publisher", REMOVED, "missing_member", "$.publisher"),
    ("publisher.id", "me", "invalid_member_value", "$.publisher.id"),
    ("display.name", 5, "invalid_member_type", "$.display.name"),
    ("display.name", "x" * 201, "invalid_member_value", "$.display.name"),
    ("extensions", [], "invalid_member_type", "$.extensions"),
    ("surprise", 1, "unknown_member", "$.surprise"),
    # streams
    ("streams", [], "invalid_member_value", "$.streams"),
    ("streams", {}, "invalid_member_type", "$.streams"),
    ("streams.1", "threads", "invalid_member_type", "$.streams[1]"),
    ("streams.1.name", "messages", "duplicate_stream_name", "$.streams[1].name"),
    ("streams.0.name", REMOVED, "missing_member", f"{STREAM}.name"),
    ("streams.0.semantics", "eventual", "invalid_member_value", f"{STREAM}.semantics"),
    ("streams.0.selection", REMOVED, "missing_member", f"{STREAM}.selection"),
    ("streams.0.selection.fields", "yes", "invalid_member_type", f"{STREAM}.selection.fields"),
    ("streams.0.display.label", [], "invalid_member_type", f"{STREAM}.display.label"),
    ("streams.0.primary_key", [], "invalid_member_value", f"{STREAM}.primary_key"),
    ("streams.0.primary_key", "id", "invalid_member_type", f"{STREAM}.primary_key"),
    ("streams.0.primary_key", ["id", "id"], "duplicate_value", f"{STREAM}.primary_key[1]"),
    ("streams.0.primary_key", ["nope"], "unknown_schema_field", f"{STREAM}.primary_key[0]"),
    ("streams.0.primary_key", ["labels"], "invalid_field_type", f"{STREAM}.primary_key[0]"),
    ("streams.0.cursor_field", "nope", "unknown_schema_field", f"{STREAM}.cursor_field"),
    ("streams.0.cursor_field", "seen", "invalid_field_type", f"{STREAM}.cursor_field"),
    ("streams.0.consent_time_field", "id", "invalid_field_type", f"{STREAM}.consent_time_field"),
    # views
    ("streams.0.views.1", {"id": "envelope", "label": "Again", "fields": ["id"]}, "duplicate_view_id", f"{STREAM}.views[1].id"),
    ("streams.0.views.0.fields.2", "nope", "unknown_schema_field", f"{STREAM}.views[0].fields[2]"),
    ("streams.0.views.0.fields", [], "invalid_member_value", f"{STREAM}.views[0].fields"),
    ("streams.0.views.0", "all", "invalid_member_type", f"{STREAM}.views[0]"),
    # schemas
    ("streams.0.schema", REMOVED, "missing_member", SCHEMA),
    ("streams.0.schema.$schema", "http://json-schema.org/draft-07/schema#", "unsupported_dialect", f"{SCHEMA}.$schema"),
    ("streams.0.schema.type", "array", "invalid_schema", f"{SCHEMA}.type"),
    ("streams.0.schema.required", "id", "invalid_schema", f"{SCHEMA}.required"),
    (f"{PROPERTIES}.body.minLength", -1, "invalid_schema", f"{SCHEMA}.properties.body.minLength"),
    (f"{PROPERTIES}.body.pattern", "(", "invalid_schema", f"{SCHEMA}.properties.body.pattern"),
    (f"{PROPERTIES}.body.$ref", "#/$defs/nope", "invalid_schema", SCHEMA),
    (f"{PROPERTIES}.body.$ref", "https://x.example/s", "nonlocal_schema_reference", f"{SCHEMA}.properties.body.$ref"),
    (f"{PROPERTIES}.body.$ref", "other.json#/a", "nonlocal_schema_reference", f"{SCHEMA}.properties.body.$ref"),
    (f"{PROPERTIES}.body.anyOf", [{"$dynamicRef": "x#y"}], "nonlocal_schema_reference", f"{SCHEMA}.properties.body.anyOf[0].$dynamicRef"),
    (f"{PROPERTIES}.a,b", TEXT, "invalid_name", f'{SCHEMA}.properties["a,b"]'),
    (f"{PROPERTIES}.{'x' * 129}", TEXT, "invalid_name", f'{SCHEMA}.properties["{"x" * 128}\\u2026"]'),
    # queries
    ("streams.0.query", [], "invalid_member_type", QUERY),
    ("streams.0.query.range_filters.nope", ["lt"], "unknown_schema_field", f"{QUERY}.range_filters.nope"),
    ("streams.0.query.range_filters.seen", ["lt"], "invalid_query_field_type", f"{QUERY}.range_filters.seen"),
    ("streams.0.query.range_filters.size", ["ne"], "invalid_member_value", f"{QUERY}.range_filters.size[0]"),
    ("streams.0.query.range_filters.size", [], "invalid_member_value", f"{QUERY}.range_filters.size"),
    ("streams.0.query.range_filters.size", "lt", "invalid_member_type", f"{QUERY}.range_filters.size"),
    ("streams.0.query.search.lexical_fields.0", "size", "invalid_query_field_type", f"{QUERY}.search.lexical_fields[0]"),
    ("streams.0.query.search.semantic_fields.0", "nope", "unknown_schema_field", f"{QUERY}.search.semantic_fields[0]"),
    ("streams.0.query.search.fuzzy_fields", ["body"], "unknown_member", f"{QUERY}.search.fuzzy_fields"),
    (f"{AGGREGATIONS}.sum.0", "subject", "invalid_query_field_type", f"{QUERY}.aggregations.sum[0]"),
    (f"{AGGREGATIONS}.min.0", "seen", "invalid_query_field_type", f"{QUERY}.aggregations.min[0]"),
    (f"{AGGREGATIONS}.group_by.0", "labels", "invalid_query_field_type", f"{QUERY}.aggregations.group_by[0]"),
    (f"{AGGREGATIONS}.group_by_time.0", "size", "invalid_query_field_type", f"{QUERY}.aggregations.group_by_time[0]"),
    (f"{AGGREGATIONS}.count_distinct.0", "headers", "invalid_query_field_type", f"{QUERY}.aggregations.count_distinct[0]"),
    (f"{AGGREGATIONS}.count", "yes", "invalid_member_type", f"{QUERY}.aggregations.count"),
    (f"{AGGREGATIONS}.average", ["size"], "unknown_member", f"{QUERY}.aggregations.average"),
    # relations
    ("streams.0.relationships.0.name", "a.b", "invalid_name", f"{STREAM}.relationships[0].name"),
    ("streams.0.relationships.0.stream", "nope", "unknown_stream", f"{STREAM}.relationships[0].stream"),
    ("streams.0.relationships.0.foreign_key", "title", "unknown_schema_field", f"{STREAM}.relationships[0].foreign_key"),
    ("streams.1.relationships.0.foreign_key", "title", "unknown_schema_field", "$.streams[1].relationships[0].foreign_key"),
    ("streams.0.relationships.0.cardinality", "many", "invalid_member_value", f"{STREAM}.relationships[0].cardinality"),
    ("streams.0.relationships.0", "thread", "invalid_member_type", f"{STREAM}.relationships[0]"),
    ("streams.0.query.expand.0.max_limit", 5, "invalid_expand_limits", f"{QUERY}.expand[0]"),
    ("streams.0.query.expand.1", {"name": "thread"}, "duplicate_expand_name", f"{QUERY}.expand[1].name"),
    ("streams.0.query.expand.1", {"name": "nope"}, "unknown_relationship", f"{QUERY}.expand[1].name"),
    ("streams.0.query.expand.1", {}, "missing_member", f"{QUERY}.expand[1].name"),
    ("streams.0.query.expand.1", "thread", "invalid_member_type", f"{QUERY}.expand[1]"),
    ("streams.1.query.expand.0.default_limit", 21, "invalid_expand_limits", "$.streams[1].query.expand[0]"),
    ("streams.1.query.expand.0.max_limit", 0, "invalid_member_type", "$.streams[1].query.expand[0].max_limit"),
    # presets
    ("selection_presets", {}, "invalid_member_type", "$.selection_presets"),
    ("selection_presets.0", "mail", "invalid_member_type", "$.selection_presets[0]"),
    ("selection_presets.0.streams.0.name", "nope", "unknown_stream", "$.selection_presets[0].streams[0].name"),
    ("selection_presets.0.streams.1.name", "messages", "duplicate_preset_stream_name", "$.selection_presets[0].streams[1].name"),
    ("selection_presets.0.streams.0.view", "nope", "unknown_view", "$.selection_presets[0].streams[0].view"),
    ("selection_presets.0.streams.1.fields.0", "nope", "unknown_schema_field", "$.selection_presets[0].streams[1].fields[0]"),
    ("selection_presets.0.streams.0.fields", ["id"], "conflicting_members", "$.selection_presets[0].streams[0]"),
    ("selection_presets.0.streams.0", 5, "invalid_member_type", "$.selection_presets[0].streams[0]"),
    ("selection_presets.0.streams.0", {}, "missing_member", "$.selection_presets[0].streams[0].name"),
    ("selection_presets.0.streams", [], "invalid_member_value", "$.selection_presets[0].streams"),
]  # fmt: skip


@pytest.mark.parametrize(("at", "value", "code", "path"), CASES)
def test_errors_have_code_and_path(at: str, value: Any, code: str, path: str) -> None:
    assert (code, path) in error_codes(changed(declaration(), at, value))


@pytest.mark.parametrize("at", ["relationships", "selection_presets"])
def test_duplicate_names_are_reported_once(at: str) -> None:
    document = declaration()
    relations = document["streams"][0]["relationships"]
    presets = document["selection_presets"]
    (relations if at == "relationships" else presets).append(
        dict(relations[0]) if at == "relationships" else dict(presets[0])
    )

    expected = {
        "relationships": ("duplicate_relationship_name", f"{STREAM}.relationships[1].name"),
        "selection_presets": ("duplicate_preset_id", "$.selection_presets[1].id"),
    }
    assert error_codes(document) == [expected[at]]


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "a..b", "a/b", "a\\b", "a:b", "a b", "a\tb", "a\x7f", "*", "a,b", "a[]", "x" * 65, "e\u0301", "\u202ea"],
)  # fmt: skip
def test_unaddressable_stream_names_are_invalid(name: str) -> None:
    (error,) = [
        error
        for error in find_errors(changed(declaration(), "streams.0.name", name))
        if error.path == f"{STREAM}.name"
    ]
    assert error.code in {
        DeclarationErrorCode.INVALID_NAME,
        DeclarationErrorCode.INVALID_MEMBER_VALUE,
    }


@pytest.mark.parametrize("name", ["messages", "größe", "日記", "a.b", "a-b_c", "x" * 64])
def test_other_stream_names_are_valid(name: str) -> None:
    assert (
        find_errors(
            {
                **declaration(),
                "streams": [{**minimal_stream(), "name": name}],
                "selection_presets": [],
            }
        )
        == []
    )


def test_all_errors_are_returned_together() -> None:
    document = declaration()
    changed(document, "display.name", 5)
    changed(document, "streams.0.query.range_filters.nope", ["lt", "ne"])
    changed(document, "streams.1.primary_key", ["nope"])

    assert error_codes(document) == [
        ("invalid_member_type", "$.display.name"),
        ("unknown_schema_field", f"{QUERY}.range_filters.nope"),
        ("invalid_member_value", f"{QUERY}.range_filters.nope[1]"),
        ("unknown_schema_field", "$.streams[1].primary_key[0]"),
    ]


@pytest.mark.parametrize(
    ("at", "value", "code", "path"),
    [
        ("version", REMOVED, "missing_member", "$.version"),
        ("protocol_version", "1", "unsupported_version", "$.protocol_version"),
        ("connector_key", "a/b", "invalid_name", "$.connector_key"),
        ("display_name", 1, "invalid_member_type", "$.display_name"),
        ("publisher", {"id": "me"}, "invalid_member_value", "$.publisher.id"),
        ("streams", REMOVED, "missing_member", "$.streams"),
    ],
)
def test_manifest_errors_have_code_and_path(at: str, value: Any, code: str, path: str) -> None:
    assert error_codes(changed(manifest(), at, value)) == [(code, path)]


def test_manifest_needs_id_or_key() -> None:
    nameless = manifest()
    del nameless["connector_id"], nameless["connector_key"]

    assert error_codes(nameless) == [("missing_member", "$.connector_key")]
    assert find_errors({**nameless, "connector_key": "mailbox"}) == []
    assert find_errors({**nameless, "connector_id": "mailbox"}) == []
    assert error_codes({**nameless, "connector_id": "https://x.example/a b"}) == [
        ("invalid_name", "$.connector_id")
    ]


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("a", "$.a"),
        ("$ref", "$.$ref"),
        ("a b", '$["a b"]'),
        ('"', '$["\\""]'),
        ("é", '$["\\u00e9"]'),
    ],
)
def test_paths_are_ascii_and_quote_unusual_names(name: str, path: str) -> None:
    assert child_path("$", name) == path


def test_parsing_an_invalid_document_raises_all_errors() -> None:
    with pytest.raises(ConnectorInvalid) as refused:
        parse_valid(changed(manifest(), "version", 5))

    assert refused.value.message == "$.version: Must be a string."
    assert refused.value.extra["faults"] == [
        {
            "code": "source.declaration.invalid_member_type",
            "path": "$.version",
            "message": "Must be a string.",
        }
    ]
    assert parse_valid(manifest()).version == "1.0.0"
