"""Two databases that differ only outside a grant give that grant's token the same answers.

Worlds, grants and hidden changes are generated; every route is asked before and after the change
and compared byte for byte, once cursors (whose lengths must agree), request ids and ages are set
aside. This is the product's promise (design, section 5), stated so that it can be run.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pytest
from django.db import transaction
from django.urls import resolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp import Client

from evidence.access.issuing import GrantRequest
from evidence.access.resolving import StreamRequest
from evidence.api import urls
from evidence.api.base import GrantedView
from mcp_adapter.registry import TOOLS
from tests.mcp_adapter import real
from tests.world import BANK, CHAT, PERSONAL, WORK, World

CURSOR = re.compile(
    r'("next_(?:cursor|changes_since)": ?"|(?:cursor|changes_since)=)[A-Za-z0-9_-]{40,}'
)
VOLATILE = re.compile(r'"request_id": ?"[^"]*"')

FIELDS = (
    "thread_id", "subject", "from_name", "from_email", "received_at", "labels", "is_seen",
    "size_bytes", "body_text",
)  # fmt: skip
KEYS = ("m0", "m1", "m2", "m3", "m4", "w2", "h1", "h2")
WORDS = ("lease", "deposit", "budget", "canal", "signed", "unicorn", "invoice")
DAYS = ("2025-06-01T08:00:00Z", "2026-01-10T09:00:00Z", "2026-03-05T18:30:00Z", None)


@dataclass(frozen=True)
class Terms:
    """A grant of the stream ``messages``."""

    connections: tuple[str, ...]
    fields: tuple[str, ...]
    since: datetime | None
    keys: tuple[str, ...] | None
    threads: bool = False

    def request(self) -> GrantRequest:
        return GrantRequest(
            connection_ids=self.connections,
            streams=[
                StreamRequest(
                    name="messages", fields=self.fields, since=self.since, resources=self.keys
                ),
                *([StreamRequest(name="threads")] if self.threads else []),
            ],
        )

    def shows(self, connection_id: str, data: dict[str, Any]) -> dict[str, Any] | None:
        """The oracle: what the grant shows of a record, in a few plain lines of its own."""
        at = data.get("received_at")
        if connection_id not in self.connections:
            return None
        if self.keys is not None and data["id"] not in self.keys:
            return None
        if self.since is not None and (at is None or datetime.fromisoformat(at) < self.since):
            return None
        return {name: data[name] for name in data if name == "id" or name in self.fields}


grants = st.builds(
    Terms,
    connections=st.sampled_from([(PERSONAL,), (WORK,), (PERSONAL, WORK)]),
    fields=st.sets(st.sampled_from(FIELDS)).map(lambda names: tuple(sorted(names))),
    since=st.sampled_from(
        [None, datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)]
    ),
    keys=st.one_of(st.none(), st.sets(st.sampled_from(KEYS)).map(lambda keys: tuple(sorted(keys)))),
    threads=st.booleans(),
)
texts = st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join)
records = st.fixed_dictionaries(
    {"id": st.sampled_from(KEYS), "received_at": st.sampled_from(DAYS)},
    optional={
        "subject": texts,
        "body_text": texts,
        "from_name": st.sampled_from(["Eva Lang", "Mara Novak"]),
        "from_email": st.sampled_from(["eva@example.org", "lease@example.org"]),
        "thread_id": st.sampled_from(["t1", "t2"]),
        "is_seen": st.booleans(),
        "size_bytes": st.integers(0, 5_000),
        "labels": st.lists(st.sampled_from(["home", "work"]), max_size=2),
    },
)
writes = st.lists(st.tuples(st.sampled_from([PERSONAL, WORK]), records), max_size=6)


def routes(terms: Terms) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every way to ask."""
    yield "/v1/schema", {}
    yield "/v1/schema", {"view": "compact"}
    yield "/v1/schema", {"view": "index"}
    yield "/v1/schema", {"stream": "messages", "detail": "full"}
    yield "/v1/streams", {}
    yield "/v1/streams/messages", {}
    yield "/v1/connectors", {}
    yield "/v1/event-subscriptions", {}
    yield "/v1/event-subscriptions/sub_none", {}
    yield "/v1/streams/threads/records", {}
    yield "/v1/streams/transactions/records", {}
    base = "/v1/streams/messages"
    for query in (
        {}, {"order": "asc"}, {"limit": 2}, {"count": "exact"}, {"window": "exact"},
        {"max_bytes": 4000}, {"sort": "-received_at"}, {"fields": "subject"}, {"view": "envelope"},
        {"filter__is_seen": "true"}, {"filter__size_bytes__gte": 100}, {"connection_id": WORK},
        {"filter__from_name": "Eva Lang"}, {"connection_id": CHAT}, {"changes_since": "beginning"},
    ):  # fmt: skip
        yield f"{base}/records", query
    for key in KEYS:
        yield f"{base}/records/{quote(key)}", {}
        yield f"{base}/records/{quote(key)}/field-window", {"field": "body_text"}
        yield (
            f"{base}/records/{quote(key)}/field-window",
            {"field": "subject", "q": "lease", "connection_id": PERSONAL},
        )
    for q in ("lease", "lease deposit", "unicorn canal", "budget*", "lease -signed", '"lease signed"',
              "from_email:lease", "eva", "lease OR budget", "unicrn", "depositt unicornn"):  # fmt: skip
        yield "/v1/search", {"q": q, "limit": 2}
    yield "/v1/search", {"q": "lease", "sort": "-time"}
    for mode in ("semantic", "hybrid"):
        for q in ("lease deposit", "unicorn canal", "budgett signed"):
            yield "/v1/search", {"q": q, "limit": 2, "mode": mode}
    for mode in ("lexical", "hybrid"):
        for chosen in ({"filter__is_seen": "true"}, {"filter__size_bytes__gte": 100}):
            yield "/v1/search", {"q": "lease", "streams": "messages", "mode": mode, **chosen}
    for query in (
        {"metric": "count"}, {"metric": "sum", "field": "size_bytes"},
        {"metric": "count", "group_by": "from_name"},
        {"metric": "count_distinct", "field": "from_name"},
        {"metric": "max", "field": "received_at"},
        {"metric": "count", "group_by_time": "received_at", "granularity": "month"},
    ):  # fmt: skip
        yield f"{base}/aggregate", query
    for path, query in (
        ("/v1/streams/messages/records", {"expand": "thread"}),
        ("/v1/streams/messages/records/m1", {"expand": "thread", "connection_id": PERSONAL}),
        ("/v1/streams/threads/records", {"expand": "messages", "expand_limit__messages": 5}),
        ("/v1/streams/threads/records/t1", {"expand": "messages"}),
        ("/v1/streams/threads/aggregate", {"metric": "count"}),
        ("/v1/blobs/blb_hidden", {}),
        ("/v1/search/semantic", {"q": "lease deposit", "limit": 2}),
        ("/v1/search/hybrid", {"q": "lease deposit", "limit": 2}),
    ):
        yield path, dict(query)


