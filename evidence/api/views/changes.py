"""``GET /v1/streams/{stream}/records?changes_since=…``: the changes feed (contract 3.3)."""

from datetime import UTC, datetime
from typing import Any

from django.utils import timezone
from rest_framework.response import Response

from evidence import limits
from evidence.access import bookmarks
from evidence.access.bookmarks import bookmark, recalled
from evidence.access.changed_rows import Place
from evidence.access.rows import VisibleRecord, VisibleRecords
from evidence.api import budget, cursors, envelopes
from evidence.api.base import GrantedView
from evidence.reading import changes, records
from evidence.refusals import CursorExpired, InvalidExpand, InvalidRequest

BEGINNING = "beginning"
REFUSED = ("sort", "order", "count", "window", "cursor", "filter")
"""What orders or chooses rows: a feed has an order of its own, and of what a record said at the
bookmark only hashes are kept, so it cannot be told whether a filter chose it then."""


def answer(view: GrantedView, stream: str) -> Response:
    """One page. ``fields`` and ``view`` cut what is shown; what counts as changed is all that the
    grant shows. Every page has a bookmark, with which the next one, or the next session, begins."""
    query = view.query
    _check_combination(view)
    visible = view.gate.stream(stream, connection_id=query.connection_id())
    fields = records.selected(visible, fields=query.names("fields"), view=query.text("view"))
    limit = query.bounded("limit", default=limits.PAGE_DEFAULT, most=limits.PAGE_MAX)
    bounds = budget.asked(query)
    try:
        page = changes.page(visible, _standing(view, visible), limit=limit, now=timezone.now())
    except CursorExpired as refusal:
        restart = query.link(changes_since=BEGINNING)
        refusal.param = "changes_since"
        refusal.extra["next_step"] = f"Read everything anew: GET {restart}"
        raise
    rows = [_row(visible, each, fields) for each in page.told]
    cursor = cursors.length("changes", query=_query(view, visible), place=_longest(visible, page))
    shown = budget.fitted(rows, bounds, budget.frame(query, cursor=cursor), more=True)
    sealed = _sealed(view, visible, page.standing_after(len(shown)))
    has_more = page.has_more or len(shown) < len(page.told)
    body = {
        "object": "list",
        "url": f"/v1/streams/{stream}/records",
        "has_more": has_more,
        "next_changes_since": sealed,
        "data": shown,
    }
    return Response(
        envelopes.finished(
            body,
            self_link=query.path,
            next_link=query.link(changes_since=sealed) if has_more else None,
            warnings=query.warnings,
        )
    )


def _check_combination(view: GrantedView) -> None:
    for name in ("expand", "expand_limit"):
        if view.query.has(name):
            raise InvalidExpand(
                message="The changes feed does not expand relations.",
                param=name,
                next_step="Read the related stream with a changes feed of its own.",
            )
    for name in REFUSED:
        if view.query.has(name):
            raise InvalidRequest(message=f"{name} does not go with changes_since.", param=name)


def _row(
    visible: VisibleRecords, told: changes.Told, fields: frozenset[str] | None
) -> dict[str, Any]:
    if isinstance(told, VisibleRecord):
        return envelopes.record(visible, told, records.projected(told, fields))
    return envelopes.tombstone(visible, told)


def _standing(view: GrantedView, visible: VisibleRecords) -> changes.Standing:
    text = view.query.text("changes_since") or ""
    if text == BEGINNING:
        return changes.beginning(visible)
    place = cursors.unseal(
        text, "changes", scope=view.scope, query=_query(view, visible), param="changes_since"
    )
    reaches = recalled(
        place["v"],
        owner_id=view.scope.owner_id,
        connection_ids=[facts.connection_id for facts in visible.connections],
    )
    return changes.Standing(
        reaches=reaches,
        times=place["m"],
        since_at=_moment(place["s"]),
        until_at=_moment(place["u"]),
        after=Place(*place["a"]) if place["a"] else None,
    )


def _sealed(view: GrantedView, visible: VisibleRecords, standing: changes.Standing) -> str:
    text = bookmark(standing.reaches, owner_id=view.scope.owner_id, now=timezone.now())
    place = _place(standing, text)
    return cursors.seal("changes", scope=view.scope, query=_query(view, visible), place=place)


def _place(standing: changes.Standing, text: str) -> dict[str, Any]:
    after = standing.after
    return {
        "v": text,
        "m": standing.times,
        "s": _seconds(standing.since_at),
        "u": _seconds(standing.until_at),
        "a": [after.connection_id, after.record_key] if after else None,
    }


def _longest(visible: VisibleRecords, page: changes.ChangesPage) -> dict[str, Any]:
    """The place whose bookmark would be the longest of all on the page."""
    text = "v" * bookmarks.length(len(visible.connections))
    ends = [[told.connection.connection_id, told.record_key] for told in page.told]
    longest = max(ends, key=lambda end: len("".join(end)), default=None)
    return _place(page.standing, text) | {"a": longest}


def _query(view: GrantedView, visible: VisibleRecords) -> dict[str, Any]:
    """What a bookmark is bound to."""
    return {
        "stream": [visible.source.connector_key, visible.stream.name],
        "connection_id": view.query.connection_id(),
    }


def _moment(seconds: int) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if seconds else None


def _seconds(moment: datetime | None) -> int:
    return int(moment.timestamp()) if moment else 0
