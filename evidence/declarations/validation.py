"""Validate a declaration document and return every error with its JSON path.

Streams have roles, views, relations and selection presets; a field type decides which filters, searches
and aggregations it allows.
"""

import json
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from evidence import limits
from evidence.declarations import declaration
from evidence.declarations.declaration import (
    AGGREGATIONS,
    RANGE_OPERATORS,
    FieldKind,
    SourceDeclaration,
    field_kind,
)
from evidence.declarations.schema_validation import (
    MAX_ERRORS,
    DeclarationError,
    DeclarationErrorCode,
    DocumentNode,
    check_connector_key,
    check_relation_name,
    check_stream_name,
    check_stream_schema,
    child_path,
)
from evidence.errors import ConnectorInvalid

ORDERED_KINDS: Final[frozenset[FieldKind]] = frozenset({"number", "time", "date", "string"})
SCALAR_KINDS: Final[frozenset[FieldKind]] = ORDERED_KINDS | {"boolean"}
TIME_KINDS: Final[frozenset[FieldKind]] = frozenset({"time", "date"})
NUMBER_KINDS: Final[frozenset[FieldKind]] = frozenset({"number"})

AGGREGATION_KINDS: Final[Mapping[str, frozenset[FieldKind]]] = {
    "count_distinct": SCALAR_KINDS,
    "group_by": SCALAR_KINDS,
    "group_by_time": TIME_KINDS,
    "sum": NUMBER_KINDS,
    "min": ORDERED_KINDS,
    "max": ORDERED_KINDS,
}


class FieldTypes(NamedTuple):
    """The kind of a field, and whether it has text to search."""

    kind: FieldKind
    is_searchable: bool


FieldTypesByName = Mapping[str, FieldTypes]