TOOLS_ASKED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("schema", {}),
    ("schema", {"stream": "messages"}),
    ("schema", {"stream": "messages", "detail": "full", "connection_id": PERSONAL}),
    ("query_records", {"stream": "messages"}),
    ("query_records", {"stream": "messages", "limit": 2, "max_bytes": 4000, "count": "exact"}),
    ("query_records", {"stream": "messages", "changes_since": "beginning"}),
    ("query_records", {"stream": "threads", "expand": ["messages"]}),
    ("search", {"q": "lease"}),
    ("search", {"q": "unicrn canal", "mode": "hybrid"}),
    ("aggregate", {"stream": "messages", "metric": "count", "group_by": "from_name"}),
    ("fetch", {"id": f"{PERSONAL}/messages:m1"}),
    ("fetch", {"id": "messages:m1"}),
    ("read_record_field", {"id": f"{WORK}/messages:m1", "field_path": "body_text", "q": "budget"}),
)


def told_by_tools(token: str) -> list[tuple[str, str, tuple[int, ...]]]:
    """Both channels of every tool, with what may differ set aside."""

    async def work(client: Client) -> list[Any]:
        return [await client.call_tool(tool, arguments) for tool, arguments in TOOLS_ASKED]

    answers = []
    for (tool, arguments), result in zip(TOOLS_ASKED, real.ask(token, work), strict=True):
        text = json.dumps([result.is_error, result.structured_content], sort_keys=True)
        text += "".join(block.text for block in result.content)
        lengths = tuple(len(match.group(0)) for match in CURSOR.finditer(text))
        plain = VOLATILE.sub("", CURSOR.sub(r"\1…", text))
        answers.append((f"{tool} {arguments}", plain, lengths))
    return answers


