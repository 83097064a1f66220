"""Create, verify, enable, disable and delete event subscriptions of one package.

A client sees and changes only the subscriptions of its own package.
"""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from django.db import transaction
from django.db.models import QuerySet

from evidence import limits
from evidence.access.crypto import new_id
from evidence.access.gate import Gate
from evidence.access.grants import lock_packages
from evidence.access.scope import Scope
from evidence.errors import ApiException, Code, InvalidRequest, NotFound, ResourceLimit
from evidence.events.messages import encrypt_secret, new_secret, watch_streams
from evidence.events.subscription_state import SENDING_STATES, queue_event
from evidence.events.webhook_client import validate_callback_url
from evidence.models.events import Event, Subscription

Status = Subscription.Status
DISABLED_BY_CLIENT = "client_request"


class NoAuthority(ApiException):
    """Event subscriptions need a grant; this token has none."""

    code = Code.GRANT_INVALID


class InvalidState(ApiException):
    """The status of the subscription does not allow this."""

    code = Code.INVALID_STATE


@dataclass(frozen=True, slots=True)
class SubscriptionResult:
    """A subscription, and its secret if the secret is new."""

    subscription: Subscription
    secret: str | None = None


def create_subscription(
    gate: Gate, *, callback_url: object, streams: Sequence[str] | None, now: datetime
) -> SubscriptionResult:
    """Create a subscription, and queue the verification that its receiver must answer.

    Raises NoAuthority, InvalidRequest and ResourceLimit.
    """
    package_id = _package(gate.scope)
    requested_streams = _validate_streams(gate, streams)
    url = validate_callback_url(callback_url)
    secret, subscription_id = new_secret(), new_id("sub_")
    with transaction.atomic():
        _check_subscription_limit(package_id)
        subscription = Subscription.unscoped.create(
            subscription_id=subscription_id,
            package_id=package_id,
            callback_url=url,
            streams=requested_streams,
            secret=encrypt_secret(secret, subscription_id=subscription_id),
            created_at=now,
            updated_at=now,
        )
        watch_streams(subscription, gate, now=now)
        _queue_verification(subscription, now=now)
    return SubscriptionResult(subscription, secret)


def list_subscriptions(scope: Scope) -> list[Subscription]:
    """Return the caller's subscriptions, oldest first."""
    rows = Subscription.unscoped.filter(package_id=_package(scope))
    return list(rows.order_by("created_at", "subscription_id"))


def get_subscription(scope: Scope, subscription_id: str) -> Subscription:
    """Return one of the caller's subscriptions. Raises NotFound."""
    rows = Subscription.unscoped.filter(package_id=_package(scope))
    # PostgreSQL refuses to compare text with a NUL character, and no id has one.
    row = rows.filter(subscription_id=subscription_id.replace("\0", " ")).first()
    if row is None:
        raise NotFound(message="No such subscription.")
    return row


@transaction.atomic
def update_subscription(
    scope: Scope,
    subscription_id: str,
    *,
    enabled: bool | None,
    rotate_secret: bool,
    now: datetime,
) -> SubscriptionResult:
    """Enable or disable a subscription, or replace its secret. Enabling verifies it again.

    Raises NotFound and InvalidState.
    """
    subscription = _lock(scope, subscription_id)
    secret = new_secret() if rotate_secret else None
    if enabled is not None:
        _set_enabled(subscription, enabled=enabled, now=now)
    if secret is not None:
        subscription.old_secret = subscription.secret
        subscription.old_secret_until = now + timedelta(seconds=limits.EVENT_SECRET_OVERLAP)
        subscription.secret = encrypt_secret(secret, subscription_id=subscription_id)
    subscription.updated_at = now
    subscription.save()
    return SubscriptionResult(subscription, secret)


@transaction.atomic
def delete_subscription(scope: Scope, subscription_id: str) -> None:
    """Delete a subscription with its events. Raises NotFound."""
    _lock(scope, subscription_id).delete()


