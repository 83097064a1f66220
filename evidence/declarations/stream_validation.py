"""Validate the streams of a declaration: roles, views, relations and selection presets."""

from collections.abc import Collection, Mapping
from functools import partial
from typing import Final

from evidence import limits
from evidence.declarations.errors import DeclarationErrorCode, DocumentNode
from evidence.declarations.query_capabilities import (
    NUMBER_KINDS,
    ORDERED_KINDS,
    SCALAR_KINDS,
    TIME_KINDS,
    FieldTypesByName,
    check_field,
    check_query,
    of_kind,
)
from evidence.declarations.schema_validation import check_relation_name, check_stream_schema

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