def test_every_route_that_reads_is_asked() -> None:
    """A route that no world is compared over would be a hole in the promise."""
    terms = Terms((PERSONAL,), (), None, None, threads=True)
    asked = {resolve(path).route for path, _ in routes(terms)}
    reading = {
        f"v1/{each.pattern}"
        for each in urls.urlpatterns
        if issubclass(each.callback.cls, GrantedView)
        and hasattr(each.callback.cls, "get")
        and not each.callback.cls.owner_only
    }

    assert reading <= asked, reading - asked


def test_every_tool_is_asked() -> None:
    assert {tool for tool, _ in TOOLS_ASKED} == set(TOOLS)


def told(
    world: World, terms: Terms, *, under: str = ""
) -> list[tuple[str, int, str, tuple[int, ...]]]:
    """All answers of routes ``under`` a path, with what may differ set aside and the lengths of
    cursors kept."""
    answers = []
    for path, query in routes(terms):
        if not path.startswith(under):
            continue
        answer = world.get(path, "zoe", **query)
        text = json.dumps(answer.body, sort_keys=True)
        lengths = tuple(len(match.group(0)) for match in CURSOR.finditer(text))
        plain = VOLATILE.sub("", CURSOR.sub(r"\1…", text))
        answers.append((f"{path} {query}", answer.status, plain, lengths))
    return answers


@pytest.mark.long
@settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(terms=grants, before=writes, after=writes)
def test_what_is_outside_a_grant_changes_no_answer(
    world: World, terms: Terms, before: Any, after: Any
) -> None:
    with transaction.atomic():
        world.grant("zoe", terms.request())
        for connection_id, data in before:
            world.put((connection_id, "messages", data))
        world.embed()
        first = told(world, terms)
        by_tools = told_by_tools(world.tokens["zoe@mcp"])
        _change_what_is_hidden(world, terms, after)
        waiting = told(world, terms, under="/v1/search")
        world.embed()
        second = told(world, terms)
        by_tools_again = told_by_tools(world.tokens["zoe@mcp"])
        transaction.set_rollback(True)
    for one, other in zip(first, second, strict=True):
        assert one == other
    for tool, again in zip(by_tools, by_tools_again, strict=True):
        assert tool == again
    searches = [each for each in first if each[0].startswith("/v1/search")]
    for one, other in zip(searches, waiting, strict=True):
        assert one == other


def _change_what_is_hidden(world: World, terms: Terms, changes: Any) -> None:
    """Each change that the oracle calls invisible, and much that no grant here could ever show."""
    current = {
        (record["connection_id"], record["id"]): record["data"]
        for connection_id in (PERSONAL, WORK)
        for record in world.get(
            "/v1/streams/messages/records", "alice", connection_id=connection_id, limit=100
        ).body["data"]
    }
    for connection_id, data in changes:
        now = current.get((connection_id, data["id"]))
        seen_now = terms.shows(connection_id, now) if now is not None else None
        if terms.shows(connection_id, data) == seen_now:
            world.put((connection_id, "messages", data), emitted_at="2026-10-30T00:00:00Z")
            current[connection_id, data["id"]] = data
    world.put(
        (CHAT, "messages", {"id": "c9", "sent_at": "2026-09-01T00:00:00Z", "text": "lease budget"}),
        (BANK, "transactions", {"id": "b9", "date": "2026-09-01", "amount": 1, "name": "lease"}),
        *(
            (hidden, "threads", {"id": "t2", "topic": "lease"})
            for hidden in (PERSONAL, WORK)
            if not (terms.threads and hidden in terms.connections)
        ),
        emitted_at="2026-10-30T00:00:00Z",
    )
    world.connect("cin_other", "mail", "Another mailbox")
    world.put(("cin_other", "messages", {"id": "m2", "received_at": DAYS[2], "subject": "lease",
        "body_text": "lease deposit signed budget"}))  # fmt: skip
    world.grant("yuri", GrantRequest(
        connection_ids=["cin_other"], streams=[StreamRequest(name="messages")]))  # fmt: skip
