"""``GET /v1/streams/{stream}/records?changes_since=…``: the changes feed (contract 3.3)."""

from typing import Any

from django.utils import timezone
from rest_framework.response import Response

from evidence import limits
from evidence.access.records import VisibleRecord, VisibleRecords
from evidence.api import envelopes, long_poll, size_budget
from evidence.api.base_views import GrantedView
from evidence.errors import CursorExpired, InvalidExpand, InvalidRequest
from evidence.reading import changes, records
from evidence.reading.bookmarks import BEGINNING, Followed
from evidence.reading.changes import ChangesPage, Standing

REFUSED = ("sort", "order", "count", "window", "cursor", "filter")
"""What orders or chooses rows: a feed has an order of its own, and of what a record said at the
bookmark only hashes are kept, so it cannot be told whether a filter chose it then."""


def answer(view: GrantedView, stream: str) -> Response:
    """One page. ``fields`` and ``view`` cut what is shown; what counts as changed is all that the
    grant shows. Every page has a bookmark, with which the next one, or the next session, begins.
    With ``wait`` it may take that long until there is something to tell."""
    query = view.query
    _check_combination(view)
    seconds = long_poll.asked(view)
    visible = view.gate.stream(stream, connection_id=query.connection_id())
    followed = Followed(view.scope, visible, query.connection_id())
    fields = records.selected(visible, fields=query.names("fields"), view=query.text("view"))
    bounds = size_budget.asked(query)
    standing, page = _read(view, followed)
    if long_poll.waits(view, standing, page, seconds=seconds):
        return Response({"object": "list", "data": []})
    rows = [_row(visible, each, fields) for each in page.told]
    frame = size_budget.frame(query, cursor=followed.longest(page.standing, told=page.told))
    shown = size_budget.fitted(rows, bounds, frame, more=True)
    sealed = followed.sealed(page.standing_after(len(shown)), now=timezone.now())
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


def _read(view: GrantedView, followed: Followed) -> tuple[Standing, ChangesPage]:
    """Where the client stood, and what there is since; says how to begin anew where that is gone."""
    query = view.query
    limit = query.bounded("limit", default=limits.PAGE_DEFAULT, most=limits.PAGE_MAX)
    try:
        standing = followed.opened(query.text("changes_since") or "")
        return standing, changes.page(followed.visible, standing, limit=limit, now=timezone.now())
    except CursorExpired as refusal:
        restart = query.link(changes_since=BEGINNING)
        refusal.param = "changes_since"
        refusal.extra["next_step"] = f"Read everything anew: GET {restart}"
        raise


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
