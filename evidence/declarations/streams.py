"""Whether one stream of a declaration holds together, but for its relations to others."""

from typing import Final

from evidence import limits
from evidence.declarations.capabilities import (
    MOMENTS,
    ORDERED,
    SCALAR,
    Fields,
    check_field,
    check_query,
    of_kind,
)
from evidence.declarations.faults import FaultCode, Spot
from evidence.declarations.stream_schemas import check_stream_schema
from evidence.declarations.types import Kind

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
