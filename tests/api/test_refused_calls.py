"""The owner can be told why a call was refused; nothing is kept of what it asked for in words."""

import json
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone

from evidence.access import grant_terms, owner_notices
from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest, pause_client, revoke_client
from evidence.access.quotas import set_quotas
from evidence.models.grants import Grant
from evidence.models.quotas import RefusedCall
from tests.mcp_adapter import real
from tests.mcp_adapter.hosts import error_of
from tests.world import BANK, NOW, PERSONAL, World

LIST = "/v1/streams/messages/records"
BANKING = StreamRequest(name="transactions")
JANUARY, MAY = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 5, 1, tzinfo=UTC)


def last() -> RefusedCall:
    return RefusedCall.unscoped.latest("pk")


@pytest.mark.parametrize(
    ("path", "query", "code", "clause"),
    [
        (LIST, {"fields": "id,from_email"}, "field_not_granted",
         "Grant {} includes the fields body_text, from_name, id, received_at, subject, thread_id; "
         "it does not include “from_email”."),
        (LIST, {"filter__size_bytes__gte": "1"}, "field_not_granted",
         "Grant {} includes the fields body_text, from_name, id, received_at, subject, thread_id; "
         "it does not include “size_bytes”."),
        ("/v1/streams/threads/records", {}, "grant_stream_not_allowed",
         "Grant {} includes the streams messages; it does not include “threads”."),
        ("/v1/streams/transactions/records", {}, "not_found",
         "The granted sources declare messages and threads, but not the requested stream."),
        (LIST, {"connection_id": "cin_bank"}, "connection_not_found",
         "The grants of this token include the connections Personal mail and Work mail; not the "
         "requested one, or not that stream of it."),
        (f"{LIST}/m0", {"connection_id": PERSONAL}, "not_found",
         "Grant {} shows the records of messages from 1 January 2026 on. The requested id is hidden or "
         "does not exist."),
        (f"{LIST}/m1", {}, "ambiguous_connection",
         "The call matches several granted connections and names none."),
        (LIST, {"limit": "-1"}, None, "No clause of a grant: the call itself is invalid."),
    ],
)  # fmt: skip
def test_each_refusal_is_kept_with_the_clause_that_decided(
    world: World, path: str, query: dict[str, str], code: str | None, clause: str
) -> None:
    refused_call = world.get(path, **query)

    row = last()
    assert (row.code, row.request_id) == (
        code or refused_call.error["code"],
        refused_call.error["request_id"],
    )
    assert row.clause == clause.format(world.grants["bob"][0].pk)
    assert row.client_id == world.packages["bob"].client_id
    assert row.clause not in json.dumps(refused_call.body, ensure_ascii=False)


def test_a_refusal_by_several_clauses_is_described_in_general(world: World) -> None:
    past = GrantRequest(connection_ids=[BANK], streams=[BANKING], expires_at=NOW + timedelta(1))
    world.grant("erin", past)

    world.call("DELETE", f"{LIST}/m1", connection_id=PERSONAL)
    assert last().clause == "Only the owner's own token may do this."
    world.get("/v1/schema", "dora", stream="messages", detail="full")
    assert last().clause == "The call matches several granted sources and names none."
    world.get(LIST, "erin")
    assert last().clause == "Every grant of this token has expired."
    revoke_client(world.packages["erin"].client_id, now=timezone.now())
    world.get(LIST, "erin")
    assert last().clause == "Every grant of this token was revoked."


@pytest.mark.parametrize(
    ("terms", "extent"),
    [
        ({"resources": ["m1", "m2"]}, "2 single records of messages"),
        ({}, "the records of messages of any time"),
        ({"until": MAY}, "the records of messages before 1 May 2026"),
        ({"since": JANUARY, "until": MAY},
         "the records of messages from 1 January 2026 on before 1 May 2026"),
    ],
)  # fmt: skip
def test_the_extent_of_a_grant_is_shown(world: World, terms: dict[str, Any], extent: str) -> None:
    of_mail = GrantRequest(
        connection_ids=[PERSONAL], streams=[StreamRequest(name="messages", **terms)]
    )
    world.grant("erin", of_mail, GrantRequest(connection_ids=[BANK], streams=[BANKING]))
    [grant, _] = world.grants["erin"]
    world.get(f"{LIST}/nothing", "erin", connection_id=PERSONAL)
    assert last().clause == (
        f"Grant {grant.pk} shows {extent}. The requested id is hidden or does not exist."
    )


