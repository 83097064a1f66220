"""The owner widens a grant for good, or extends it for an hour or a single use."""

import copy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from evidence.access import grant_lifecycle
from evidence.access.grant_lifecycle import delete_access, extend_grant, narrow_grant, widen_grant
from evidence.access.grant_states import (
    GrantState,
    active_grants,
    state_of,
    with_grant_state,
    with_token_state,
)
from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import (
    GrantRequest,
    pause_client,
    resume_client,
    revoke_client,
    revoke_grant,
)
from evidence.access.owner_notices import ReadShare, pause_by_tripwire
from evidence.access.quotas import get_tripwire_share, set_quotas, set_tripwire_share
from evidence.access.scope import TokenKind
from evidence.access.tokens import authenticate, create_token
from evidence.errors import ApiException, GrantRevoked
from evidence.models.grants import AccessToken, Grant
from tests.world import MAIL, PERSONAL, WORK, World

MESSAGES = "/v1/streams/messages/records"
THREADS = "/v1/streams/threads/records"
SINCE = datetime(2026, 1, 1, tzinfo=UTC)
SUBJECT = ("id", "subject", "received_at")


@dataclass
class Case:
    """Nina may read the subjects of one mailbox since 2026."""

    world: World
    grant_id: str

    def widen(self, stream: str, fields: list[str] | None) -> Grant:
        return widen_grant(self.grant_id, stream, fields, now=timezone.now())

    def extend(
        self, stream: str, fields: list[str] | None, *, once: bool = False, late: int = 0
    ) -> Grant:
        """Extend the grant as if ``late`` minutes ago."""
        now = timezone.now() - timedelta(minutes=late)
        return extend_grant(self.grant_id, stream, fields, single_use=once, now=now)

    def first(self, **query: Any) -> dict[str, Any]:
        data: dict[str, Any] = self.world.get(MESSAGES, "nina", **query).body["data"][-1]["data"]
        return data

    def status(self, path: str = MESSAGES, **query: Any) -> int:
        return self.world.get(path, "nina", **query).status


@pytest.fixture
def nina(world: World) -> Case:
    request = GrantRequest(
        connection_ids=[PERSONAL],
        streams=[StreamRequest(name="messages", fields=SUBJECT, since=SINCE)],
        purpose_description="For the tax return",
    )
    world.grant("nina", request)
    return Case(world, world.grants["nina"][0].pk)


def test_widened_grant_shows_the_asked_field_and_nothing_else(nina: Case) -> None:
    assert nina.status(fields="body_text") == 403
    before = nina.world.get(MESSAGES, "nina").ids

    successor = nina.widen("messages", ["body_text"])

    assert set(nina.first()) == {*SUBJECT, "body_text"}
    assert nina.world.get(MESSAGES, "nina").ids == before, "the time range stays"
    assert nina.status(filter__body_text__contains="lease") == 200
    assert nina.status(fields="from_name") == 403
    assert nina.status(connection_id=WORK) == 404
    assert nina.status(THREADS) == 403
    old = Grant.unscoped.get(pk=nina.grant_id)
    assert (old.superseded_by, old.purpose_description) == (successor, "For the tax return")
    assert successor.purpose_description == "For the tax return"


def test_new_stream_has_the_connections_and_the_time_range_of_the_grant(world: World) -> None:
    request = GrantRequest(
        connection_ids=[PERSONAL], streams=[StreamRequest(name="threads", fields=["id", "topic"])]
    )
    world.grant("nina", request)
    nina = Case(world, world.grants["nina"][0].pk)

    nina.widen("messages", None)

    assert "m0" in world.get(MESSAGES, "nina").ids, "threads have no time, so there is no range"
    assert nina.status(connection_id=WORK) == 404


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ([("2026-01-01", None)], ["2026-01-01T00:00:00+00:00", None]),
        ([("2026-01-01", None), ("2026-02-01", "2026-03-01")],
         ["2026-02-01T00:00:00+00:00", "2026-03-01T00:00:00+00:00"]),
        ([("2026-01-01", None), (None, None)], None),
        ([], None),
    ],
)  # fmt: skip
def test_common_time_range(ranges: list[Any], expected: list[str] | None, world: World) -> None:
    times = [
        tuple(None if d is None else datetime.fromisoformat(f"{d}T00:00Z") for d in r)
        for r in ranges
    ]
    connections = [PERSONAL, WORK]
    streams = [
        StreamRequest(name="messages", connection_ids=[connections[n]], since=since, until=until)
        for n, (since, until) in enumerate(times)
    ] or [StreamRequest(name="threads")]
    if len(streams) == 1 and streams[0].name == "messages":
        streams = [StreamRequest(name="messages", since=times[0][0])]
    document = world_with_notes(world)
    world.grant("nina", GrantRequest(connection_ids=connections, streams=streams))

    successor = Case(world, world.grants["nina"][0].pk).widen(document, None)

    stored = successor.streams[-1].get("time_constraint")
    assert (stored and [stored.get("since"), stored.get("until")]) == expected


