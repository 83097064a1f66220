"""The life of a subscription: made, verified, switched off and on, given another secret, deleted.

A client sees and changes what was made under its own package, and nothing else.
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
from evidence.access.grants import hold_packages
from evidence.access.scope import Scope
from evidence.errors import Code, InvalidRequest, NotFound, Refusal, ResourceLimit
from evidence.events.callback_url import accepted
from evidence.events.change_detection import watch
from evidence.events.signing_secrets import new_secret, sealed
from evidence.models.events import Event, Subscription

Status = Subscription.Status
CLIENTS_CHOICE = "client_request"


class NoAuthority(Refusal):
    """Events follow a client's grant; this token has none."""

    code = Code.GRANT_INVALID


class InvalidState(Refusal):
    """The subscription is not in a state for that."""

    code = Code.INVALID_STATE


@dataclass(frozen=True, slots=True)
class Changed:
    """A subscription, and the secret where it was given a new one."""

    subscription: Subscription
    secret: str | None = None


def subscribe(
    gate: Gate, *, callback_url: object, streams: Sequence[str] | None, now: datetime
) -> Changed:
    """A new subscription and the event that its receiver has to answer first.

    Raises ``NoAuthority``, ``InvalidRequest`` and ``ResourceLimit``.
    """
    package_id = _package(gate.scope)
    wanted = _wanted(gate, streams)
    url = accepted(callback_url)
    secret, subscription_id = new_secret(), new_id("sub_")
    with transaction.atomic():
        _require_room(package_id)
        subscription = Subscription.unscoped.create(
            subscription_id=subscription_id,
            package_id=package_id,
            callback_url=url,
            streams=wanted,
            secret=sealed(secret, subscription_id=subscription_id),
            created_at=now,
            updated_at=now,
        )
        watch(subscription, gate, now=now)
        _ask_to_verify(subscription, now=now)
    return Changed(subscription, secret)


def subscriptions(scope: Scope) -> list[Subscription]:
    """Those of the caller, oldest first."""
    rows = Subscription.unscoped.filter(package_id=_package(scope))
    return list(rows.order_by("created_at", "subscription_id"))


def found(scope: Scope, subscription_id: str) -> Subscription:
    """One of them. Raises ``NotFound``, for another's just as for none."""
    rows = Subscription.unscoped.filter(package_id=_package(scope))
    # No id has a NUL character, and no column can be compared with one.
    row = rows.filter(subscription_id=subscription_id.replace("\0", " ")).first()
    if row is None:
        raise NotFound(message="No such subscription.")
    return row


@transaction.atomic
def change(
    scope: Scope,
    subscription_id: str,
    *,
    enabled: bool | None,
    rotate_secret: bool,
    now: datetime,
) -> Changed:
    """Switch it off or on, or give it another secret. On again it has to be verified again.

    Raises ``NotFound`` and ``InvalidState``.
    """
    subscription = _held(scope, subscription_id)
    secret = new_secret() if rotate_secret else None
    if enabled is not None:
        _switch(subscription, on=enabled, now=now)
    if secret is not None:
        subscription.old_secret = subscription.secret
        subscription.old_secret_until = now + timedelta(seconds=limits.EVENT_SECRET_OVERLAP)
        subscription.secret = sealed(secret, subscription_id=subscription_id)
    subscription.updated_at = now
    subscription.save()
    return Changed(subscription, secret)


@transaction.atomic
def unsubscribe(scope: Scope, subscription_id: str) -> None:
    """Takes it away with everything that is on its way. Raises ``NotFound``."""
    _held(scope, subscription_id).delete()


@transaction.atomic
def send_test(scope: Scope, subscription_id: str, *, now: datetime) -> str:
    """The id of the test event that is on its way. Raises ``NotFound`` and ``InvalidState``."""
    subscription = _held(scope, subscription_id)
    if subscription.status not in {Status.ACTIVE, Status.PENDING}:
        raise InvalidState(
            message=f"The subscription is {subscription.status}; it sends nothing.",
            next_step="Switch it on with PATCH {enabled: true}.",
        )
    waiting = _on_its_way(subscription, Event.Type.TEST).first()
    return (waiting or _queue(subscription, Event.Type.TEST, now=now)).event_id


