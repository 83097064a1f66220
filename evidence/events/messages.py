"""Detect the changes that a subscription's grant shows, and build and sign the message of one delivery attempt.

Changes come from the changes feed under the current grant, so hidden fields and hidden records create no
event. A message is a CloudEvents envelope without any record.

Each attempt builds its message from what the grant shows now, so a revoked, paused or narrowed grant
applies to the next attempt, and reverted changes are not reported. The ledger entry is written before
sending. Signing secrets are encrypted and bound to their subscription: a copy of the database cannot
sign, and a secret moved to another subscription cannot be decrypted.
"""

import base64
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from cryptography.exceptions import InvalidTag
from django.db import transaction
from standardwebhooks import Webhook

from evidence import limits
from evidence.access import crypto
from evidence.access.change_log import FeedPosition, latest_change_numbers
from evidence.access.gate import Gate
from evidence.access.grant_states import has_paused_grant
from evidence.access.records import VisibleRecords
from evidence.access.scope import Scope
from evidence.access.tokens import package_scope
from evidence.errors import (
    ApiException,
    CursorExpired,
    GrantExpired,
    GrantPaused,
    GrantRevoked,
    RateLimitExceeded,
)
from evidence.events.subscription_state import (
    EVENT_TYPES_BY_STATUS,
    SENDING_STATES,
    Status,
    end_subscription,
    lock_event,
    queue_event,
    requeue,
    set_status,
)
from evidence.ledger.entries import DisclosedAnswer, DisclosedItem, record_disclosure
from evidence.models.events import Event, Subscription, WatchedStream
from evidence.read import changes
from evidence.read.changes import BEGINNING, ChangesPage, FeedBookmark, FollowedStream
from evidence.write.sealed_values import reencrypt_rows


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
    return queue_event(
        watched.subscription_id,
        Event.Type.CHANGED,
        now=now,
        stream=watched.stream,
        connection_id=watched.connection_id,
        place=None if page is None else following.to_json(page.bookmark, now=now),
    )


CONTENT_TYPE = "application/cloudevents+json; charset=utf-8"
SPEC_VERSION = "1.0"
PDPP_VERSION = "1"


@dataclass(frozen=True, slots=True)
class Message:
    """The HTTP request of one delivery attempt."""

    url: str
    headers: Mapping[str, str]
    body: bytes


def build_envelope(event: Event, data: Mapping[str, Any]) -> bytes:
    """Return the envelope of an event in structured JSON mode."""
    subscription_id = event.subscription_id
    envelope = {
        "specversion": SPEC_VERSION,
        "pdppversion": PDPP_VERSION,
        "id": event.event_id,
        "type": event.type,
        "source": f"/v1/event-subscriptions/{subscription_id}",
        "time": event.created_at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "datacontenttype": "application/json",
        "data": {"subscription_id": subscription_id, **data},
    }
    return orjson.dumps(envelope)


def sign_message(
    content: bytes, *, url: str, event_id: str, secrets: Sequence[str], now: datetime
) -> Message:
    """Sign an envelope with each secret: during a rotation, receivers may have either."""
    signatures = [
        Webhook(secret).sign(msg_id=event_id, timestamp=now, data=content.decode())
        for secret in secrets
    ]
    headers = {
        "content-type": CONTENT_TYPE,
        "accept": "application/json",
        "accept-encoding": "identity",
        "user-agent": "pdpp",
        "webhook-id": event_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": " ".join(signatures),
    }
    return Message(url, headers, content)


SECRET_PREFIX = "whsec_"  # noqa: S105 - of every secret
SECRET_BYTES = 32
SECRET_PURPOSE = "webhook-secret"  # noqa: S105 - names the key


def new_secret() -> str:
    """Return `whsec_` and 32 random bytes in base64 (Standard Webhooks)."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def encrypt_secret(secret: str, *, subscription_id: str) -> bytes:
    """Encrypt a secret with the server's key."""
    return crypto.encrypt(secret.encode(), purpose=SECRET_PURPOSE, bound_to=subscription_id)


def decrypt_secret(encrypted: bytes, *, subscription_id: str) -> str:
    """Decrypt a secret. Raises InvalidTag for another key or another subscription."""
    return crypto.decrypt(encrypted, purpose=SECRET_PURPOSE, bound_to=subscription_id).decode()


def reencrypt_secrets() -> int:
    """Encrypt all secrets with the current key, and return the number of subscriptions changed."""
    rows = Subscription.unscoped.all()
    return reencrypt_rows(rows, "secret", "old_secret", purpose=SECRET_PURPOSE)