def world_with_notes(world: World) -> str:
    """Declare a further stream of the mail that has a time."""
    document = copy.deepcopy(MAIL)
    document["version"] = "1.1.0"
    notes = copy.deepcopy(document["streams"][0])
    notes |= {"name": "notes", "relationships": []}
    notes["query"].pop("expand")
    document["streams"].append(notes)
    world.declare(document)
    return "notes"


def test_temporary_grant_shows_more_for_an_hour(nina: Case) -> None:
    temporary = nina.extend("messages", ["body_text"])

    assert set(nina.first()) == {*SUBJECT, "body_text"}
    assert nina.status(THREADS) == 403
    assert temporary.expires_at is not None
    assert temporary.expires_at - temporary.issued_at == timedelta(hours=1)

    expired(nina, late=61)
    assert set(nina.first()) == {*SUBJECT}


def expired(nina: Case, *, late: int) -> None:
    """Put an extension in the place of the present one that was issued some minutes ago."""
    Grant.unscoped.filter(extends=nina.grant_id, superseded_by=None).update(
        revoked_at=timezone.now()
    )
    nina.extend("messages", ["body_text"], late=late)


def test_nothing_outlasts_the_grant(world: World) -> None:
    soon = timezone.now() + timedelta(minutes=20)
    streams = [StreamRequest(name="messages", fields=SUBJECT)]
    request = GrantRequest(connection_ids=[PERSONAL], streams=streams, expires_at=soon)
    world.grant("nina", request)
    nina = Case(world, world.grants["nina"][0].pk)

    assert nina.extend("messages", ["body_text"]).expires_at == soon
    assert nina.widen("messages", ["body_text"]).expires_at == soon


def test_temporary_grant_for_a_new_stream_leaves_the_others_alone(nina: Case) -> None:
    temporary = nina.extend("threads", None)

    assert [terms["name"] for terms in temporary.streams] == ["threads"]
    assert nina.world.get(THREADS, "nina").ids == ["t1"]
    assert set(nina.first()) == {*SUBJECT}


def test_single_use_closes_after_its_first_answer(
    nina: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grant_lifecycle, "SINGLE_USE_WINDOW", timedelta(0))
    nina.extend("messages", ["body_text"], once=True)

    assert nina.status("/v1/schema") == 200
    assert set(nina.first()) == {*SUBJECT, "body_text"}
    assert set(nina.first()) == {*SUBJECT}
    assert nina.status(fields="body_text") == 403


def ends(nina: Case, how: str) -> None:
    client_id = nina.world.packages["nina"].client_id
    now = timezone.now()
    match how:
        case "narrow":
            kept = [StreamRequest(name="messages", fields=SUBJECT, since=SINCE)]
            narrow_grant(nina.grant_id, kept, connection_ids=[PERSONAL], expires_at=None, now=now)
        case "widen":
            nina.widen("messages", ["labels"])
        case "revoke":
            Grant.unscoped.filter(pk=nina.grant_id).update(revoked_at=now)
        case "pause":
            Grant.unscoped.filter(pk=nina.grant_id).update(paused_at=now)
        case "pause app":
            pause_client(client_id, now=now)
        case "disconnect":
            revoke_client(client_id, now=now)


@pytest.mark.parametrize(
    ("how", "status", "state"),
    [
        ("narrow", 403, GrantState.REVOKED), ("widen", 403, GrantState.REVOKED),
        ("revoke", 403, GrantState.REVOKED), ("pause", 403, GrantState.PAUSED),
        ("pause app", 403, GrantState.PAUSED), ("disconnect", 403, GrantState.REVOKED),
    ],
)  # fmt: skip
def test_temporary_grant_ends_with_the_grant_that_it_extends(
    nina: Case, how: str, status: int, state: GrantState
) -> None:
    temporary = nina.extend("messages", ["body_text"])
    assert nina.status(fields="body_text") == 200

    ends(nina, how)

    assert nina.status(fields="body_text") == status
    row = with_grant_state(timezone.now()).get(pk=temporary.pk)
    assert state_of(row) == state
    token = with_token_state(timezone.now()).get(
        package=nina.world.packages["nina"], resource="/v1"
    )
    shown = nina.world.get("/v1/schema", "nina").status
    assert (state_of(token) == GrantState.ACTIVE) == (shown == 200)


def test_resumed_grant_brings_back_what_has_not_expired(nina: Case) -> None:
    nina.extend("messages", ["body_text"])
    client_id = nina.world.packages["nina"].client_id
    pause_client(client_id, now=timezone.now())

    resume_client(client_id)

    assert nina.status(fields="body_text") == 200


