"""Declaration documents of a small source with mail threads and messages."""

from collections.abc import Callable
from typing import Any

from evidence.declarations.declaration import (
    Field,
    SourceDeclaration,
    StreamDeclaration,
    parse_declaration,
)
from evidence.declarations.validation import find_errors

Document = dict[str, Any]
Change = Callable[[Document], object]

TEXT = {"type": "string"}
MOMENT = {"type": "string", "format": "date-time"}
REMOVED: Any = object()


def messages() -> Document:
    """Return a stream that uses all members of a stream."""
    return {
        "name": "messages",
        "description": "Mail messages.",
        "display": {"label": "Your messages", "detail": "Subject, date and text."},
        "semantics": "append_only",
        "schema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "required": ["id", "sent_at"],
            "properties": {
                "id": TEXT,
                "thread_id": TEXT,
                "subject": {"type": ["string", "null"], "x_pdpp_role": "primary-title"},
                "body": {"type": ["string", "null"], "x_pdpp_role": "secondary"},
                "sent_at": {**MOMENT, "x_pdpp_role": "event-time"},
                "day": {"type": "string", "format": "date"},
                "labels": {"type": "array", "items": TEXT},
                "seen": {"type": "boolean"},
                "size": {"type": ["integer", "null"], "x_pdpp_type": "bytes"},
                "headers": {"type": "object", "additionalProperties": TEXT},
            },
        },
        "primary_key": ["id"],
        "cursor_field": "sent_at",
        "consent_time_field": "sent_at",
        "selection": {"fields": True, "resources": True},
        "views": [{"id": "envelope", "label": "Envelope", "fields": ["id", "subject"]}],
        "relationships": [
            {
                "name": "thread",
                "stream": "threads",
                "foreign_key": "thread_id",
                "cardinality": "has_one",
            }
        ],
        "query": {
            "range_filters": {"sent_at": ["gte", "lt"], "size": ["lt", "gte", "gt", "lte"]},
            "expand": [{"name": "thread"}],
            "search": {
                "lexical_fields": ["subject", "body", "labels"],
                "semantic_fields": ["body"],
            },
            "aggregations": {
                "count": True,
                "count_distinct": ["thread_id"],
                "group_by": ["seen"],
                "group_by_time": ["sent_at", "day"],
                "sum": ["size"],
                "min": ["size", "sent_at"],
                "max": ["size"],
            },
        },
    }


def threads() -> Document:
    """Return the related stream."""
    return {
        "name": "threads",
        "semantics": "mutable_state",
        "schema": {"type": "object", "properties": {"id": TEXT, "title": TEXT}},
        "primary_key": ["id"],
        "selection": {"fields": True, "resources": False},
        "relationships": [
            {
                "name": "messages",
                "stream": "messages",
                "foreign_key": "thread_id",
                "cardinality": "has_many",
            }
        ],
        "query": {"expand": [{"name": "messages", "default_limit": 5, "max_limit": 20}]},
    }


def declaration() -> Document:
    """Return a declaration in the normative shape."""
    return {
        "protocol_version": "0.1.0",
        "source": {"kind": "connector", "id": "https://registry.example/connectors/mailbox"},
        "declaration_version": "2026-11-21",
        "publisher": {"id": "https://registry.example/"},
        "display": {"name": "Mailbox"},
        "streams": [messages(), threads()],
        "selection_presets": [
            {
                "id": "mail",
                "label": "Mail",
                "streams": [
                    {"name": "messages", "view": "envelope"},
                    {"name": "threads", "fields": ["id"]},
                ],
            }
        ],
        "extensions": {},
    }


def manifest() -> Document:
    """Return the source as a manifest of the reference, with members for its collector."""
    return {
        "protocol_version": "0.1.0",
        "connector_id": "https://registry.example/connectors/mailbox",
        "connector_key": "mailbox",
        "version": "1.0.0",
        "display_name": "Mailbox",
        "runtime_requirements": {"bindings": {"network": {"required": True}}},
        "streams": [{**messages(), "incremental": True}, threads()],
    }


def parse_changed(change: Change = lambda _: None) -> SourceDeclaration:
    """Parse the normative declaration after a change."""
    document = declaration()
    change(document)
    return parse_declaration(document)


def stream(**members: object) -> StreamDeclaration:
    """Parse the stream of messages with other members."""
    return parse_declaration({**declaration(), "streams": [{**messages(), **members}]}).streams[
        "messages"
    ]


def field(schema: Document, *, name: str = "f") -> Field:
    """Parse a stream with a field of this schema, and return the field."""
    object_schema = {"type": "object", "properties": {"id": TEXT, name: schema}}
    return stream(schema=object_schema, query={}, views=[], cursor_field=None).fields[name]


def minimal_stream() -> Document:
    """Return a stream with the required members only."""
    return {
        "name": "notes",
        "semantics": "mutable_state",
        "schema": {"properties": {"id": TEXT}},
        "primary_key": ["id"],
        "selection": {"fields": True, "resources": False},
    }


def changed(document: Document, path: str, value: Any) -> Document:
    """Set or remove the value at a dotted path, and return the document."""
    node: Any = document
    *parents, last = path.split(".")
    for name in parents:
        node = node[int(name)] if isinstance(node, list) else node[name]
    key: Any = int(last) if isinstance(node, list) else last
    if value is REMOVED:
        del node[key]
    elif isinstance(node, list) and key == len(node):
        node.append(value)
    else:
        node[key] = value
    return document


def error_codes(document: object) -> list[tuple[str, str]]:
    """Return (last part of the code, path) of every error."""
    return [(error.code.rpartition(".")[2], error.path) for error in find_errors(document)]
