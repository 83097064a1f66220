"""Whether one stream of a declaration holds together, but for its relations to others."""

from collections.abc import Collection, Mapping
from typing import Final

from evidence import limits
from evidence.declarations import names
from evidence.declarations.declaration import Kind
from evidence.declarations.errors import FaultCode, Spot
from evidence.declarations.query_capabilities import (
    MOMENTS,
    ORDERED,
    SCALAR,
    Fields,
    check_field,
    check_query,
    of_kind,
)
from evidence.declarations.schema_validation import check_stream_schema

SEMANTICS: Final = ("append_only", "mutable_state")


def check_stream(spot: Spot, *, fields: Fields) -> set[str]:
    """Report everything about a stream but its name and relations; the ids of its views."""
    check_stream_schema(spot.member("schema"))
    spot.member("semantics").choice(SEMANTICS, required=True)
    spot.member("description").text()
    display = spot.member("display")
    if display.mapping():
        display.member("label").text(most=limits.LABEL_MAX_CHARS)
        display.member("detail").text()
    selection = spot.member("selection")
    if selection.mapping(required=True):
        selection.member("fields").flag(required=True)
        selection.member("resources").flag(required=True)
    _check_roles(spot, fields=fields)
    check_query(spot.member("query"), fields=fields)
    return _check_views(spot.member("views"), fields=fields)


def _check_roles(stream: Spot, *, fields: Fields) -> None:
    """The fields that identify, order and date a record."""
    for spot, name in stream.member("primary_key").texts(required=True, least=1):
        _check_role(spot, name, fields=fields, kinds=SCALAR)
    for member, kinds in (("cursor_field", ORDERED), ("consent_time_field", MOMENTS)):
        spot = stream.member(member)
        named = spot.text()
        if named is not None:
            _check_role(spot, named, fields=fields, kinds=kinds)


def _check_role(spot: Spot, name: str, *, fields: Fields, kinds: frozenset[Kind]) -> None:
    check_field(
        spot, name, fields=fields, allowed=of_kind(kinds), code=FaultCode.INVALID_FIELD_TYPE
    )


def _check_views(spot: Spot, *, fields: Fields) -> set[str]:
    seen: set[str] = set()
    if not spot.sequence():
        return seen
    for view in spot.items():
        if not view.mapping(required=True):
            continue
        identity = view.member("id").text(required=True)
        if identity in seen:
            view.member("id").report(FaultCode.DUPLICATE_VIEW_ID, "Another view has this id.")
        seen.update(filter(None, [identity]))
        view.member("label").text(required=True, most=limits.LABEL_MAX_CHARS)
        for item, name in view.member("fields").texts(required=True, least=1):
            if name not in fields:
                item.report(
                    FaultCode.UNKNOWN_SCHEMA_FIELD, "The schema has no property of this name."
                )
    return seen


def check_presets(
    spot: Spot, *, streams: Mapping[str, Fields], views: Mapping[str, Collection[str]]
) -> None:
    """Report what is wrong with `selection_presets`; `views` are the view ids of each stream."""
    if not spot.sequence():
        return
    seen: set[str] = set()
    for preset in spot.items():
        if not preset.mapping(required=True):
            continue
        identity = preset.member("id").text(required=True)
        if identity in seen:
            preset.member("id").report(FaultCode.DUPLICATE_PRESET_ID, "Another preset has this id.")
        seen.update(filter(None, [identity]))
        preset.member("label").text(required=True)
        _check_selections(preset.member("streams"), streams=streams, views=views)


def _check_selections(
    spot: Spot, *, streams: Mapping[str, Fields], views: Mapping[str, Collection[str]]
) -> None:
    if not spot.sequence(required=True, least=1):
        return
    seen: set[str] = set()
    for selection in spot.items():
        if not selection.mapping(required=True):
            continue
        name = selection.member("name").text(required=True)
        if name is None:
            continue
        if name in seen:
            selection.member("name").report(
                FaultCode.DUPLICATE_PRESET_STREAM_NAME, "The preset names this stream already."
            )
        seen.add(name)
        if name not in streams:
            selection.member("name").report(FaultCode.UNKNOWN_STREAM, "No stream has this name.")
        else:
            _check_selection(selection, fields=streams[name], views=views.get(name, ()))


