"""Both shapes of a document become the same declaration."""

import pytest

from evidence.declarations.declaration import Relation
from evidence.declarations.parser import is_absolute_uri, last_segment, parse
from tests.declarations.documents import Document, declaration, field, manifest, messages, parsed


def test_both_shapes_say_the_same_of_a_source() -> None:
    normative, of_reference = parse(declaration()), parse(manifest())

    assert normative.source_id == of_reference.source_id
    assert normative.source_id == "https://registry.example/connectors/mailbox"
    assert normative.connector_key == of_reference.connector_key == "mailbox"
    assert normative.display_name == of_reference.display_name == "Mailbox"
    assert normative.streams == of_reference.streams
    assert (normative.version, of_reference.version) == ("2026-11-21", "1.0.0")
    assert (normative.publisher, of_reference.publisher) == ("https://registry.example/", None)


def test_a_source_may_be_native_to_its_provider() -> None:
    assert parsed().source_kind == "connector"
    assert parsed(lambda d: d["source"].update(kind="provider_native")).source_kind == (
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
def test_a_manifest_without_a_full_identity_gets_one(
    members: Document, source_id: str, key: str
) -> None:
    bare = {"version": "1", "streams": [], **members}

    assert (parse(bare).source_id, parse(bare).connector_key) == (source_id, key)
    assert parse(bare).display_name == key


def test_fields_keep_the_order_of_the_schema_and_know_their_capabilities() -> None:
    stream = parsed().streams["messages"]

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
    assert [name for name, each in stream.fields.items() if each.semantic] == ["body"]
    assert stream.count
    assert stream.required == ("id", "sent_at")
    assert stream.schema == messages()["schema"]


def test_roles_name_the_title_and_the_time() -> None:
    streams = parsed().streams

    assert streams["messages"].title_field == "subject"
    assert streams["messages"].event_time_field == "sent_at"
    assert streams["threads"].title_field is None
    assert streams["threads"].event_time_field is None


def test_the_time_range_dates_a_record_that_has_no_role_for_it() -> None:
    def forget_roles(document: Document) -> None:
        document["streams"][0]["schema"]["properties"]["sent_at"].pop("x_pdpp_role")

    assert parsed(forget_roles).streams["messages"].event_time_field == "sent_at"


def test_views_and_display_are_read() -> None:
    stream = parsed().streams["messages"]

    assert stream.views["envelope"].fields == ("id", "subject")
    assert (stream.label, stream.detail) == ("Your messages", "Subject, date and text.")
    assert (stream.selection_fields, stream.selection_resources) == (True, True)


def test_relations_carry_their_limits_within_ours() -> None:
    streams = parsed().streams

    assert streams["threads"].relations["messages"] == Relation(
        name="messages",
        stream="messages",
        foreign_key="thread_id",
        cardinality="has_many",
        default_limit=5,
        max_limit=20,
        expandable=True,
    )
    greedy = parsed(lambda d: d["streams"][1]["query"]["expand"][0].update(max_limit=9_000))
    assert greedy.streams["threads"].relations["messages"].max_limit == 50
    shy = parsed(lambda d: d["streams"][1]["query"].clear()).streams["threads"]
    assert not shy.relations["messages"].expandable


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
def test_the_kind_of_a_field_is_read_however_it_is_written(
    schema: Document, kind_and_nullable: tuple[str, bool]
) -> None:
    assert (field(schema).kind, field(schema).nullable) == kind_and_nullable


def test_a_schema_that_is_just_true_has_no_known_type() -> None:
    def anything(document: Document) -> None:
        document["streams"][0]["schema"]["properties"]["anything"] = True

    anything_goes = parsed(anything).streams["messages"].fields["anything"]
    assert (anything_goes.kind, anything_goes.schema) == ("mixed", {})


def test_references_go_through_lists_and_escapes_and_carry_annotations() -> None:
    def share(document: Document) -> None:
        schema = document["streams"][0]["schema"]
        schema["$defs"] = {"a b/c": [{"type": "integer", "x_pdpp_type": "currency"}]}
        schema["properties"]["amount"] = {"$ref": "#/$defs/a%20b~1c/0"}

    amount = parsed(share).streams["messages"].fields["amount"]
    assert (amount.kind, amount.pdpp_type) == ("number", "currency")


def test_alternatives_of_alternatives_are_read_only_so_far() -> None:
    def multiply(document: Document) -> None:
        schema = document["streams"][0]["schema"]
        wide = [{"$ref": "#/$defs/wide"}] * 50
        schema["$defs"] = {"wide": {"anyOf": wide}}
        schema["properties"]["wide"] = {"anyOf": wide}

    assert parsed(multiply).streams["messages"].fields["wide"].kind == "mixed"


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
def test_the_last_segment_of_an_identity_is_its_short_name(uri: str, segment: str) -> None:
    assert last_segment(uri) == segment


@pytest.mark.parametrize("text", ["https://x.example/a", "urn:a:b", "a+b.c-d:x"])
def test_absolute_uris_are_told(text: str) -> None:
    assert is_absolute_uri(text)


@pytest.mark.parametrize(
    "text", ["", "mail", "//x/y", "https://", "a b:c", "https://x/\n", "1a:b", 5]
)
def test_anything_else_is_no_absolute_uri(text: object) -> None:
    assert not is_absolute_uri(text)
