"""What a grant freezes of a request, and requests that come to nothing."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import (
    GrantRequest,
    approved_before,
    hold_sources,
    issue,
    register_client,
)
from evidence.errors import InvalidRequest, Refusal
from evidence.models.grants import Package
from evidence.models.sources import Source
from tests.world import BANK, CHAT, MAIL, NOW, PERSONAL, World

DAY, DAY_BEFORE = NOW.replace(day=2), NOW.replace(day=1)
STRICT = deepcopy(MAIL) | {"version": "2.0.0"}
for each in STRICT["streams"]:
    each["selection"] = {"fields": False, "resources": False}


def of_mail(**stream: Any) -> GrantRequest:
    terms = {"name": "messages"} | stream
    return GrantRequest(connection_ids=[PERSONAL], streams=[StreamRequest(**terms)])


def of(*connection_ids: str) -> GrantRequest:
    return GrantRequest(connection_ids=connection_ids, streams=[StreamRequest(name="messages")])


def given(world: World, *requests: GrantRequest, **more: Any) -> Any:
    client = register_client("Erin", owner_id=world.owner_id, now=NOW)
    return issue(requests, client=client, now=NOW, **more)


@pytest.mark.parametrize(
    ("requests", "param", "said"),
    [
        ([], "connections", "at least one grant"),
        ([of()], "connections", "No such connection: none was named."),
        ([of(PERSONAL, "cin_b", "cin_a")], "connections", "No such connection: cin_a, cin_b."),
        ([of(PERSONAL, CHAT)], "connections", "belong to one source"),
        ([of(PERSONAL), of(PERSONAL)], "streams", "'messages' of a connection is granted twice"),
        ([of(PERSONAL), of(BANK)], "streams", "no stream 'messages'; it has: transactions."),
        ([of_mail(fields=["nothing"])], "fields", "no field 'nothing'; it has: id, thread_id,"),
        ([of_mail(name="threads", since=NOW)], "since", "'threads' has no time to limit it by"),
        ([of_mail(since=DAY, until=DAY_BEFORE)], "until", "ends before it starts"),
        ([of_mail(since=DAY, until=DAY)], "until", "ends before it starts"),
    ],
)
def test_what_cannot_be_granted_is_refused_and_leaves_nothing(
    world: World, requests: list[GrantRequest], param: str, said: str
) -> None:
    before = Package.unscoped.count()
    with pytest.raises(Refusal) as refused:
        given(world, *requests)
    assert (refused.value.param, said in refused.value.message) == (param, True)
    assert Package.unscoped.count() == before


@pytest.mark.parametrize(
    ("request_", "param", "said"),
    [
        (of_mail(fields=["id"]), "fields", "granted with all its fields or not at all"),
        (of_mail(resources=["m1"]), "resources", "Single records of the stream 'messages'"),
    ],
)
def test_a_declaration_may_bar_a_choice(
    world: World, request_: GrantRequest, param: str, said: str
) -> None:
    world.declare(STRICT)
    with pytest.raises(InvalidRequest) as refused:
        given(world, request_)
    assert (refused.value.param, said in refused.value.message) == (param, True)
    given(world, of_mail(fields=[*MAIL["streams"][0]["schema"]["properties"]]))


def test_a_source_that_declares_nothing_grants_nothing(world: World) -> None:
    Source.unscoped.update(current_declaration=None)
    with pytest.raises(InvalidRequest, match="The source has no declaration"):
        given(world, of(PERSONAL))


@pytest.mark.parametrize("name", ["", "  ", "a\u202eb", "a" * 201])
def test_a_name_that_nobody_could_read_names_no_client(world: World, name: str) -> None:
    with pytest.raises(InvalidRequest, match="printable characters") as refused:
        register_client(name, owner_id=world.owner_id, now=NOW)
    assert refused.value.param == "client"


def test_what_was_agreed_is_kept(world: World) -> None:
    agreed: Mapping[str, Any] = {
        "purpose_code": "https://purpose.example/tax",
        "purpose_description": "For the tax return",
        "access_mode": "single_use",
        "retention": {"max_duration": "P30D", "on_expiry": "delete"},
        "expires_at": NOW.replace(day=30),
    }
    streams = [StreamRequest(name="messages")]
    request = GrantRequest(connection_ids=[PERSONAL], streams=streams, **agreed)

    package, [grant] = given(world, request, approval="apr_1")

    grant.refresh_from_db()
    assert {name: getattr(grant, name) for name in agreed} == agreed
    assert (grant.issued_at, grant.package_id) == (NOW, package.pk)
    assert approved_before("apr_1") == package.pk
    assert approved_before("apr_2") is None


def test_only_what_may_be_expanded_is_frozen(world: World) -> None:
    _, [grant] = given(world, of(PERSONAL))
    assert [each["name"] for each in grant.streams[0]["relations"]] == ["thread"]
    plainer = deepcopy(MAIL) | {"version": "2.0.0"}
    del plainer["streams"][0]["query"]["expand"]
    world.declare(plainer)
    _, [grant] = given(world, of(PERSONAL))
    assert grant.streams[0]["relations"] == []


def test_sources_are_held(world: World) -> None:
    with CaptureQueriesContext(connection) as asked:
        hold_sources(world.owner_id)
    assert [each["sql"].endswith("FOR UPDATE") for each in asked.captured_queries] == [True]
