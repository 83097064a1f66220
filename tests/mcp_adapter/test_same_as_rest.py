"""Tools return the same data as REST under the same grant."""

from typing import Any

import mcp_types as types
import pytest
from django.utils import timezone
from mcp import Client

from evidence.access import grants
from tests.mcp_adapter import real
from tests.mcp_adapter.hosts import error_of, structured
from tests.scenarios import scenario
from tests.world import PERSONAL, WORK, World

pytestmark = pytest.mark.django_db
_DIFFERS = frozenset(
    {"request_id", "next_cursor", "next_changes_since", "links", "url", "next_step"}
)


def without_volatile(value: Any) -> Any:
    """Return the value without members that differ between requests."""
    if isinstance(value, dict):
        return {
            name: without_volatile(member) for name, member in value.items() if name not in _DIFFERS
        }
    return [without_volatile(member) for member in value] if isinstance(value, list) else value


READS: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
    ("search", {"q": "lease", "limit": 3}, "/v1/search",
     {"q": "lease", "limit": 3, "form": "compact"}),
    ("search", {"q": "budget", "connection_id": WORK}, "/v1/search",
     {"q": "budget", "connection_id": WORK, "limit": 10, "form": "compact"}),
    ("query_records", {"stream": "transactions", "order": "asc"},
     "/v1/streams/transactions/records", {"order": "asc", "form": "compact"}),
    ("query_records", {"stream": "messages", "connection_id": PERSONAL, "fields": ["subject"],
                       "filter": {"subject": "Lease signed"}, "count": "exact"},
     "/v1/streams/messages/records",
     {"connection_id": PERSONAL, "fields": "subject", "filter__subject": "Lease signed",
      "count": "exact", "form": "compact"}),
    ("aggregate", {"stream": "transactions", "metric": "count"},
     "/v1/streams/transactions/aggregate", {"metric": "count"}),
    ("aggregate", {"stream": "transactions", "metric": "count", "group_by": "name"},
     "/v1/streams/transactions/aggregate", {"metric": "count", "group_by": "name", "limit": 100}),
]  # fmt: skip


@scenario("C5", "A7")
@pytest.mark.parametrize("who", ["bob", "charlie", "dora"])
def test_structured_data_equals_rest_body(world: World, who: str) -> None:
    for tool, arguments, path, query in READS:
        answer = world.get(path, who=who, **query)

        result = real.call(world.tokens[f"{who}@mcp"], tool, **arguments)

        if answer.status == 200:
            assert without_volatile(structured(result)["data"]) == without_volatile(answer.body)
        else:
            assert without_volatile(error_of(result)) == without_volatile(answer.error)


def test_window_equals_rest_window(world: World) -> None:
    where = {"connection_id": PERSONAL, "q": "deposit", "before_chars": 5, "after_chars": 5}
    answer = world.get(
        "/v1/streams/messages/records/m1/field-window", who="bob", field="body_text", **where
    )

    window = structured(
        real.call(world.tokens["bob@mcp"], "read_record_field", stream="messages", record_id="m1",
                  field_path="body_text", **where)
    )["window"]  # fmt: skip

    assert {name: window[name] for name in answer.body["window"]} == answer.body["window"]


@scenario("C6")
def test_owner_token_is_refused(world: World) -> None:
    answer = real.post(world.tokens["alice"])

    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "permission_error"


def test_rest_and_mcp_tokens_are_not_interchangeable(world: World) -> None:
    assert world.get("/v1/schema", who="dora@mcp").status == 401
    assert real.post(world.tokens["dora"]).status_code == 401
    assert real.post(world.tokens["dora@mcp"]).status_code == 200


def test_revoked_grant_fails_on_the_next_call(world: World) -> None:
    bearer = world.tokens["bob@mcp"]

    async def work(client: Client) -> tuple[types.CallToolResult, types.CallToolResult]:
        before = await client.call_tool("search", {"q": "lease"})
        await real.run_in_test_thread(lambda: revoke(world, "bob"))
        return before, await client.call_tool("search", {"q": "lease"})

    before, after = real.ask(bearer, work, way="stdio")
    over_http = real.post(bearer)

    assert not before.is_error
    assert error_of(after)["code"] == "grant_revoked"
    assert over_http.status_code == 401
    assert over_http.json()["error"]["code"] == "grant_revoked"
    assert 'error="invalid_token"' in over_http.headers["www-authenticate"]


def revoke(world: World, who: str) -> None:
    for grant in world.grants[who]:
        grants.revoke_grant(grant.grant_id, now=timezone.now())
