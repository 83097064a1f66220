"""Issuing grants, and requests that are refused."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import (
    GrantRequest,
    find_approved_package,
    issue,
    lock_sources,
    register_client,
)
from evidence.errors import ApiException, InvalidRequest
from evidence.models.grants import Package
from evidence.models.sources import Source
from tests.world import BANK, CHAT, MAIL, NOW, PERSONAL, World

DAY, DAY_BEFORE = NOW.replace(day=2), NOW.replace(day=1)
STRICT = deepcopy(MAIL) | {"version": "2.0.0"}
for stream in STRICT["streams"]:
    stream["selection"] = {"fields": False, "resources": False}


def of_mail(**stream: Any) -> GrantRequest:
    terms = {"name": "messages"} | stream
    return GrantRequest(connection_ids=[PERSONAL], streams=[StreamRequest(**terms)])


def of(*connection_ids: str) -> GrantRequest:
    return GrantRequest(connection_ids=connection_ids, streams=[StreamRequest(name="messages")])


def issue_grants(world: World, *requests: GrantRequest, **more: Any) -> Any:
    client = register_client("Erin", owner_id=world.owner_id, now=NOW)
    return issue(requests, client=client, now=NOW, **more)


@pytest.mark.parametrize(
    ("requests", "param", "message"),
    [
        ([], "connections", "at least one grant"),
        ([of()], "connections", "No such connection: none was named."),
        ([of(PERSONAL, "cin_b", "cin_a")], "connections", "No such connection: cin_a, cin_b."),
        ([of(PERSONAL, CHAT)], "connections", "must have the same source"),
        ([of(PERSONAL), of(PERSONAL)], "streams", "'messages' of a connection twice"),
        ([of(PERSONAL), of(BANK)], "streams", "no stream 'messages'; it has: transactions."),
        ([of_mail(fields=["nothing"])], "fields", "no field 'nothing'; it has: id, thread_id,"),
        ([of_mail(name="threads", since=NOW)], "since", "'threads' has no time field"),
        ([of_mail(since=DAY, until=DAY_BEFORE)], "until", "ends before it starts"),
        ([of_mail(since=DAY, until=DAY)], "until", "ends before it starts"),
    ],
)
def test_invalid_request_is_refused_and_stores_nothing(
    world: World, requests: list[GrantRequest], param: str, message: str
) -> None:
    before = Package.unscoped.count()
    with pytest.raises(ApiException) as refused:
        issue_grants(world, *requests)
    assert (refused.value.param, message in refused.value.message) == (param, True)
    assert Package.unscoped.count() == before


@pytest.mark.parametrize(
    ("request_", "param", "message"),
    [
        (of_mail(fields=["id"]), "fields", "does not allow choosing fields"),
        (of_mail(resources=["m1"]), "resources", "does not allow granting single records"),
    ],
)
def test_declaration_can_forbid_selection(
    world: World, request_: GrantRequest, param: str, message: str
) -> None:
    world.declare(STRICT)
    with pytest.raises(InvalidRequest) as refused:
        issue_grants(world, request_)
    assert (refused.value.param, message in refused.value.message) == (param, True)
    issue_grants(world, of_mail(fields=[*MAIL["streams"][0]["schema"]["properties"]]))


def test_source_without_declaration_is_refused(world: World) -> None:
    Source.unscoped.update(current_declaration=None)
    with pytest.raises(InvalidRequest, match="The source has no declaration"):
        issue_grants(world, of(PERSONAL))


@pytest.mark.parametrize("name", ["", "  ", "a\u202eb", "a" * 201])
def test_unreadable_client_name_is_refused(world: World, name: str) -> None:
    with pytest.raises(InvalidRequest, match="printable characters") as refused:
        register_client(name, owner_id=world.owner_id, now=NOW)
    assert refused.value.param == "client"


def test_purpose_retention_and_expiry_are_stored(world: World) -> None:
    terms: Mapping[str, Any] = {
        "purpose_code": "https://purpose.example/tax",
        "purpose_description": "For the tax return",
        "access_mode": "single_use",
        "retention": {"max_duration": "P30D", "on_expiry": "delete"},
        "expires_at": NOW.replace(day=30),
    }
    streams = [StreamRequest(name="messages")]
    request = GrantRequest(connection_ids=[PERSONAL], streams=streams, **terms)

    package, [grant] = issue_grants(world, request, approval="apr_1")

    grant.refresh_from_db()
    assert {name: getattr(grant, name) for name in terms} == terms
    assert (grant.issued_at, grant.package_id) == (NOW, package.pk)
    assert find_approved_package("apr_1") == package.pk
    assert find_approved_package("apr_2") is None


def test_only_expandable_relations_are_granted(world: World) -> None:
    _, [grant] = issue_grants(world, of(PERSONAL))
    assert [relation["name"] for relation in grant.streams[0]["relations"]] == ["thread"]
    plainer = deepcopy(MAIL) | {"version": "2.0.0"}
    del plainer["streams"][0]["query"]["expand"]
    world.declare(plainer)
    _, [grant] = issue_grants(world, of(PERSONAL))
    assert grant.streams[0]["relations"] == []


def test_lock_sources_locks_rows(world: World) -> None:
    with CaptureQueriesContext(connection) as queries:
        lock_sources(world.owner_id)
    assert [query["sql"].endswith("FOR UPDATE") for query in queries.captured_queries] == [True]