def test_temporary_grant_can_be_revoked_alone(nina: Case) -> None:
    temporary = nina.extend("messages", ["body_text"])

    revoke_grant(temporary.pk, now=timezone.now())

    assert set(nina.first()) == {*SUBJECT}


def test_second_hour_keeps_the_first_and_ends_with_it(nina: Case) -> None:
    first = nina.extend("messages", ["body_text"], late=30)

    second = nina.extend("messages", ["labels"])

    assert {"body_text", "labels"} <= set(nina.first())
    assert second.expires_at == first.expires_at
    assert Grant.unscoped.get(pk=first.pk).superseded_by == second


@pytest.mark.parametrize("first_once", [True, False])
def test_single_use_is_never_used_twice(
    nina: Case, *, first_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grant_lifecycle, "SINGLE_USE_WINDOW", timedelta(0))
    nina.extend("messages", ["body_text"], once=first_once)

    nina.extend("messages", ["labels"], once=not first_once)

    shown = set(nina.first())
    assert "labels" in shown
    assert ("body_text" in shown) is not first_once
    again = set(nina.first())
    assert ("labels" in again) is first_once
    assert "body_text" not in again


def test_temporary_grant_counts_for_the_quota_that_it_extends(nina: Case) -> None:
    set_quotas(nina.grant_id, {("calls", "day"): 3}, now=timezone.now())
    assert nina.status() == 200

    nina.extend("messages", ["body_text"])
    nina.extend("threads", None)

    assert nina.status(fields="body_text") == 200
    assert [nina.status("/v1/search", q="lease"), nina.status()] == [200, 429]
    refusal = nina.world.get(MESSAGES, "nina")
    assert refusal.error["limit"]["grant_id"] == nina.grant_id
    assert "other_connections" not in refusal.error


def test_tripwire_of_a_temporary_grant_pauses_the_grant(nina: Case) -> None:
    set_tripwire_share(nina.grant_id, 7)
    temporary = nina.extend("messages", ["body_text"])
    assert get_tripwire_share(temporary.pk) == 7

    pause_by_tripwire(temporary.pk, ReadShare("messages", 4, 4, 1), now=timezone.now())

    assert nina.world.get(MESSAGES, "nina").error["code"] == "grant_paused"
    resume_client(nina.world.packages["nina"].client_id)
    assert nina.status() == 200


def test_cursor_of_the_grant_is_invalid_once_it_is_extended(nina: Case) -> None:
    cursor = nina.world.get(MESSAGES, "nina", limit=1).body["next_cursor"]

    nina.extend("messages", ["body_text"])

    assert nina.status(limit=1, cursor=cursor) == 410


def test_temporary_grant_does_not_change_what_the_token_is(nina: Case) -> None:
    package = nina.world.packages["nina"]
    kind = AccessToken.unscoped.get(package=package, resource="/v1").kind

    nina.extend("messages", ["body_text"])

    assert AccessToken.unscoped.get(package=package, resource="/v1").kind == kind == "client"
    assert [grant.pk for grant in active_grants(package.pk, now=timezone.now())] == [nina.grant_id]
    later = create_token(package, resource="/mcp/events", now=timezone.now())
    scope = authenticate(later, resource="/mcp/events", now=timezone.now())
    assert scope.kind == TokenKind.CLIENT


@pytest.mark.parametrize("state", ["paused", "revoked", "superseded"])
def test_only_an_active_grant_is_widened(nina: Case, state: str) -> None:
    ends(nina, {"paused": "pause", "revoked": "revoke", "superseded": "narrow"}[state])

    for change in (nina.widen, nina.extend):
        with pytest.raises(GrantRevoked):
            change("messages", ["body_text"])


@pytest.mark.parametrize(
    ("stream", "fields"), [("threads", ["topic"]), ("messages", None), ("nothing", None)]
)
def test_what_does_not_fit_the_grant_is_refused(
    nina: Case, stream: str, fields: list[str] | None
) -> None:
    for change in (nina.widen, nina.extend):
        with pytest.raises(ApiException) as refused:
            change(stream, fields)
        assert refused.value.param == "streams"


def test_single_use_grants_and_temporary_grants_are_not_extended(nina: Case) -> None:
    temporary = nina.extend("messages", ["body_text"])

    with pytest.raises(GrantRevoked):
        extend_grant(temporary.pk, "messages", ["labels"], single_use=False, now=timezone.now())


def test_erasing_everything_deletes_temporary_grants(nina: Case) -> None:
    nina.extend("messages", ["body_text"])
    nina.widen("messages", ["labels"])

    delete_access(nina.world.owner_id)

    assert not Grant.unscoped.exists()
