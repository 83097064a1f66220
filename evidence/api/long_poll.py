"""Reads that wait until there is something to tell, as far as the API has a part in it.

The server that called may be able to keep a request without a thread and a database connection; it
then leaves a ``Held`` in the WSGI environment, which nothing that comes over HTTP can. A view with
nothing to tell says in it what to wait for, and is called again later. Nothing that it answered in
between reaches anybody.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from evidence import limits
from evidence.api.base_views import GrantedView
from evidence.api.query_parameters import Notice
from evidence.errors import InvalidRequest
from evidence.reading.changes import ChangesPage, Standing

KEY = "pdpp.held"


@dataclass(frozen=True, slots=True)
class Wish:
    """Call again when the latest change of one of these connections is another than ``seen``, when
    the token reads through other ``grants``, or when so many seconds are over since the first call.
    One wish counts for a token."""

    token_id: str
    seconds: int
    seen: Mapping[str, int]
    grants: frozenset[str]


@dataclass(slots=True)
class Held:
    """``open`` while there may be another call; ``full`` where there is no room to wait at all."""

    open: bool
    full: bool = False
    wish: Wish | None = None


def asked(view: GrantedView) -> int | None:
    """The seconds of ``wait``; raises ``InvalidRequest`` where nothing can be waited for."""
    if not view.query.has("wait"):
        return None
    if not view.query.has("changes_since"):
        raise InvalidRequest(message="wait goes with changes_since.", param="wait")
    return view.query.bounded("wait", default=1, most=limits.WAIT_SECONDS)


def waits(view: GrantedView, began: Standing, page: ChangesPage, *, seconds: int | None) -> bool:
    """Whether this answer is only between: there is nothing to tell, and somebody keeps the request.

    A reading that was begun earlier and is at its end now has a new bookmark to give instead.
    """
    if seconds is None or page.told or page.has_more or began.until_at is not None:
        return False
    held = view.request._request.META.get(KEY)  # noqa: SLF001 - DRF's own name
    if isinstance(held, Held) and held.open:
        seen = {each: reach.since or 0 for each, reach in page.ended.reaches.items()}
        grants = frozenset(each.grant_id for each in view.scope.grants if each.grant_id)
        held.wish = Wish(view.scope.token_id, seconds, seen, grants)
        view.unspoken = True
        return True
    if not isinstance(held, Held) or held.full:
        view.query.warnings.append(
            Notice(
                "wait_not_held",
                f"This server cannot wait for you now; ask again in {seconds} seconds.",
                "wait",
            )
        )
    return False
