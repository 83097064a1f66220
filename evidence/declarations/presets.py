"""Whether the suggested selections of a declaration name what exists."""

from collections.abc import Collection, Mapping

from evidence.declarations.capabilities import Fields
from evidence.declarations.faults import FaultCode, Spot


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
