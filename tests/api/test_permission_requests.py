"""A refusal that the owner could lift names what is missing and a link on which to ask for it."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import DatabaseError, connection, transaction
from django.test import override_settings
from django.utils import timezone

from evidence.access import grant_lifecycle
from evidence.access.grant_lifecycle import (
    answer_request,
    extend_grant,
    find_request,
    link_token,
    narrow_grant,
)
from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest, pause_client
from evidence.models.connections import Connection
from evidence.models.grants import Grant, PermissionRequest
from evidence.models.quotas import RefusedCall
from operations.background_jobs import upkeep
from tests.mcp_adapter import real
from tests.world import BANK, BOBS_FIELDS, CHAT, PERSONAL, WORK, World

LIST = "/v1/streams/messages/records"
THREADS = "/v1/streams/threads/records"
PUBLIC = "https://records.example"


@pytest.fixture(autouse=True)
def _public_url() -> Iterator[None]:
    with override_settings(PDPP_PUBLIC_URL=PUBLIC):
        yield


def ask(world: World, path: str = LIST, who: str = "bob", **query: Any) -> dict[str, Any]:
    """The error of a refused call."""
    return world.get(path, who, **(query or {"fields": "labels"})).error


def only() -> PermissionRequest:
    return PermissionRequest.unscoped.get()


def answer(name: str) -> None:
    assert answer_request(only().pk, name, now=timezone.now())


def age(hours: float) -> None:
    """Make all requests older."""
    later = timedelta(hours=hours)
    for each in PermissionRequest.unscoped.all():
        each.created_at -= later
        each.expires_at -= later
        each.answered_at = each.answered_at and each.answered_at - later
        each.save()


@pytest.mark.parametrize(
    ("path", "query", "code", "missing"),
    [
        (LIST, {"fields": "labels"}, "field_not_granted",
         {"connector_key": "mail", "stream": "messages", "fields": ["labels"]}),
        (LIST, {"fields": "is_seen,subject,labels"}, "field_not_granted",
         {"connector_key": "mail", "stream": "messages", "fields": ["labels", "is_seen"]}),
        (LIST, {"filter__is_seen": "true"}, "field_not_granted",
         {"connector_key": "mail", "stream": "messages", "fields": ["is_seen"]}),
        (f"{LIST}/m1/field-window", {"field": "labels", "connection_id": PERSONAL}, "field_not_granted",
         {"connector_key": "mail", "stream": "messages", "fields": ["labels"]}),
        ("/v1/streams/messages/aggregate", {"metric": "sum", "field": "size_bytes"}, "field_not_granted",
         {"connector_key": "mail", "stream": "messages", "fields": ["size_bytes"]}),
        (THREADS, {}, "grant_stream_not_allowed", {"connector_key": "mail", "stream": "threads"}),
        (THREADS, {"connection_id": WORK}, "grant_stream_not_allowed",
         {"connector_key": "mail", "stream": "threads"}),
        ("/v1/search", {"q": "lease", "streams": "threads"}, "grant_stream_not_allowed",
         {"connector_key": "mail", "stream": "threads"}),
    ],
)  # fmt: skip
def test_refusal_names_what_is_missing_and_where_to_ask(
    world: World, path: str, query: dict[str, str], code: str, missing: dict[str, Any]
) -> None:
    refused = world.get(path, **query)

    assert refused.status == 403
    assert (refused.error["code"], refused.error["missing"]) == (code, missing)
    prefix, _, token = refused.error["ask_url"].rpartition("/")
    assert prefix == f"{PUBLIC}/ask"
    assert len(token) == 24
    assert find_request(token, owner_id=world.owner_id) == only()
    assert (only().stream, only().fields) == (missing["stream"], missing.get("fields"))
    assert timedelta(minutes=59) < only().expires_at - timezone.now() <= timedelta(hours=1)


@pytest.mark.parametrize(
    ("who", "path", "query"),
    [
        ("bob", f"{LIST}/nothing", {}), ("bob", f"{LIST}/m0", {}),
        ("bob", "/v1/streams/transactions/records", {}), ("bob", "/v1/streams/nothing/records", {}),
        ("bob", LIST, {"connection_id": CHAT}), ("bob", LIST, {"fields": "no_such_field"}),
        ("bob", LIST, {"cursor": "x"}), ("bob", "/v1/search", {"q": "nowhere"}),
        ("bob", "/v1/blobs/blb_none", {}), ("alice", THREADS, {"connection_id": CHAT}),
        ("dora", LIST, {}), (None, THREADS, {}),
    ],
)  # fmt: skip
def test_no_other_answer_has_a_link(
    world: World, who: str | None, path: str, query: dict[str, str]
) -> None:
    answered = world.get(path, who, **query)

    assert not {"missing", "ask_url"} & set(answered.body.get("error", {}))
    assert not PermissionRequest.unscoped.exists()


def test_owner_has_no_link(world: World) -> None:
    """Even where a stream shows the owner nothing, because its source has no connection."""
    Connection.unscoped.filter(pk=BANK).update(status="revoked")

    refused = world.get("/v1/streams/transactions/records", "alice")

    assert not {"missing", "ask_url"} & set(refused.body.get("error", {}))


def test_same_refusal_has_the_same_link_while_it_is_open(world: World) -> None:
    first = ask(world)["ask_url"]

    assert ask(world)["ask_url"] == first
    assert ask(world, fields="subject,labels")["ask_url"] == first
    assert ask(world, fields="labels,is_seen")["ask_url"] != first
    assert ask(world, path=THREADS, limit=1)["ask_url"] != first

    age(1.01)
    assert ask(world)["ask_url"] != first


def test_database_has_no_link(world: World) -> None:
    token = ask(world)["ask_url"].rpartition("/")[2]

    stored = json.dumps(list(PermissionRequest.unscoped.values()), default=repr)

    assert token not in stored
    assert only().request_id not in token
    with override_settings(SECRET_KEY="x" * 60, SECRET_KEY_FALLBACKS=[]):
        assert link_token(only()) is None
        assert find_request(token, owner_id=world.owner_id) is None


def test_link_survives_a_rotated_secret(world: World, settings: Any) -> None:
    token = ask(world)["ask_url"].rpartition("/")[2]

    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "y" * 60

    assert find_request(token, owner_id=world.owner_id) == only()
    assert ask(world)["ask_url"].rpartition("/")[2] == token


@pytest.mark.parametrize(("hours", "has_link"), [(23.9, False), (24.1, True)])
def test_declined_request_stays_declined_for_a_day(
    world: World, hours: float, *, has_link: bool
) -> None:
    ask(world)
    answer("declined")
    assert "ask_url" not in ask(world)
    assert ask(world)["missing"]["fields"] == ["labels"]

    age(hours)

    assert ("ask_url" in ask(world)) is has_link
    assert world.get(LIST, fields="labels").status == 403


def test_declined_field_cannot_be_asked_for_among_others(world: World) -> None:
    ask(world, fields="labels,is_seen")
    answer("declined")

    assert "ask_url" not in ask(world, fields="labels")
    assert "ask_url" not in ask(world, fields="labels,size_bytes")
    assert "ask_url" in ask(world, fields="size_bytes")


def test_decline_outlives_a_narrower_grant(world: World) -> None:
    ask(world)
    answer("declined")
    grant = world.grants["bob"][0]
    kept = [StreamRequest(name="messages", fields=["subject"], since=_since(grant))]

    narrow_grant(grant.pk, kept, connection_ids=[PERSONAL], expires_at=None, now=timezone.now())

    assert "ask_url" not in ask(world)


def _since(grant: Grant) -> datetime:
    return datetime.fromisoformat(grant.streams[0]["time_constraint"]["since"])


def test_open_requests_of_a_package_are_bounded(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grant_lifecycle, "MAX_OPEN", 2)
    fields = ["labels", "is_seen", "size_bytes", "from_email"]

    links = ["ask_url" in ask(world, fields=name) for name in fields * 3]

    assert links == [True, True, False, False] * 3
    assert PermissionRequest.unscoped.count() == 2
    assert "ask_url" in ask(world, who="erin", path=_erin(world))
    age(1.01)
    assert "ask_url" in ask(world, fields="from_email")


def _erin(world: World) -> str:
    world.grant(
        "erin",
        GrantRequest(
            connection_ids=[WORK], streams=[StreamRequest(name="messages", fields=["subject"])]
        ),
    )
    return LIST


def test_refusal_does_not_wait_for_its_request(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise DatabaseError

    monkeypatch.setattr(grant_lifecycle, "lock_packages", fail)

    refused = world.get(LIST, fields="labels")

    assert refused.status == 403
    assert "missing" in refused.error
    assert "ask_url" not in refused.error
    assert RefusedCall.unscoped.exists()


def test_locked_package_costs_a_refusal_its_link_only(committed: World) -> None:
    package = committed.packages["bob"]

    def refused() -> dict[str, Any]:
        try:
            return ask(committed)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool, transaction.atomic():
        grant_lifecycle.lock_packages(pk=package.pk)
        error = pool.submit(refused).result()

    assert "ask_url" not in error
    assert "ask_url" in ask(committed)


def test_same_refusals_at_once_make_one_request(committed: World) -> None:
    def refused(_: int) -> str:
        try:
            return str(ask(committed)["ask_url"])
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        links = set(pool.map(refused, range(8)))

    assert len(links) == 1
    assert PermissionRequest.unscoped.count() == 1


@pytest.mark.parametrize("mode", ["paused", "single_use"])
def test_paused_and_single_use_grants_have_no_link(world: World, mode: str) -> None:
    single_use = "single_use" if mode == "single_use" else "continuous"
    request = GrantRequest(
        connection_ids=[PERSONAL],
        streams=[StreamRequest(name="messages", fields=["subject"])],
        access_mode=single_use,
    )
    world.grant("olga", request)
    if mode == "paused":
        pause_client(world.packages["olga"].client_id, now=timezone.now())

    for path in (LIST, THREADS):
        assert not {"missing", "ask_url"} & set(ask(world, path, "olga"))
    assert not PermissionRequest.unscoped.exists()


def test_connection_says_which_source_is_meant(world: World) -> None:
    """Two granted sources declare messages, so without a connection nobody knows what to ask for."""
    world.grant(
        "olga",
        GrantRequest(connection_ids=[PERSONAL], streams=[StreamRequest(name="threads")]),
        GrantRequest(connection_ids=[CHAT], streams=[]),
    )

    assert not {"missing", "ask_url"} & set(ask(world, LIST, "olga", limit=1))
    refused = ask(world, LIST, "olga", connection_id=PERSONAL)

    assert refused["missing"] == {"connector_key": "mail", "stream": "messages"}
    answer("always")
    assert world.get(LIST, "olga").status == 200


@pytest.mark.parametrize("name", ["once", "hour", "always"])
def test_answer_shows_what_was_asked_to_the_same_token(world: World, name: str) -> None:
    ask(world)

    answer(name)

    data = world.get(LIST, connection_id=PERSONAL, order="asc").body["data"][0]["data"]
    assert set(data) == {*BOBS_FIELDS, "labels"}
    assert world.get(LIST, fields="is_seen").status == 403
    temporary = Grant.unscoped.filter(extends__isnull=False)
    assert temporary.count() == (name != "always")
    modes = {"once": ["single_use"], "hour": ["continuous"], "always": []}
    assert list(temporary.values_list("access_mode", flat=True)) == modes[name]


def test_refusal_under_a_temporary_grant_asks_for_the_grant_that_it_extends(world: World) -> None:
    base = world.grants["bob"][0]
    extend_grant(base.pk, "messages", ["labels"], single_use=True, now=timezone.now())

    ask(world, fields="is_seen")

    assert (only().grant_id, only().fields) == (base.pk, ["is_seen"])


def test_request_is_answered_once(world: World) -> None:
    ask(world)
    answer("hour")

    assert not answer_request(only().pk, "always", now=timezone.now())

    assert only().answer == "hour"
    assert not Grant.unscoped.filter(superseded_by__isnull=False).exists()


def test_expired_request_cannot_be_answered(world: World) -> None:
    ask(world)
    age(1.01)

    assert not answer_request(only().pk, "always", now=timezone.now())
    assert world.get(LIST, fields="labels").status == 403


def test_second_request_is_answered_after_the_first(world: World) -> None:
    ask(world, fields="labels")
    ask(world, fields="is_seen")
    requests = list(PermissionRequest.unscoped.order_by("created_at"))

    for each in requests:
        assert answer_request(each.pk, "always", now=timezone.now())

    assert world.get(LIST, fields="labels,is_seen").status == 200


@pytest.mark.parametrize("tidy", ["prune", "upkeep"])
def test_old_requests_are_deleted(world: World, tidy: str) -> None:
    ask(world, fields="labels")
    answer("declined")
    ask(world, fields="is_seen")
    age(26)
    ask(world, fields="size_bytes")

    call_command("prune") if tidy == "prune" else list(upkeep())

    left = PermissionRequest.unscoped.values_list("fields", flat=True)
    assert sorted(left) == [["labels"], ["size_bytes"]]
    age(31 * 24)
    call_command("prune")
    assert not PermissionRequest.unscoped.exists()


def test_tools_show_the_link_in_both_channels(world: World) -> None:
    result = real.call(world.tokens["bob@mcp"], "query_records", stream="threads")

    text = json.loads(result.content[0].text)
    assert result.is_error
    assert text == result.structured_content
    url = text["error"]["ask_url"]
    assert text["error"]["missing"] == {"connector_key": "mail", "stream": "threads"}
    assert text["error"]["next_step"].endswith(
        f" The owner can allow this at {url} ; then call again."
    )
    assert url == ask(world, THREADS, limit=1)["ask_url"]


def test_tool_without_a_link_says_what_to_call(world: World) -> None:
    ask(world, THREADS, limit=1)
    answer("declined")

    result = real.call(world.tokens["bob@mcp"], "query_records", stream="threads")

    assert result.structured_content is not None
    assert "ask_url" not in result.structured_content["error"]
    assert result.structured_content["next_step"].startswith("Call schema")
