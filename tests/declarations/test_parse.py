"""Both shapes of a document are parsed to the same declaration."""

import pytest

from evidence.declarations.declaration import (
    Relation,
    is_absolute_uri,
    last_segment,
    parse_declaration,
)
from tests.declarations.documents import (
    Document,
    declaration,
    field,
    manifest,
    messages,
    parse_changed,
)


def test_both_shapes_are_parsed_alike() -> None:
    normative, from_manifest = parse_declaration(declaration()), parse_declaration(manifest())

    assert normative.source_id == from_manifest.source_id
    assert normative.source_id == "https://registry.example/connectors/mailbox"
    assert normative.connector_key == from_manifest.connector_key == "mailbox"
    assert normative.display_name == from_manifest.display_name == "Mailbox"
    assert normative.streams == from_manifest.streams
    assert (normative.version, from_manifest.version) == ("2026-11-21", "1.0.0")
    assert (normative.publisher, from_manifest.publisher) == ("https://registry.example/", None)


def test_source_kind_is_parsed() -> None:
    assert parse_changed().source_kind == "connector"
    assert parse_changed(lambda d: d["source"].update(kind="provider_native")).source_kind == (
        "provider_native"
    )


@pytest.mark.parametrize(
    ("members", "source_id", "key"),
    [
        ({"connector_id": "https://x.example/a/mail"}, "https://x.example/a/mail", "mail"),
        ({"connector_id": "urn:example:mail"}, "urn:example:mail", "mail"),
        ({"connector_id": "mailbox"}, "urn:pdpp:connector:mailbox", "mailbox"),
        ({"connector_key": "mbox"}, "urn:pdpp:connector:mbox", "mbox"),
        (
            {"connector_key": "mbox", "manifest_uri": "https://x.example/m"},
            "https://x.example/m",
            "mbox",
        ),
    ],
)
def test_source_id_of_a_manifest_has_defaults(members: Document, source_id: str, key: str) -> None:
    document = {"version": "1", "streams": [], **members}

    assert (parse_declaration(document).source_id, parse_declaration(document).connector_key) == (
        source_id,
        key,
    )
    assert parse_declaration(document).display_name == key


def test_fields_have_schema_order_and_capabilities() -> None:
    stream = parse_changed().streams["messages"]

    assert list(stream.fields) == list(messages()["schema"]["properties"])
    size = stream.fields["size"]
    assert (size.types, size.nullable, size.kind, size.pdpp_type) == (
        ("integer",),
        True,
        "number",
        "bytes",
    )
    assert size.range_operators == ("gte", "gt", "lte", "lt")
    assert size.aggregations == {"sum", "min", "max"}
    assert stream.lexical_fields == ("subject", "body", "labels")
    assert [name for name, field in stream.fields.items() if field.semantic] == ["body"]
    assert stream.count
    assert stream.required == ("id", "sent_at")
    assert stream.schema == messages()["schema"]


def test_roles_determine_title_and_event_time() -> None:
    streams = parse_changed().streams

    assert streams["messages"].title_field == "subject"
    assert streams["messages"].event_time_field == "sent_at"
    assert streams["threads"].title_field is None
    assert streams["threads"].event_time_field is None


def test_event_time_defaults_to_consent_time_field() -> None:
    def remove_roles(document: Document) -> None:
        document["streams"][0]["schema"]["properties"]["sent_at"].pop("x_pdpp_role")

    assert parse_changed(remove_roles).streams["messages"].event_time_field == "sent_at"


def test_views_and_display_are_parsed() -> None:
    stream = parse_changed().streams["messages"]

    assert stream.views["envelope"].fields == ("id", "subject")
    assert (stream.label, stream.detail) == ("Your messages", "Subject, date and text.")
    assert (stream.selection_fields, stream.selection_resources) == (True, True)


