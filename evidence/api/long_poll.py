"""Long polling, API side: decide whether a changes request may wait, and for what.

A server that can keep a request waiting passes a LongPoll in the WSGI environment, which no HTTP client
can. A view with no changes stores a condition there. The server discards the response, and calls the
view again when the condition is met.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from evidence.api.base_views import GrantedView
from evidence.api.query_parameters import ApiWarning
from evidence.reading.changes import ChangesPage, FeedBookmark

ENVIRON_KEY = "pdpp.held"


@dataclass(frozen=True, slots=True)
class WaitCondition:
    """When to call a waiting view again.

    The wait ends when a latest change number differs from `seen` (connection id -> number), when the
    grants of the token change, or after `seconds` since the first call. A token waits once at a time.
    """

    token_id: str
    seconds: int
    seen: Mapping[str, int]
    grants: frozenset[str]


@dataclass(slots=True)
class LongPoll:
    """State of a waiting request. `open`: the view may be called again. `full`: no place to wait."""

    open: bool
    full: bool = False
    condition: WaitCondition | None = None


def must_wait(
    view: GrantedView, began: FeedBookmark, page: ChangesPage, *, seconds: int | None
) -> bool:
    """Return whether the request waits because the page has no changes; then set the condition.

    The last page of an unfinished reading is sent at once: it has a new bookmark.
    """
    if seconds is None or page.items or page.has_more or began.until_at is not None:
        return False
    long_poll = view.request._request.META.get(ENVIRON_KEY)  # noqa: SLF001 - DRF's own name
    if isinstance(long_poll, LongPoll) and long_poll.open:
        seen = {
            connection_id: reach.since or 0 for connection_id, reach in page.end.positions.items()
        }
        grants = frozenset(grant.grant_id for grant in view.scope.grants if grant.grant_id)
        long_poll.condition = WaitCondition(view.scope.token_id, seconds, seen, grants)
        view.discarded = True
        return True
    if not isinstance(long_poll, LongPoll) or long_poll.full:
        view.query.warnings.append(
            ApiWarning(
                "wait_not_held",
                f"This server has no free place to wait; try again in {seconds} seconds.",
                "wait",
            )
        )
    return False