def test_a_field_that_is_shown_but_not_filterable_is_named(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A grant may show a field that it does not allow filtering by."""
    monkeypatch.setattr(grant_terms, "_is_filterable", lambda stream, name: name != "labels")
    fields = ["id", "labels", "subject"]
    of_mail = StreamRequest(name="messages", fields=fields)
    world.grant("erin", GrantRequest(connection_ids=[PERSONAL], streams=[of_mail]))
    world.get(LIST, "erin", filter__labels="home")
    assert last().clause == (
        f"Grant {world.grants['erin'][0].pk} shows “labels”, but allows filtering and sorting only by"
        " id, subject."
    )


def test_hidden_and_missing_records_have_the_same_refusal(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    told = []
    for key in ("m0", "nothing"):
        world.get(f"{LIST}/{key}", connection_id=PERSONAL)
        told.append((last().clause, last().stream, last().param))
    assert told[0] == told[1]
    assert "not stored" not in caplog.text


def test_nothing_that_was_sent_is_kept(world: World) -> None:
    secret = "heimlich"
    for path, query in (
        (LIST, {secret: "1"}),
        (LIST, {"fields": secret}),
        (LIST, {f"filter__{secret}": secret}),
        (f"/v1/streams/{secret}/records", {}),
        (f"{LIST}/{secret}", {}),
        (LIST, {"cursor": secret}),
        ("/v1/search", {"q": secret, "connection_id": secret}),
        (f"/v1/{secret}", {}),
    ):
        assert 400 <= world.get(path, **query).status < 500

    kept = json.dumps(list(RefusedCall.unscoped.values()), default=str)

    assert RefusedCall.unscoped.count() == 7, "a route that is none asks nobody who they are"
    assert secret not in kept
    assert all(token not in kept for token in world.tokens.values())


def test_a_tool_that_is_refused_is_found_by_its_request_id(world: World) -> None:
    result = real.call(world.tokens["bob@mcp"], "query_records", stream="threads")

    row = RefusedCall.unscoped.filter(request_id=error_of(result)["request_id"]).get()

    assert (row.route, row.stream, row.code) == (
        "mcp records",
        "threads",
        "grant_stream_not_allowed",
    )


def test_what_is_not_let_in_is_kept_where_the_client_is_known(world: World) -> None:
    pause_client(world.packages["bob"].client_id, now=timezone.now())
    assert world.get(LIST).status == 403
    assert (last().code, last().clause) == (
        "grant_paused", "Every grant of this token is paused.",
    )  # fmt: skip
    refused = error_of(real.call(world.tokens["bob@mcp"], "schema"))
    [kept] = RefusedCall.unscoped.filter(request_id=refused["request_id"])
    assert (kept.route, kept.code, refused["code"]) == ("mcp", "grant_paused", "grant_paused")
    before = RefusedCall.unscoped.count()
    assert real.post(world.tokens["bob@mcp"]).status_code == 200
    assert RefusedCall.unscoped.count() == before, "a list is not refused"
    revoke_client(world.packages["bob"].client_id, now=timezone.now())
    world.get(LIST)
    assert last().code == "grant_revoked"
    world.get(LIST, "bob@mcp")
    assert last().clause == "The bearer token was issued for /mcp, not for /v1."
    before = RefusedCall.unscoped.count()
    for stranger in ("pdpp_at_unknown", None, "alice"):
        world.get("/v1/streams/nothing/records", stranger)
    assert RefusedCall.unscoped.count() == before, (
        "nobody's calls, and the owner's own, are not kept"
    )


def test_a_paused_grant_among_others_is_named(world: World) -> None:
    bank = world.grants["dora"][2]
    Grant.unscoped.filter(pk=bank.pk).update(paused_at=timezone.now())
    assert world.get("/v1/streams/transactions/records", "dora").status == 403
    assert last().clause == f"Grant {bank.pk} includes it, and is paused."


def test_a_limit_is_a_reason_too(world: World) -> None:
    set_quotas(world.grants["bob"][0].pk, {("records", "day"): 1}, now=timezone.now())
    world.get(LIST)
    assert last().code == "rate_limit_exceeded"
    assert "1 records per day" in last().clause


def test_what_is_answered_leaves_nothing(world: World) -> None:
    assert world.get(LIST).status == 200
    assert not RefusedCall.unscoped.exists()


def test_a_client_that_is_refused_all_the_time_fills_no_table(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner_notices, "MAX_REFUSED_CALLS_PER_HOUR", 3)
    for _ in range(5):
        assert world.get("/v1/streams/threads/records").status == 403
    world.get("/v1/streams/nothing/records", "charlie")
    assert RefusedCall.unscoped.count() == 4
    RefusedCall.unscoped.update(at=timezone.now() - timedelta(hours=2))
    world.get("/v1/streams/threads/records")
    assert RefusedCall.unscoped.count() == 5


def test_pruning_forgets_what_is_old_and_what_is_too_much(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner_notices, "MAX_REFUSED_CALLS", 2)
    for _ in range(5):
        world.get("/v1/streams/threads/records")
    newest: list[Any] = list(RefusedCall.unscoped.order_by("-pk").values_list("pk", flat=True))
    RefusedCall.unscoped.filter(pk=newest[0]).update(at=timezone.now() - timedelta(days=31))
    out = StringIO()

    call_command("prune", stdout=out)

    assert "3 refused calls" in out.getvalue()
    assert [*RefusedCall.unscoped.order_by("-pk").values_list("pk", flat=True)] == newest[1:3]
