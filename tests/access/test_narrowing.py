"""A successor never grants more than the grant that it supersedes."""

from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from evidence.access.grant_lifecycle import narrow_grant
from evidence.access.grant_states import GrantState, state_of, with_grant_state
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
    """Nina may read some records of both mailboxes from two months."""
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


def allowed(**changes: Any) -> StreamRequest:
    """Return a request for Nina's terms, with some of them changed."""
    terms: dict[str, Any] = {
        "name": "messages",
        "connection_ids": [PERSONAL],
        "fields": FIELDS,
        "resources": ("m0", "m1", "m2"),
        "since": SINCE,
        "until": UNTIL,
    }
    return StreamRequest(**(terms | changes))


def narrow_ninas(world: World, *streams: StreamRequest, **options: Any) -> Grant:
    arguments: dict[str, Any] = {
        "connection_ids": [PERSONAL],
        "expires_at": None,
        "now": NOW,
    } | options
    return narrow_grant(world.grants["nina"][0].grant_id, streams, **arguments)


def test_same_token_reads_less_after_narrowing(nina: World) -> None:
    assert nina.get(MESSAGES, "nina").ids == ["m2", "m1"]

    successor = narrow_ninas(nina, allowed(resources=("m1",), fields=("id", "subject")))

    [record] = nina.get(MESSAGES, "nina").body["data"]
    assert record["data"] == {"id": "m1", "subject": "Lease signed"}
    assert nina.get("/v1/streams/threads/records", "nina").status == 403
    states = {row.pk: state_of(row) for row in with_grant_state(NOW)}
    assert states[nina.grants["nina"][0].pk] == GrantState.SUPERSEDED
    assert states[successor.pk] == GrantState.ACTIVE


def test_narrowed_grant_keeps_purpose_and_retention(nina: World) -> None:
    old, new = nina.grants["nina"][0], narrow_ninas(nina, allowed())

    assert new.grant_id.startswith("grt_")
    assert new.grant_id != old.grant_id
    for name in (
        "package_id", "purpose_code", "purpose_description", "access_mode", "retention",
        "expires_at", "paused_at",
    ):  # fmt: skip
        assert getattr(new, name) == getattr(old, name), name
    assert new.streams == [terms for terms in old.streams if terms["name"] == "messages"]


@pytest.mark.parametrize(
    ("requested", "expected"),
    [(None, LATER), (SOON, SOON), (LATER + timedelta(days=1), LATER)],
)
def test_narrowed_grant_never_expires_later(
    nina: World, requested: datetime | None, expected: datetime
) -> None:
    assert narrow_ninas(nina, allowed(), expires_at=requested).expires_at == expected


@pytest.mark.parametrize(
    ("changes", "param"),
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
def test_wider_terms_are_refused(nina: World, changes: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        narrow_ninas(nina, allowed(**changes), connection_ids=[PERSONAL, WORK])

    assert refused.value.param == param
    assert nina.get(MESSAGES, "nina").ids == ["m2", "m1"]


def test_ungranted_stream_is_refused(world: World) -> None:
    with pytest.raises(InvalidRequest) as refused:
        narrow_grant(
            world.grants["bob"][0].grant_id,
            [StreamRequest(name="threads")],
            connection_ids=[PERSONAL],
            expires_at=None,
            now=NOW,
        )

    assert refused.value.param == "streams"


def test_other_source_is_refused(nina: World) -> None:
    with pytest.raises(InvalidRequest) as refused:
        narrow_ninas(nina, StreamRequest(name="transactions"), connection_ids=[BANK])

    assert refused.value.param == "connections"


def test_unlimited_grant_can_be_limited(world: World) -> None:
    narrow_grant(
        world.grants["dora"][0].grant_id,
        [allowed(resources=("m1",)), StreamRequest(name="threads")],
        connection_ids=[PERSONAL],
        expires_at=None,
        now=NOW,
    )

    assert world.get(MESSAGES, "dora", connector_id="mail").ids == ["m1"]


def test_ended_grant_cannot_be_narrow_ninas(nina: World) -> None:
    with pytest.raises(GrantRevoked):
        narrow_ninas(nina, allowed(), now=LATER)
    narrow_ninas(nina, allowed())
    with pytest.raises(GrantRevoked):
        narrow_ninas(nina, allowed())
    revoke_grant(nina.grants["bob"][0].grant_id, now=NOW)
    for grant_id in (nina.grants["bob"][0].grant_id, "grt_none"):
        with pytest.raises(GrantRevoked):
            narrow_grant(
                grant_id,
                [StreamRequest(name="messages", fields=["id"])],
                connection_ids=[WORK],
                expires_at=None,
                now=NOW,
            )


def test_what_is_paused_stays_paused(nina: World) -> None:
    pause_client(nina.packages["nina"].client_id, now=timezone.now())
    assert nina.get(MESSAGES, "nina").error["code"] == "grant_paused"

    assert narrow_ninas(nina, allowed()).paused_at is not None
    assert nina.get(MESSAGES, "nina").error["code"] == "grant_paused"


def test_newer_declaration_adds_no_rights(world: World) -> None:
    """Filters, views and relations come from the declaration at the time of the first grant."""
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

    narrow_ninas(world, *streams)

    assert world.get(MESSAGES, "nina", view="envelope").status == 200
    assert world.get(MESSAGES, "nina", view="sizes").error["param"] == "view"
    assert world.get(MESSAGES, "nina", filter__subject="Lease signed").ids == ["m1"]
    assert world.get(MESSAGES, "nina", filter__thread_id="t1").error["code"] == "field_not_granted"
    assert world.get(MESSAGES, "nina", expand="thread").error["code"] == "invalid_expand"