def test_relation_limits_are_capped() -> None:
    streams = parse_changed().streams

    assert streams["threads"].relations["messages"] == Relation(
        name="messages",
        stream="messages",
        foreign_key="thread_id",
        cardinality="has_many",
        default_limit=5,
        max_limit=20,
        expandable=True,
    )
    above_maximum = parse_changed(
        lambda d: d["streams"][1]["query"]["expand"][0].update(max_limit=9_000)
    )
    assert above_maximum.streams["threads"].relations["messages"].max_limit == 50
    not_expandable = parse_changed(lambda d: d["streams"][1]["query"].clear()).streams["threads"]
    assert not not_expandable.relations["messages"].expandable


@pytest.mark.parametrize(
    ("schema", "kind_and_nullable"),
    [
        ({"type": "integer"}, ("number", False)),
        ({"type": ["integer", "number", "null"]}, ("number", True)),
        ({"type": "string"}, ("string", False)),
        ({"type": "string", "format": "email"}, ("string", False)),
        ({"type": ["string", "null"], "format": "date-time"}, ("time", True)),
        ({"type": "string", "format": "date"}, ("date", False)),
        ({"type": "boolean"}, ("boolean", False)),
        ({"type": "array"}, ("array", False)),
        ({"type": "object"}, ("object", False)),
        ({"type": ["string", "integer"]}, ("mixed", False)),
        ({}, ("mixed", True)),
        ({"enum": ["a", "b", None]}, ("string", True)),
        ({"const": 3}, ("number", False)),
        ({"enum": [True, 1.5, [], {}]}, ("mixed", False)),
        ({"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]}, ("date", True)),
        ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, ("mixed", False)),
        ({"anyOf": [{"type": "integer"}, {}]}, ("mixed", True)),
        ({"$ref": "#/properties/id"}, ("string", False)),
        ({"$ref": "#/properties/nothing"}, ("mixed", True)),
        ({"$ref": "#/properties/f"}, ("mixed", True)),
        ({"$ref": "#somewhere"}, ("mixed", True)),
    ],
)
def test_field_kind_is_derived_from_schema(
    schema: Document, kind_and_nullable: tuple[str, bool]
) -> None:
    assert (field(schema).kind, field(schema).nullable) == kind_and_nullable


def test_boolean_schema_has_mixed_kind() -> None:
    def anything(document: Document) -> None:
        document["streams"][0]["schema"]["properties"]["anything"] = True

    anything_goes = parse_changed(anything).streams["messages"].fields["anything"]
    assert (anything_goes.kind, anything_goes.schema) == ("mixed", {})


def test_references_are_resolved_with_annotations() -> None:
    def share(document: Document) -> None:
        schema = document["streams"][0]["schema"]
        schema["$defs"] = {"a b/c": [{"type": "integer", "x_pdpp_type": "currency"}]}
        schema["properties"]["amount"] = {"$ref": "#/$defs/a%20b~1c/0"}

    amount = parse_changed(share).streams["messages"].fields["amount"]
    assert (amount.kind, amount.pdpp_type) == ("number", "currency")


def test_nested_alternatives_are_limited() -> None:
    def multiply(document: Document) -> None:
        schema = document["streams"][0]["schema"]
        wide = [{"$ref": "#/$defs/wide"}] * 50
        schema["$defs"] = {"wide": {"anyOf": wide}}
        schema["properties"]["wide"] = {"anyOf": wide}

    assert parse_changed(multiply).streams["messages"].fields["wide"].kind == "mixed"


@pytest.mark.parametrize(
    ("uri", "segment"),
    [
        ("https://x.example/connectors/mail", "mail"),
        ("https://x.example/connectors/mail/", "mail"),
        ("https://x.example", "x.example"),
        ("urn:example:mail", "mail"),
        ("https://[broken", ""),
    ],
)
def test_last_segment_of_uri(uri: str, segment: str) -> None:
    assert last_segment(uri) == segment


@pytest.mark.parametrize("text", ["https://x.example/a", "urn:a:b", "a+b.c-d:x"])
def test_absolute_uris_are_recognized(text: str) -> None:
    assert is_absolute_uri(text)


@pytest.mark.parametrize(
    "text", ["", "mail", "//x/y", "https://", "a b:c", "https://x/\n", "1a:b", 5]
)
def test_other_text_is_no_absolute_uri(text: object) -> None:
    assert not is_absolute_uri(text)