def field_types(schema: object) -> dict[str, FieldTypes]:
    """Return the types of all properties of a stream schema, which may be invalid."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        return {}
    return {name: _types(node, root=schema) for name, node in properties.items()}


def check_query(query: DocumentNode, *, fields: FieldTypesByName) -> None:
    """Check range filters, search and aggregations. (`expand` is checked with the relations.)"""
    if query.check_object():
        _check_range_filters(query.member("range_filters"), fields=fields)
        _check_search(query.member("search"), fields=fields)
        _check_aggregations(query.member("aggregations"), fields=fields)


def check_field(
    node: DocumentNode,
    name: str,
    *,
    fields: FieldTypesByName,
    is_allowed: Callable[[FieldTypes], bool],
    code: DeclarationErrorCode = DeclarationErrorCode.INVALID_QUERY_FIELD_TYPE,
) -> None:
    """Check that a field exists and has an allowed type; `code` is that of the wrong type."""
    types = fields.get(name)
    if types is None:
        node.add_error(
            DeclarationErrorCode.UNKNOWN_SCHEMA_FIELD, "The schema has no property of this name."
        )
    elif not is_allowed(types):
        node.add_error(code, f"A field of kind {types.kind} cannot be used here.")


def of_kind(kinds: frozenset[FieldKind]) -> Callable[[FieldTypes], bool]:
    """Return a predicate for fields of these kinds."""
    return lambda types: types.kind in kinds


def _types(node: object, *, root: object) -> FieldTypes:
    kind = _kind(node, root=root)
    items = node.get("items") if kind == "array" and isinstance(node, Mapping) else None
    return FieldTypes(kind, kind == "string" or _kind(items, root=root) == "string")


def _kind(node: object, *, root: object) -> FieldKind:
    types, text_format = declaration.property_type(node, root=root)
    return field_kind(tuple(name for name in types if name != "null"), format=text_format)


def _check_range_filters(node: DocumentNode, *, fields: FieldTypesByName) -> None:
    if not node.check_object():
        return
    for name, operators in node.members():
        check_field(operators, name, fields=fields, is_allowed=of_kind(ORDERED_KINDS))
        for operator, text in operators.unique_strings(required=True, min_items=1):
            if text not in RANGE_OPERATORS:
                message = f"Must be one of {', '.join(RANGE_OPERATORS)}."
                operator.add_error(DeclarationErrorCode.INVALID_MEMBER_VALUE, message)


def _check_search(node: DocumentNode, *, fields: FieldTypesByName) -> None:
    if not node.check_object():
        return
    node.check_member_names(("lexical_fields", "semantic_fields"))
    for member in ("lexical_fields", "semantic_fields"):
        for item, name in node.member(member).unique_strings():
            check_field(item, name, fields=fields, is_allowed=lambda types: types.is_searchable)


def _check_aggregations(node: DocumentNode, *, fields: FieldTypesByName) -> None:
    if not node.check_object():
        return
    node.check_member_names(("count", *AGGREGATIONS))
    node.member("count").check_boolean()
    for member in AGGREGATIONS:
        is_allowed = of_kind(AGGREGATION_KINDS[member])
        for item, name in node.member(member).unique_strings():
            check_field(item, name, fields=fields, is_allowed=is_allowed)


SEMANTICS: Final = ("append_only", "mutable_state", "append")
"""The last is what some manifests of the reference write for the first."""
CONSENT_TIME_KINDS: Final = TIME_KINDS | NUMBER_KINDS
"""A number is a time where its format says Unix seconds; elsewhere the records have no time."""
CARDINALITIES: Final = ("has_many", "has_one")

Streams = Mapping[str, FieldTypesByName]


def check_stream(node: DocumentNode, *, fields: FieldTypesByName) -> set[str]:
    """Check a stream without its name and relations, and return the ids of its views."""
    check_stream_schema(node.member("schema"))
    node.member("semantics").choice(SEMANTICS, required=True)
    node.member("description").string()
    display = node.member("display")
    if display.check_object():
        display.member("label").string(max_chars=limits.LABEL_MAX_CHARS)
        display.member("detail").string()
    selection = node.member("selection")
    if selection.check_object(required=True):
        selection.member("fields").check_boolean(required=True)
        selection.member("resources").check_boolean(required=True)
    _check_roles(node, fields=fields)
    check_query(node.member("query"), fields=fields)
    return _check_views(node.member("views"), fields=fields)


def _check_roles(stream: DocumentNode, *, fields: FieldTypesByName) -> None:
    """Check the fields that identify, order and date a record."""
    check = partial(check_field, fields=fields, code=DeclarationErrorCode.INVALID_FIELD_TYPE)
    for item, name in stream.member("primary_key").unique_strings(required=True, min_items=1):
        check(item, name, is_allowed=of_kind(SCALAR_KINDS))
    for member, kinds in (
        ("cursor_field", ORDERED_KINDS),
        ("consent_time_field", CONSENT_TIME_KINDS),
    ):
        node = stream.member(member)
        field_name = node.string()
        if field_name is not None:
            check(node, field_name, is_allowed=of_kind(kinds))


def _check_views(node: DocumentNode, *, fields: FieldTypesByName) -> set[str]:
    view_ids: set[str] = set()
    if not node.check_list():
        return view_ids
    for view in node.items():
        if not view.check_object(required=True):
            continue
        view_id = view.member("id").string(required=True)
        if view_id in view_ids:
            code = DeclarationErrorCode.DUPLICATE_VIEW_ID
            view.member("id").add_error(code, "Another view has this id.")
        view_ids.update(filter(None, [view_id]))
        view.member("label").string(required=True, max_chars=limits.LABEL_MAX_CHARS)
        _check_field_names(view.member("fields"), fields, required=True)
    return view_ids


def _check_field_names(
    node: DocumentNode, fields: FieldTypesByName, *, required: bool = False
) -> None:
    for item, name in node.unique_strings(required=required, min_items=1):
        check_field(item, name, fields=fields, is_allowed=lambda _: True)


def check_presets(
    node: DocumentNode, *, streams: Streams, views: Mapping[str, Collection[str]]
) -> None:
    """Check `selection_presets`; `views` maps stream names to view ids."""
    if not node.check_list():
        return
    preset_ids: set[str] = set()
    for preset in node.items():
        if not preset.check_object(required=True):
            continue
        preset_id = preset.member("id").string(required=True)
        if preset_id in preset_ids:
            code = DeclarationErrorCode.DUPLICATE_PRESET_ID
            preset.member("id").add_error(code, "Another preset has this id.")
        preset_ids.update(filter(None, [preset_id]))
        preset.member("label").string(required=True)
        _check_selections(preset.member("streams"), streams=streams, views=views)


def _check_selections(
    node: DocumentNode, *, streams: Streams, views: Mapping[str, Collection[str]]
) -> None:
    if not node.check_list(required=True, min_items=1):
        return
    selected: set[str] = set()
    for selection in node.items():
        if not selection.check_object(required=True):
            continue
        name_node = selection.member("name")
        name = name_node.string(required=True)
        if name is None:
            continue
        if name in selected:
            name_node.add_error(
                DeclarationErrorCode.DUPLICATE_PRESET_STREAM_NAME,
                "The preset already selects this stream.",
            )
        selected.add(name)
        if name not in streams:
            name_node.add_error(DeclarationErrorCode.UNKNOWN_STREAM, "No stream has this name.")
        else:
            _check_selection(selection, fields=streams[name], views=views.get(name, ()))


def _check_selection(
    node: DocumentNode, *, fields: FieldTypesByName, views: Collection[str]
) -> None:
    view, selected_fields = node.member("view"), node.member("fields")
    if view.is_present and selected_fields.is_present:
        node.add_error(
            DeclarationErrorCode.CONFLICTING_MEMBERS, "Give either view or fields, not both."
        )
    view_id = view.string()
    if view_id is not None and view_id not in views:
        view.add_error(DeclarationErrorCode.UNKNOWN_VIEW, "The stream has no view with this id.")
    _check_field_names(selected_fields, fields)


def check_relationships(
    stream: DocumentNode, *, own_fields: FieldTypesByName, streams: Streams
) -> None:
    """Check `relationships` and `query.expand` of a stream."""
    cardinalities: dict[str, str | None] = {}
    relationships = stream.member("relationships")
    if relationships.check_list():
        for node in relationships.items():
            _check_relationship(
                node, own_fields=own_fields, streams=streams, cardinalities=cardinalities
            )
    expand = stream.member("query").member("expand")
    if expand.check_list():
        expanded: set[str] = set()
        for node in expand.items():
            _check_expand(node, cardinalities=cardinalities, expanded=expanded)


def _check_relationship(
    node: DocumentNode,
    *,
    own_fields: FieldTypesByName,
    streams: Streams,
    cardinalities: dict[str, str | None],
) -> None:
    """Check a relation, and add its cardinality to `cardinalities`."""
    if not node.check_object(required=True):
        return
    name = check_relation_name(node.member("name"))
    cardinality = node.member("cardinality").choice(CARDINALITIES, required=True)
    if name is not None:
        if name in cardinalities:
            node.member("name").add_error(
                DeclarationErrorCode.DUPLICATE_RELATIONSHIP_NAME, "Another relation has this name."
            )
        cardinalities[name] = cardinality
    _check_foreign_key(node, own_fields=own_fields, streams=streams, cardinality=cardinality)


def _check_foreign_key(
    node: DocumentNode, *, own_fields: FieldTypesByName, streams: Streams, cardinality: str | None
) -> None:
    target = node.member("stream").string(required=True)
    key = node.member("foreign_key").string(required=True)
    if target is not None and target not in streams:
        code = DeclarationErrorCode.UNKNOWN_STREAM
        node.member("stream").add_error(code, "No stream has this name.")
        return
    if target is None or key is None or cardinality is None:
        return
    is_in_target = cardinality == "has_many"
    if key not in (streams[target] if is_in_target else own_fields):
        stream = "the related stream" if is_in_target else "this stream"
        node.member("foreign_key").add_error(
            DeclarationErrorCode.UNKNOWN_SCHEMA_FIELD,
            f"With {cardinality} it must be a property in the schema of {stream}.",
        )


def _check_expand(
    node: DocumentNode, *, cardinalities: Mapping[str, str | None], expanded: set[str]
) -> None:
    if not node.check_object(required=True):
        return
    name_node = node.member("name")
    name = name_node.string(required=True)
    default_limit = node.member("default_limit").positive_integer()
    max_limit = node.member("max_limit").positive_integer()
    if default_limit is not None and max_limit is not None and default_limit > max_limit:
        node.add_error(
            DeclarationErrorCode.INVALID_EXPAND_LIMITS, "default_limit is above max_limit."
        )
    if name is None:
        return
    if name in expanded:
        name_node.add_error(DeclarationErrorCode.DUPLICATE_EXPAND_NAME, "Is already expandable.")
    expanded.add(name)
    if name not in cardinalities:
        code = DeclarationErrorCode.UNKNOWN_RELATIONSHIP
        name_node.add_error(code, "No relation has this name.")
    elif cardinalities[name] == "has_one" and (default_limit is not None or max_limit is not None):
        node.add_error(
            DeclarationErrorCode.INVALID_EXPAND_LIMITS, "A has_one relation takes no limits."
        )


DOCUMENT_MAX_BYTES: Final = 1024 * 1024
DOCUMENT_MAX_DEPTH: Final = 64

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")

# A path as a linked list, innermost step first. It is formatted for errors only, because the paths
# of all nodes of a malicious document are far larger than the document.
PathSteps = tuple["PathSteps", str | int] | None


def find_limit_errors(document: object) -> list[DeclarationError]:
    """Return one error of size or depth, or an error for each value that cannot be stored.

    A document with these errors is not validated further. Works without recursion.
    """
    errors: list[DeclarationError] = []
    nodes = 0
    stack: list[tuple[object, PathSteps, int]] = [(document, None, 1)]
    while stack and len(errors) < MAX_ERRORS:
        node, steps, depth = stack.pop()
        nodes += 1
        if depth > DOCUMENT_MAX_DEPTH:
            message = f"More than {DOCUMENT_MAX_DEPTH} levels."
            return [DeclarationError(DeclarationErrorCode.TOO_DEEP, _path(steps), message)]
        if nodes > DOCUMENT_MAX_BYTES:
            return [_too_large()]
        errors += _node_errors(node, steps)
        stack += ((child, (steps, name), depth + 1) for name, child in _children(node))
    if not errors and _serialized_bytes(document) > DOCUMENT_MAX_BYTES:
        return [_too_large()]
    return errors


def _children(node: object) -> Iterator[tuple[str | int, object]]:
    if isinstance(node, dict):
        yield from ((name, value) for name, value in node.items() if isinstance(name, str))
    elif isinstance(node, list):
        yield from enumerate(node)


def _node_errors(node: object, steps: PathSteps) -> Iterator[DeclarationError]:
    match node:
        case dict():
            for name in node:
                yield from _name_errors(name, steps)
        case str() if _UNSTORABLE.search(node):
            yield _error(DeclarationErrorCode.INVALID_TEXT, steps, "Contains NUL or a surrogate.")
        case float() if not math.isfinite(node):
            yield _error(DeclarationErrorCode.INVALID_MEMBER_TYPE, steps, "Is not a JSON number.")
        case list() | str() | int() | float() | None:
            return
        case _:
            yield _error(DeclarationErrorCode.INVALID_MEMBER_TYPE, steps, "Is not JSON.")


def _name_errors(name: object, steps: PathSteps) -> Iterator[DeclarationError]:
    if not isinstance(name, str):
        message = "Has a member name that is not a string."
        yield _error(DeclarationErrorCode.INVALID_MEMBER_TYPE, steps, message)
    elif _UNSTORABLE.search(name):
        message = "Its name contains NUL or a surrogate."
        yield _error(DeclarationErrorCode.INVALID_TEXT, (steps, name), message)


def _error(code: DeclarationErrorCode, steps: PathSteps, message: str) -> DeclarationError:
    return DeclarationError(code, _path(steps), message)


def _path(steps: PathSteps) -> str:
    step_names: list[str | int] = []
    while steps is not None:
        steps, name = steps
        step_names.append(name)
    path = "$"
    for name in reversed(step_names):
        path = child_path(path, name)
    return path


def _serialized_bytes(document: object) -> int:
    try:
        return len(json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode())
    except ValueError:  # an integer with more digits than Python converts to text
        return DOCUMENT_MAX_BYTES + 1


def _too_large() -> DeclarationError:
    message = f"More than {DOCUMENT_MAX_BYTES} bytes."
    return DeclarationError(DeclarationErrorCode.TOO_LARGE, "$", message)


PROTOCOL_VERSION: Final = "0.1.0"
MAX_STREAMS: Final = 1_000
VERSION_MAX_CHARS: Final = 128
SOURCE_KINDS = ("connector", "provider_native")

_WRAPPER_MEMBERS = (
    "protocol_version",
    "source",
    "connector_key",
    "declaration_version",
    "publisher",
    "display",
    "streams",
    "selection_presets",
    "extensions",
)


def find_errors(document: object) -> list[DeclarationError]:
    """Return at most MAX_ERRORS errors of a document of either shape, in the order of the checks.

    A document without errors can be parsed. Never raises.
    """
    errors = find_limit_errors(document)
    if errors:
        return errors
    root = DocumentNode(document)
    if root.check_object(required=True) and isinstance(document, Mapping):
        if declaration.is_wrapper(document):
            _check_wrapper(root)
        else:
            _check_manifest(root)
        _check_streams(root)
    return root.errors


def parse_valid(document: Mapping[str, Any]) -> SourceDeclaration:
    """Return the declaration of a document.

    Raises ConnectorInvalid, with `faults` of {code, path, message}, for an invalid document.
    """
    errors = find_errors(document)
    if errors:
        raise ConnectorInvalid(
            message=f"{errors[0].path}: {errors[0].message}",
            faults=[error._asdict() for error in errors],
        )
    return declaration.parse_declaration(document)


def _check_wrapper(root: DocumentNode) -> None:
    root.check_member_names(_WRAPPER_MEMBERS)
    _check_protocol(root.member("protocol_version"), required=True)
    source = root.member("source")
    if source.check_object(required=True):
        source.check_member_names(("kind", "id"))
        source.member("kind").choice(SOURCE_KINDS, required=True)
        _check_uri(source.member("id"), required=True)
    root.member("declaration_version").string(required=True, max_chars=VERSION_MAX_CHARS)
    publisher = root.member("publisher")
    if publisher.check_object(required=True):
        _check_uri(publisher.member("id"), required=True)
    display = root.member("display")
    if display.check_object(required=True):
        display.member("name").string(required=True, max_chars=limits.LABEL_MAX_CHARS)
    root.member("extensions").check_object()
    _check_connector_key(root, source.member("id"))


def _check_manifest(root: DocumentNode) -> None:
    """Check a manifest of the reference. Other members are for its collector and are ignored."""
    _check_protocol(root.member("protocol_version"), required=False)
    root.member("connector_id").string()
    root.member("manifest_uri").string()
    root.member("version").string(required=True, max_chars=VERSION_MAX_CHARS)
    for member in ("display_name", "name"):
        root.member(member).string(max_chars=limits.LABEL_MAX_CHARS)
    publisher = root.member("publisher")
    if publisher.check_object():
        _check_uri(publisher.member("id"), required=False)
    if root.member("connector_id").is_present or root.member("connector_key").is_present:
        _check_connector_key(root, root.member("connector_id"))
    else:
        root.member("connector_key").string(required=True)


def _check_protocol(node: DocumentNode, *, required: bool) -> None:
    version = node.string(required=required)
    if version not in {None, PROTOCOL_VERSION}:
        node.add_error(DeclarationErrorCode.UNSUPPORTED_VERSION, f"Must be {PROTOCOL_VERSION}.")


def _check_uri(node: DocumentNode, *, required: bool) -> None:
    uri = node.string(required=required)
    if uri is not None and not declaration.is_absolute_uri(uri):
        node.add_error(DeclarationErrorCode.INVALID_MEMBER_VALUE, "Must be an absolute URI.")


def _check_connector_key(root: DocumentNode, source_id: DocumentNode) -> None:
    node = root.member("connector_key")
    if node.is_present:
        key = node.string(required=True)
        if key is not None:
            check_connector_key(key, node=node)
    elif isinstance(source_id.value, str) and source_id.value:
        check_connector_key(declaration.last_segment(source_id.value), node=source_id)


def _check_streams(root: DocumentNode) -> None:
    streams = root.member("streams")
    if not streams.check_list(required=True, min_items=1):
        return
    nodes = list(streams.items())
    if len(nodes) > MAX_STREAMS:
        streams.add_error(DeclarationErrorCode.TOO_MANY, f"More than {MAX_STREAMS} streams.")
        return
    fields: dict[str, FieldTypesByName] = {}
    views: dict[str, Collection[str]] = {}
    for node in nodes:
        if node.check_object(required=True):
            name = _check_name(node, other_names=fields)
            own_fields = field_types(node.member("schema").value)
            fields.setdefault(name, own_fields)
            views.setdefault(name, check_stream(node, fields=own_fields))
    for node in nodes:
        if isinstance(node.value, Mapping):
            own_fields = field_types(node.member("schema").value)
            check_relationships(node, own_fields=own_fields, streams=fields)
    check_presets(root.member("selection_presets"), streams=fields, views=views)


def _check_name(stream: DocumentNode, *, other_names: Collection[str]) -> str:
    """Return the name, or "" for an invalid name, which no other stream can refer to."""
    node = stream.member("name")
    name = check_stream_name(node) or ""
    if name and name in other_names:
        code = DeclarationErrorCode.DUPLICATE_STREAM_NAME
        node.add_error(code, "Another stream has this name.")
    return name