def _check_selection(spot: Spot, *, fields: Fields, views: Collection[str]) -> None:
    view, chosen = spot.member("view"), spot.member("fields")
    if view.present and chosen.present:
        spot.report(FaultCode.CONFLICTING_MEMBERS, "Either view or fields, not both.")
    identity = view.text()
    if identity is not None and identity not in views:
        view.report(FaultCode.UNKNOWN_VIEW, "The stream has no view of this id.")
    for item, name in chosen.texts(least=1):
        if name not in fields:
            item.report(FaultCode.UNKNOWN_SCHEMA_FIELD, "The schema has no property of this name.")


CARDINALITIES = ("has_many", "has_one")

Streams = Mapping[str, Fields]


def check_relationships(stream: Spot, *, own: Fields, streams: Streams) -> None:
    """Report what is wrong with `relationships` and `query.expand`. `own` are the fields of this
    stream, `streams` those of every stream by name."""
    cardinalities: dict[str, str | None] = {}
    relationships = stream.member("relationships")
    if relationships.sequence():
        for spot in relationships.items():
            _check_relationship(spot, own=own, streams=streams, seen=cardinalities)
    expand = stream.member("query").member("expand")
    if expand.sequence():
        seen: set[str] = set()
        for spot in expand.items():
            _check_expand(spot, cardinalities=cardinalities, seen=seen)


def _check_relationship(
    spot: Spot, *, own: Fields, streams: Streams, seen: dict[str, str | None]
) -> None:
    if not spot.mapping(required=True):
        return
    name = names.relation_name(spot.member("name"))
    cardinality = spot.member("cardinality").choice(CARDINALITIES, required=True)
    if name is not None:
        if name in seen:
            spot.member("name").report(
                FaultCode.DUPLICATE_RELATIONSHIP_NAME, "Another relation has this name."
            )
        seen[name] = cardinality
    _check_target(spot, own=own, streams=streams, cardinality=cardinality)


def _check_target(spot: Spot, *, own: Fields, streams: Streams, cardinality: str | None) -> None:
    """`Relation` says on which side the foreign key stands."""
    target = spot.member("stream").text(required=True)
    key = spot.member("foreign_key").text(required=True)
    if target is not None and target not in streams:
        spot.member("stream").report(FaultCode.UNKNOWN_STREAM, "No stream has this name.")
        return
    if target is None or key is None or cardinality is None:
        return
    if key not in (streams[target] if cardinality == "has_many" else own):
        holder = "the related stream" if cardinality == "has_many" else "this stream"
        spot.member("foreign_key").report(
            FaultCode.UNKNOWN_SCHEMA_FIELD,
            f"With {cardinality} it must be a property in the schema of {holder}.",
        )


def _check_expand(spot: Spot, *, cardinalities: Mapping[str, str | None], seen: set[str]) -> None:
    if not spot.mapping(required=True):
        return
    name = spot.member("name").text(required=True)
    least, most = spot.member("default_limit").count(), spot.member("max_limit").count()
    if least is not None and most is not None and least > most:
        spot.report(FaultCode.INVALID_EXPAND_LIMITS, "default_limit is above max_limit.")
    if name is None:
        return
    if name in seen:
        spot.member("name").report(FaultCode.DUPLICATE_EXPAND_NAME, "Is expandable already.")
    seen.add(name)
    if name not in cardinalities:
        spot.member("name").report(FaultCode.UNKNOWN_RELATIONSHIP, "No relation has this name.")
    elif cardinalities[name] == "has_one" and (least is not None or most is not None):
        spot.report(FaultCode.INVALID_EXPAND_LIMITS, "A has_one relation takes no limits.")
