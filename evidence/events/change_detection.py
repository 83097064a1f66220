"""What a subscription watches, and whether there is something to tell of it.

What counts is what the changes feed would tell under the same grant: whatever nobody could read
there wakes nobody here, be it hidden fields, other records or what was taken back again.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from evidence import limits
from evidence.access.change_log import latest_changes
from evidence.access.crypto import new_id
from evidence.access.gate import Gate
from evidence.access.grant_states import is_partly_paused
from evidence.access.record_history import Reach
from evidence.access.records import VisibleRecords
from evidence.errors import CursorExpired, Refusal
from evidence.models.events import Event, Subscription, WatchedStream
from evidence.reading import changes
from evidence.reading.bookmarks import Followed
from evidence.reading.changes import ChangesPage, Standing


def watch(subscription: Subscription, gate: Gate, *, now: datetime) -> None:
    """From now on, each stream of each connection that the grant shows and the client wants."""
    pairs = list(_pairs(gate, subscription.streams))
    seen = latest_changes([connection_id for _, connection_id in pairs])
    WatchedStream.unscoped.bulk_create(
        WatchedStream(
            subscription=subscription,
            stream=visible.stream.name,
            connection_id=connection_id,
            standing=Followed(gate.scope, visible, connection_id).kept(
                changes.from_now(visible, {connection_id: seen[connection_id]}, now=now), now=now
            ),
            seen_seq=seen[connection_id],
        )
        for visible, connection_id in pairs
    )


def _pairs(gate: Gate, streams: list[str]) -> Iterator[tuple[VisibleRecords, str]]:
    for visible in gate.streams():
        if not streams or visible.stream.name in streams:
            for facts in visible.connections:
                yield visible.narrowed_to(facts.connection_id), facts.connection_id


def followed(gate: Gate, *, stream: str, connection_id: str) -> Followed | None:
    """The stream as far as the grant shows it now; None where that is nothing."""
    try:
        visible = gate.stream(stream, connection_id=connection_id)
    except Refusal:
        return None
    return Followed(gate.scope, visible, connection_id)


def notice(watched: WatchedStream, gate: Gate, *, head: int, now: datetime) -> Event | None:
    """The event for what has become visible since, if anything has; the watch then stands after it.

    ``head`` is a number of changes of the connection that was the latest before this was called.
    """
    following = followed(gate, stream=watched.stream, connection_id=watched.connection_id)
    if following is None and is_partly_paused(str(gate.scope.package_id), now=now):
        return None  # it is looked at again until the owner resumes the grant
    watched.seen_seq = head
    event = None
    if following is not None:
        try:
            page = told(following, following.recalled(watched.standing), now=now)
        except CursorExpired:
            page = None
        event = _event(watched, following, page, now=now)
        standing = (
            page.ended
            if page is not None
            else changes.from_now(following.visible, {watched.connection_id: head}, now=now)
        )
        watched.standing = following.kept(standing, now=now)
    watched.save()
    return event


def told(following: Followed, standing: Standing, *, now: datetime) -> ChangesPage:
    """What the feed would tell, a page of it at most. Raises ``CursorExpired``."""
    return changes.page(following.visible, standing, limit=limits.PAGE_MAX, now=now)


def afresh(standing: Standing) -> Standing:
    """The same beginning without an end: reading from there on finds what came later as well."""
    reaches = {
        connection_id: Reach(reach.since, reach.known)
        for connection_id, reach in standing.reaches.items()
    }
    return replace(standing, reaches=reaches, until_at=None, after=None)


def _event(
    watched: WatchedStream, following: Followed, page: ChangesPage | None, *, now: datetime
) -> Event | None:
    """Without a page the history is not kept so far back, and everything has to be read anew."""
    if page is not None and not page.told:
        return None
    return Event.unscoped.create(
        event_id=new_id("evt_"),
        subscription_id=watched.subscription_id,
        type=Event.Type.CHANGED,
        stream=watched.stream,
        connection_id=watched.connection_id,
        place=None if page is None else following.kept(page.standing, now=now),
        created_at=now,
        due_at=now,
    )
