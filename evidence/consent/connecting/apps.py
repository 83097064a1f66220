"""The programs that hold something, as their owner sees them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

from evidence.access.describing import StreamInWords
from evidence.access.held import State, connection_labels, grants_with_state, state_of, terms_of
from evidence.consent.wording import when, worded
from evidence.events.looking import receivers_by_client
from evidence.ledger.looking import use_by_client
from evidence.models.grants import Grant

MONTH = timedelta(days=30)
STANDING = (State.ACTIVE, State.PAUSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldGrant:
    """One grant in words."""

    grant_id: str
    source: str
    state: State
    sentences: list[StreamInWords]
    purpose: str
    given: str
    ends: str

    @property
    def is_standing(self) -> bool:
        return self.state in STANDING


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """One client with all that it holds. ``calls`` are those of the last 30 days, ``receivers`` the
    hosts that are told of changes for it."""

    client_id: str
    name: str
    state: State
    grants: list[HeldGrant]
    last_used: str
    calls: int
    receivers: list[str]

    @property
    def is_standing(self) -> bool:
        return self.state in STANDING

    @property
    def is_paused(self) -> bool:
        return self.state == State.PAUSED

    @property
    def has_pause(self) -> bool:
        """Whether any of its grants is paused, as one may be by itself."""
        return any(grant.state == State.PAUSED for grant in self.grants)


def connected(owner_id: str, *, now: datetime) -> list[App]:
    """Every client that was ever given something, those that can read first; some six queries."""
    rows = (
        grants_with_state(now)
        .filter(package__owner_id=owner_id)
        .order_by("package__client__display_name", "package__client_id", "-issued_at", "grant_id")
    )
    labels = connection_labels(owner_id)
    used = use_by_client(since=now - MONTH)
    receivers = receivers_by_client(owner_id)
    apps = [
        _app(
            client_id,
            list(group),
            labels=labels,
            used=used,
            receivers=receivers.get(client_id, []),
            now=now,
        )
        for client_id, group in groupby(rows, key=lambda grant: grant.package.client_id)
    ]
    return sorted(apps, key=lambda app: not app.is_standing)


def held(grant: Grant, *, labels: Mapping[str, str]) -> HeldGrant:
    """A row of ``grants_with_state`` in words."""
    return HeldGrant(
        grant_id=grant.pk,
        source=grant.source.display_name,
        state=state_of(grant),
        sentences=[
            worded(terms, stream=stream, labels=labels) for terms, stream in terms_of(grant)
        ],
        purpose=grant.purpose_description,
        given=when(grant.issued_at),
        ends=when(grant.expires_at, never="when you end it"),
    )


def ago(moment: datetime, *, now: datetime) -> str:
    """``just now``, ``5 minutes ago``, ``yesterday``, a date."""
    seconds = max(0, int((now - moment).total_seconds()))
    for size, name in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= size:
            count = seconds // size
            if name == "day" and count > 6:
                return f"on {when(moment)}"
            return f"{count} {name}{'' if count == 1 else 's'} ago"
    return "just now"


def _app(
    client_id: str,
    grants: list[Grant],
    *,
    labels: Mapping[str, str],
    used: Mapping[str, tuple[datetime, int]],
    receivers: list[str],
    now: datetime,
) -> App:
    last_at, calls = used.get(client_id, (None, 0))
    shown = [held(grant, labels=labels) for grant in grants if state_of(grant) != State.SUPERSEDED]
    return App(
        client_id=client_id,
        name=grants[0].package.client.display_name,
        state=_state({each.state for each in shown}),
        grants=sorted(shown, key=lambda each: not each.is_standing),
        last_used="never" if last_at is None else ago(last_at, now=now),
        calls=calls,
        receivers=receivers,
    )


def _state(states: Iterable[State]) -> State:
    """The liveliest of them."""
    order = (State.ACTIVE, State.PAUSED, State.CONSUMED, State.EXPIRED, State.REVOKED)
    return min(states, key=order.index, default=State.REVOKED)