@transaction.atomic
def queue_test_event(scope: Scope, subscription_id: str, *, now: datetime) -> str:
    """Queue a test event unless one is queued, and return its id.

    Raises NotFound and InvalidState.
    """
    subscription = _lock(scope, subscription_id)
    if subscription.status not in SENDING_STATES:
        raise InvalidState(
            message=f"The subscription is {subscription.status}, so it sends no events.",
            next_step="Enable it with PATCH {enabled: true}.",
        )
    queued = _queued(subscription, Event.Type.TEST).first()
    return (queued or queue_event(subscription_id, Event.Type.TEST, now=now)).event_id


def _lock(scope: Scope, subscription_id: str) -> Subscription:
    row = get_subscription(scope, subscription_id)
    return Subscription.unscoped.select_for_update().get(pk=row.pk)


def _set_enabled(subscription: Subscription, *, enabled: bool, now: datetime) -> None:
    is_enabled = subscription.status in SENDING_STATES
    if subscription.status == Status.REVOKED:
        raise InvalidState(message="The grant of this subscription has ended. Create a new one.")
    if enabled and not is_enabled:
        subscription.status, subscription.disabled_reason = Status.PENDING, None
        _queue_verification(subscription, now=now)
        # Queued events start their attempts again.
        queued = Event.unscoped.filter(subscription=subscription, status=Event.Status.QUEUED)
        queued.update(attempts=0, due_at=now)
    if not enabled and is_enabled:
        subscription.status = Status.DISABLED
        subscription.disabled_reason = DISABLED_BY_CLIENT


def _queue_verification(subscription: Subscription, *, now: datetime) -> None:
    _queued(subscription, Event.Type.VERIFY).delete()
    challenge = secrets.token_urlsafe(32)
    queue_event(subscription.pk, Event.Type.VERIFY, now=now, challenge=challenge)


def _queued(subscription: Subscription, event_type: Event.Type) -> QuerySet[Event]:
    """Return the queued event of a type, at most one, so repeated requests fill no table."""
    return Event.unscoped.filter(
        subscription=subscription, type=event_type, status=Event.Status.QUEUED
    )


def _package(scope: Scope) -> str:
    if scope.package_id is None:
        raise NoAuthority(next_step="Connect the app with its own grant.")
    return scope.package_id


def _validate_streams(gate: Gate, streams: Sequence[str] | None) -> list[str]:
    """Return the sorted names, empty for all. Raises InvalidRequest for a stream not granted."""
    if streams is None:
        return []
    visible = granted_streams(gate)
    for name in streams:
        if name not in visible:
            raise InvalidRequest(
                message=f"The grant shows no stream {name[:64]!r}.",
                param="filters.streams",
                next_step="GET /v1/schema lists the streams.",
            )
    return sorted(set(streams))


def granted_streams(gate: Gate, *, among: Iterable[str] = ()) -> list[str]:
    """Return the names of the streams that the grant shows, restricted to `among` unless empty."""
    requested = set(among)
    names = {visible.stream.name for visible in gate.streams()}
    return sorted(names & requested if requested else names)


def _check_subscription_limit(package_id: str) -> None:
    lock_packages(pk=package_id)
    count = Subscription.unscoped.filter(package_id=package_id).count()
    if count >= limits.SUBSCRIPTIONS_PER_PACKAGE:
        raise ResourceLimit(
            message=f"A client can have at most {limits.SUBSCRIPTIONS_PER_PACKAGE} subscriptions.",
            next_step="Delete one that is not needed.",
        )


def receiver_hosts_by_client(owner_id: str) -> Mapping[str, list[str]]:
    """Return the sorted receiver hosts of each client's active subscriptions, in one query."""
    rows = Subscription.unscoped.filter(
        package__owner_id=owner_id, status=Subscription.Status.ACTIVE
    ).values_list("package__client_id", "callback_url")
    hosts: dict[str, set[str]] = {}
    for client_id, url in rows:
        hosts.setdefault(client_id, set()).add(urlsplit(url).netloc)
    return {client_id: sorted(client_hosts) for client_id, client_hosts in hosts.items()}