def _held(scope: Scope, subscription_id: str) -> Subscription:
    row = found(scope, subscription_id)
    return Subscription.unscoped.select_for_update().get(pk=row.pk)


def _switch(subscription: Subscription, *, on: bool, now: datetime) -> None:
    live = subscription.status in {Status.ACTIVE, Status.PENDING}
    if subscription.status == Status.REVOKED:
        raise InvalidState(message="The grant has ended, and the subscription with it.")
    if on and not live:
        subscription.status, subscription.disabled_reason = Status.PENDING, None
        _ask_to_verify(subscription, now=now)
        # What was on its way when it was switched off begins its attempts anew.
        waiting = Event.unscoped.filter(subscription=subscription, status=Event.Status.QUEUED)
        waiting.update(attempts=0, due_at=now)
    if not on and live:
        subscription.status, subscription.disabled_reason = Status.DISABLED, CLIENTS_CHOICE


def _ask_to_verify(subscription: Subscription, *, now: datetime) -> None:
    _on_its_way(subscription, Event.Type.VERIFY).delete()
    challenge = secrets.token_urlsafe(32)
    _queue(subscription, Event.Type.VERIFY, now=now, challenge=challenge)


def _queue(
    subscription: Subscription, kind: Event.Type, *, now: datetime, challenge: str = ""
) -> Event:
    return Event.unscoped.create(
        event_id=new_id("evt_"),
        subscription=subscription,
        type=kind,
        challenge=challenge,
        created_at=now,
        due_at=now,
    )


def _on_its_way(subscription: Subscription, kind: Event.Type) -> QuerySet[Event]:
    """At most one; so whoever asks again and again fills no table."""
    return Event.unscoped.filter(subscription=subscription, type=kind, status=Event.Status.QUEUED)


def _package(scope: Scope) -> str:
    if scope.package_id is None:
        raise NoAuthority(next_step="Connect the program with a grant of its own.")
    return scope.package_id


def _wanted(gate: Gate, streams: Sequence[str] | None) -> list[str]:
    """The streams to hear of. Raises ``InvalidRequest`` for one that the grant does not show."""
    if streams is None:
        return []
    visible = granted(gate)
    for name in streams:
        if name not in visible:
            raise InvalidRequest(
                message=f"The grant shows no stream {name[:64]!r}.",
                param="filters.streams",
                next_step="GET /v1/schema lists the streams.",
            )
    return sorted(set(streams))


def granted(gate: Gate, *, among: Iterable[str] = ()) -> list[str]:
    """The names of the streams that the grant shows, ``among`` those wanted where any are named."""
    wanted = set(among)
    names = {visible.stream.name for visible in gate.streams()}
    return sorted(names & wanted if wanted else names)


def _require_room(package_id: str) -> None:
    hold_packages(pk=package_id)
    if (
        Subscription.unscoped.filter(package_id=package_id).count()
        >= limits.SUBSCRIPTIONS_PER_PACKAGE
    ):
        raise ResourceLimit(
            message=f"A client holds at most {limits.SUBSCRIPTIONS_PER_PACKAGE} subscriptions.",
            next_step="Delete one that is not needed.",
        )


def receivers_by_client(owner_id: str) -> Mapping[str, list[str]]:
    """client_id -> the hosts that its subscriptions tell now, in order; one query."""
    rows = Subscription.unscoped.filter(
        package__owner_id=owner_id, status=Subscription.Status.ACTIVE
    ).values_list("package__client_id", "callback_url")
    found: dict[str, set[str]] = {}
    for client_id, url in rows:
        found.setdefault(client_id, set()).add(urlsplit(url).netloc)
    return {client_id: sorted(hosts) for client_id, hosts in found.items()}
