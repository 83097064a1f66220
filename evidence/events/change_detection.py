"""Detect changes that a subscription's grant shows, by reading its changes feed.

The feed is read under the current grant, so hidden fields, hidden records and reverted changes
create no event.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from evidence import limits
from evidence.access.change_log import FeedPosition, latest_change_numbers
from evidence.access.crypto import new_id
from evidence.access.gate import Gate
from evidence.access.grant_states import has_paused_grant
from evidence.access.records import VisibleRecords
from evidence.errors import ApiException, CursorExpired
from evidence.models.events import Event, Subscription, WatchedStream
from evidence.read import changes
from evidence.read.bookmarks import FollowedStream
from evidence.read.changes import ChangesPage, FeedBookmark


def watch_streams(subscription: Subscription, gate: Gate, *, now: datetime) -> None:
    """Watch each requested stream of each connection that the grant shows, from now on."""
    pairs = list(_streams_by_connection(gate, subscription.streams))
    latest = latest_change_numbers([connection_id for _, connection_id in pairs])
    WatchedStream.unscoped.bulk_create(
        WatchedStream(
            subscription=subscription,
            stream=visible.stream.name,
            connection_id=connection_id,
            standing=FollowedStream(gate.scope, visible, connection_id).to_json(
                changes.from_now(visible, {connection_id: latest[connection_id]}, now=now), now=now
            ),
            seen_seq=latest[connection_id],
        )
        for visible, connection_id in pairs
    )


def _streams_by_connection(gate: Gate, streams: list[str]) -> Iterator[tuple[VisibleRecords, str]]:
    for visible in gate.streams():
        if not streams or visible.stream.name in streams:
            for connection in visible.connections:
                yield visible.for_connection(connection.connection_id), connection.connection_id


def followed_stream(gate: Gate, *, stream: str, connection_id: str) -> FollowedStream | None:
    """Return the stream of a connection as the grant shows it now, or None if it shows nothing."""
    try:
        visible = gate.stream(stream, connection_id=connection_id)
    except ApiException:
        return None
    return FollowedStream(gate.scope, visible, connection_id)


def create_change_event(
    watched: WatchedStream, gate: Gate, *, head: int, now: datetime
) -> Event | None:
    """Create an event if changes have become visible, and move the watch past them.

    `head` is a change number of the connection that was the latest before this call.
    """
    following = followed_stream(gate, stream=watched.stream, connection_id=watched.connection_id)
    if following is None and has_paused_grant(str(gate.scope.package_id), now=now):
        return None  # checked again until the owner resumes the grant
    watched.seen_seq = head
    event = None
    if following is not None:
        try:
            page = read_changes(following, following.from_json(watched.standing), now=now)
        except CursorExpired:
            page = None
        event = _create_event(watched, following, page, now=now)
        position = (
            page.end
            if page is not None
            else changes.from_now(following.visible, {watched.connection_id: head}, now=now)
        )
        watched.standing = following.to_json(position, now=now)
    watched.save()
    return event


def read_changes(
    following: FollowedStream, position: FeedBookmark, *, now: datetime
) -> ChangesPage:
    """Return one page of the feed after a position. Raises CursorExpired."""
    return changes.page(following.visible, position, limit=limits.PAGE_MAX, now=now)


def without_end(position: FeedBookmark) -> FeedBookmark:
    """Return the position without its end, so that reading from it includes later changes."""
    reaches = {
        connection_id: FeedPosition(reach.since, reach.known)
        for connection_id, reach in position.positions.items()
    }
    return replace(position, positions=reaches, until_at=None, after=None)


def _create_event(
    watched: WatchedStream, following: FollowedStream, page: ChangesPage | None, *, now: datetime
) -> Event | None:
    """Create an event for a page with changes, or for None: the history was not kept that long."""
    if page is not None and not page.items:
        return None
    return Event.unscoped.create(
        event_id=new_id("evt_"),
        subscription_id=watched.subscription_id,
        type=Event.Type.CHANGED,
        stream=watched.stream,
        connection_id=watched.connection_id,
        place=None if page is None else following.to_json(page.bookmark, now=now),
        created_at=now,
        due_at=now,
    )
