"""A successor gives less than the grant that it replaces, or the same, and never more."""

from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from evidence.access.grant_lifecycle import narrow
from evidence.access.grant_states import State, grants_with_state, state_of
from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest, pause_client, revoke_grant
from evidence.errors import GrantRevoked, InvalidRequest
from evidence.models.grants import Grant
from tests.world import BANK, MAIL, NOW, PERSONAL, WORK, World

MESSAGES = "/v1/streams/messages/records"
SINCE, UNTIL = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC)
FIELDS = ("id", "subject", "received_at", "thread_id")
SOON = NOW + timedelta(days=1)
LATER = NOW + timedelta(days=2000)


@pytest.fixture
def nina(world: World) -> World:
    """Nina may read some records of both mailboxes in two months of the year."""
    world.grant(
        "nina",
        GrantRequest(
            connection_ids=[PERSONAL, WORK],
            streams=[allowed(), StreamRequest(name="threads")],
            purpose_code="https://purpose.example/tax",
            purpose_description="For the tax return",
            access_mode="single_use",
            retention={"max_duration": "P30D", "on_expiry": "delete"},
            expires_at=LATER,
        ),
    )
    return world


def allowed(**less: Any) -> StreamRequest:
    """What Nina has, or less."""
    terms: dict[str, Any] = {
        "name": "messages",
        "connection_ids": [PERSONAL],
        "fields": FIELDS,
        "resources": ("m0", "m1", "m2"),
        "since": SINCE,
        "until": UNTIL,
    }
    return StreamRequest(**(terms | less))


def narrowed(world: World, *streams: StreamRequest, **how: Any) -> Grant:
    wanted: dict[str, Any] = {"connection_ids": [PERSONAL], "expires_at": None, "now": NOW} | how
    return narrow(world.grants["nina"][0].grant_id, streams, **wanted)


def test_the_same_token_reads_less(nina: World) -> None:
    assert nina.get(MESSAGES, "nina").ids == ["m2", "m1"]

    successor = narrowed(nina, allowed(resources=("m1",), fields=("id", "subject")))

    [record] = nina.get(MESSAGES, "nina").body["data"]
    assert record["data"] == {"id": "m1", "subject": "Lease signed"}
    assert nina.get("/v1/streams/threads/records", "nina").status == 403
    states = {row.pk: state_of(row) for row in grants_with_state(NOW)}
    assert states[nina.grants["nina"][0].pk] == State.SUPERSEDED
    assert states[successor.pk] == State.ACTIVE


def test_what_was_agreed_stays(nina: World) -> None:
    old, new = nina.grants["nina"][0], narrowed(nina, allowed())

    assert new.grant_id.startswith("grt_")
    assert new.grant_id != old.grant_id
    for name in (
        "package_id", "purpose_code", "purpose_description", "access_mode", "retention",
        "expires_at", "paused_at",
    ):  # fmt: skip
        assert getattr(new, name) == getattr(old, name), name
    assert new.streams == [each for each in old.streams if each["name"] == "messages"]


@pytest.mark.parametrize(
    ("wanted", "given"),
    [(None, LATER), (SOON, SOON), (LATER + timedelta(days=1), LATER)],
)
def test_it_never_ends_later(nina: World, wanted: datetime | None, given: datetime) -> None:
    assert narrowed(nina, allowed(), expires_at=wanted).expires_at == given


@pytest.mark.parametrize(
    ("less", "param"),
    [
        ({"connection_ids": [PERSONAL, WORK]}, "connections"),
        ({"fields": (*FIELDS, "body_text")}, "fields"),
        ({"fields": None}, "fields"),
        ({"resources": ("m1", "m3")}, "resources"),
        ({"resources": None}, "resources"),
        ({"since": None, "until": None}, "since"),
        ({"since": None}, "since"),
        ({"until": None}, "since"),
        ({"since": SINCE - timedelta(seconds=1)}, "since"),
        ({"until": UNTIL + timedelta(seconds=1)}, "since"),
    ],
)
def test_more_is_refused(nina: World, less: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        narrowed(nina, allowed(**less), connection_ids=[PERSONAL, WORK])

    assert refused.value.param == param
    assert nina.get(MESSAGES, "nina").ids == ["m2", "m1"]


def test_a_stream_that_was_not_granted_is_refused(world: World) -> None:
    with pytest.raises(InvalidRequest) as refused:
        narrow(
            world.grants["bob"][0].grant_id,
            [StreamRequest(name="threads")],
            connection_ids=[PERSONAL],
            expires_at=None,
            now=NOW,
        )

    assert refused.value.param == "streams"


def test_another_source_is_refused(nina: World) -> None:
    with pytest.raises(InvalidRequest) as refused:
        narrowed(nina, StreamRequest(name="transactions"), connection_ids=[BANK])

    assert refused.value.param == "connections"


def test_what_had_no_limit_may_get_one(world: World) -> None:
    narrow(
        world.grants["dora"][0].grant_id,
        [allowed(resources=("m1",)), StreamRequest(name="threads")],
        connection_ids=[PERSONAL],
        expires_at=None,
        now=NOW,
    )

    assert world.get(MESSAGES, "dora", connector_id="mail").ids == ["m1"]


def test_there_must_be_something_to_narrow(nina: World) -> None:
    with pytest.raises(GrantRevoked):
        narrowed(nina, allowed(), now=LATER)
    narrowed(nina, allowed())
    with pytest.raises(GrantRevoked):
        narrowed(nina, allowed())
    revoke_grant(nina.grants["bob"][0].grant_id, now=NOW)
    for grant_id in (nina.grants["bob"][0].grant_id, "grt_none"):
        with pytest.raises(GrantRevoked):
            narrow(
                grant_id,
                [StreamRequest(name="messages", fields=["id"])],
                connection_ids=[WORK],
                expires_at=None,
                now=NOW,
            )


def test_what_is_paused_stays_paused(nina: World) -> None:
    pause_client(nina.packages["nina"].client_id, now=timezone.now())
    assert nina.get(MESSAGES, "nina").error["code"] == "grant_paused"

    assert narrowed(nina, allowed()).paused_at is not None
    assert nina.get(MESSAGES, "nina").error["code"] == "grant_paused"


def test_a_declaration_that_came_later_adds_nothing(world: World) -> None:
    """What may be filtered by, viewed and expanded was frozen under the plainer declaration."""
    plainer = deepcopy(MAIL) | {"version": "0.9.0"}
    messages = plainer["streams"][0]
    messages["schema"]["properties"]["thread_id"] = {"type": "object"}
    messages["views"] = messages["views"][:1]
    for stream in plainer["streams"]:
        del stream["relationships"], stream["query"]["expand"]
    world.declare(plainer)
    streams = [StreamRequest(name="messages"), StreamRequest(name="threads")]
    world.grant("nina", GrantRequest(connection_ids=[PERSONAL], streams=streams))
    world.declare(MAIL)

    narrowed(world, *streams)

    assert world.get(MESSAGES, "nina", view="envelope").status == 200
    assert world.get(MESSAGES, "nina", view="sizes").error["param"] == "view"
    assert world.get(MESSAGES, "nina", filter__subject="Lease signed").ids == ["m1"]
    assert world.get(MESSAGES, "nina", filter__thread_id="t1").error["code"] == "field_not_granted"
    assert world.get(MESSAGES, "nina", expand="thread").error["code"] == "invalid_expand"