PAUSED_RETRY_DELAY = timedelta(seconds=30)
"""Maximum delay of a paused grant's events after the grant is resumed."""

Data = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DeliveryAttempt:
    """The message of one attempt. `number` counts the failed attempts before it."""

    number: int
    message: Message


@transaction.atomic
def prepare_attempt(event_id: str, *, now: datetime) -> DeliveryAttempt | None:
    """Return the message to send, or None if the event must wait or has been settled."""
    locked = lock_event(event_id)
    if locked is None:
        return None
    event, subscription = locked
    if event.status != Event.Status.QUEUED or event.due_at > now:
        return None
    if event.type not in EVENT_TYPES_BY_STATUS.get(subscription.status, ()):
        return None
    try:
        return _build_attempt(event, subscription, now=now)
    except InvalidTag:
        # The server's key is not the one that encrypted the signing secret.
        if subscription.status in SENDING_STATES:
            set_status(subscription, Status.FAILED, reason="secret_unreadable", now=now)
        event.status, event.settled_at = Event.Status.FAILED, now
        event.save()
        return None


def _build_attempt(
    event: Event, subscription: Subscription, *, now: datetime
) -> DeliveryAttempt | None:
    """Build the message if the grant is active; requeue the event or end the subscription if not."""
    if event.type == Event.Type.REVOKED:
        return _sign(event, subscription, {"reason": subscription.disabled_reason}, now=now)
    try:
        scope = package_scope(subscription.package_id, on_behalf_of=subscription.pk, now=now)
    except GrantPaused:
        requeue(event, until=now + PAUSED_RETRY_DELAY)
        return None
    except (GrantRevoked, GrantExpired) as error:
        end_subscription(subscription, reason=str(error.code), now=now)
        return None
    if event.type == Event.Type.CHANGED:
        return _build_changes(event, subscription, scope, now=now)
    data = {"challenge": event.challenge} if event.type == Event.Type.VERIFY else {}
    return _sign(event, subscription, data, now=now)


def _build_changes(
    event: Event, subscription: Subscription, scope: Scope, *, now: datetime
) -> DeliveryAttempt | None:
    """Build the message of a change event and record it in the ledger.

    Drops the event if the grant no longer shows its changes. Requeues it if the limits of the grant
    are used up, or if a paused grant of the package may show the changes.
    """
    gate = Gate(scope)
    following = followed_stream(gate, stream=event.stream, connection_id=event.connection_id)
    if following is None and has_paused_grant(subscription.package_id, now=now):
        requeue(event, until=now + PAUSED_RETRY_DELAY)
        return None
    data = None if following is None else _change_data(event, following, now=now)
    if data is None:
        event.status, event.settled_at = Event.Status.DROPPED, now
        event.save()
        return None
    attempt = _sign(event, subscription, data, now=now)
    answer = DisclosedAnswer(
        route="event records changed",
        request_id=event.event_id,
        items=[DisclosedItem(event.connection_id, event.stream, None, frozenset())],
        size_bytes=len(attempt.message.body),
    )
    try:
        record_disclosure(scope, answer, now=now)
    except RateLimitExceeded as error:
        requeue(event, until=now + timedelta(seconds=int(str(error.extra["retry_after"]))))
        return None
    return attempt


def _change_data(event: Event, following: FollowedStream, *, now: datetime) -> Data | None:
    """Return where to read the changes and about how many there are, or None if there are none."""
    target = {"stream": event.stream, "connection_id": event.connection_id}
    from_beginning = target | {"changes_since": BEGINNING}
    if event.place is None:
        return from_beginning
    try:
        position = following.from_json(event.place)
        page = read_changes(following, position, now=now)
    except CursorExpired:
        return from_beginning
    if not page.items:
        return None
    return target | {
        "change_count_hint": len(page.items),
        "changes_since": following.encode(without_end(position), now=now),
    }


def _sign(
    event: Event, subscription: Subscription, data: Data, *, now: datetime
) -> DeliveryAttempt:
    encrypted = [bytes(subscription.secret)]
    if subscription.old_secret is not None and (subscription.old_secret_until or now) > now:
        encrypted.append(bytes(subscription.old_secret))
    message = sign_message(
        build_envelope(event, data),
        url=subscription.callback_url,
        event_id=event.event_id,
        secrets=[decrypt_secret(secret, subscription_id=subscription.pk) for secret in encrypted],
        now=now,
    )
    return DeliveryAttempt(event.attempts, message)
