"""Two databases that differ only outside a grant give that grant's token the same answers.

Worlds, grants and hidden changes are generated; every route is asked before and after the change
and compared byte for byte, once cursors (whose lengths must agree), request ids and ages are set
aside. This is the product's promise (design, section 5), stated so that it can be run.

The hidden changes include fields that no declaration names, fields whose names and search codes sort
before and after those of the visible ones, and texts that fill every budget of a record. The
environment variable HIDDEN_CHANGES sets how many there are (make test: 18; make test-all: 60;
make non-interference: 10,000).
"""

import copy
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pytest
from django.db import transaction
from django.urls import resolve
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from mcp import Client

from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest
from evidence.api import urls
from evidence.api.base_views import GrantedView
from evidence.models.owners import Owner
from evidence.write.blobs import put_blob
from mcp_adapter.server import TOOLS
from owner.records import people_index
from owner.records.models import PersonCount, PersonMerge
from tests.mcp_adapter import real
from tests.world import BANK, CHAT, MAIL, NOW, PERSONAL, WORK, World, move_in

CURSOR = re.compile(
    r'("(?:next_)?(?:cursor|changes_since)": ?"|(?:cursor|changes_since)=)[A-Za-z0-9_-]{40,}'
)
VOLATILE = re.compile(r'"request_id": ?"[^"]*"')
ASK_URL = re.compile(r"http[^ \"\\]+/ask/[A-Za-z0-9_-]{24}(?![A-Za-z0-9_-])")
"""The link of a permission request: its token is random and as long for every request. Which refusals
have one, and for which stream and fields, is compared."""

FIELDS = (
    "thread_id", "subject", "from_name", "from_email", "received_at", "labels", "is_seen",
    "size_bytes", "body_text", "aa_note", "zz_note",
)  # fmt: skip
SEARCHED = ("aa_note", "subject", "from_name", "from_email", "body_text", "zz_note")
UNDECLARED = ("0_raw", "body_text_raw", "zzz_raw")
KEYS = ("m0", "m1", "m2", "m3", "m4", "w2", "h1", "h2")
WORDS = ("lease", "deposit", "budget", "canal", "signed", "unicorn", "invoice")
FILLINGS = {
    "lexeme bytes": " ".join(f"budget{n:x}" for n in range(120_000)),
    "repetitions": "lease deposit " * 20_000,
    "one word": "unicorn" * 50_000,
    "characters without spaces": "京都" * 20_000,
}
"""Texts that exceed a limit: of a tsvector, of positions, of a word, of passages."""
LONG = " ".join(["unicorn canal", *(f"plain{n:x}" for n in range(4_000))])
"""A visible text in which each word has the lowest impact, so that a budget drops them first."""
CHANGES = int(os.environ.get("HIDDEN_CHANGES", "18"))
CHANGES_PER_EXAMPLE = max(6, min(CHANGES // 8, 100))
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


@dataclass(frozen=True)
class Noise:
    """New values for some fields of one record; the test applies those that the grant hides.

    ``values`` is None where the record is deleted, which is only done to invisible records.
    """

    connection_id: str
    key: str
    values: dict[str, Any] | None
    emitted_at: str = "2026-10-30T00:00:00Z"


grants = st.builds(
    Terms,
    connections=st.sampled_from([(PERSONAL,), (WORK,), (PERSONAL, WORK)]),
    fields=st.one_of(
        st.just(FIELDS),
        st.sets(st.sampled_from(FIELDS)).map(lambda names: tuple(sorted(names))),
    ),
    since=st.sampled_from(
        [None, datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)]
    ),
    keys=st.one_of(st.none(), st.sets(st.sampled_from(KEYS)).map(lambda keys: tuple(sorted(keys)))),
    threads=st.booleans(),
)
texts = st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "received_at": st.sampled_from(DAYS),
    "subject": texts,
    "body_text": texts,
    "aa_note": texts,
    "zz_note": texts,
    "from_name": st.sampled_from(["Eva Lang", "Mara Novak"]),
    "from_email": st.sampled_from(["eva@example.org", "lease@example.org"]),
    "thread_id": st.sampled_from(["t1", "t2", "EUR"]),
    "is_seen": st.booleans(),
    "size_bytes": st.integers(0, 5_000),
    "labels": st.lists(st.sampled_from(["home", "work"]), max_size=2),
    **dict.fromkeys(UNDECLARED, st.one_of(texts, st.integers(0, 9), st.lists(texts, max_size=2))),
}
connections = st.sampled_from([PERSONAL, WORK])
records = st.fixed_dictionaries(
    {"id": st.sampled_from(KEYS), "received_at": VALUES["received_at"]},
    optional={name: values for name, values in VALUES.items() if name != "received_at"},
)
writes = st.lists(st.tuples(connections, records), max_size=6)
noises = st.lists(
    st.builds(
        Noise,
        connection_id=connections,
        key=st.sampled_from(KEYS),
        values=st.one_of(st.none(), *[st.fixed_dictionaries({}, optional=VALUES)] * 5),
        emitted_at=st.sampled_from(["2026-09-01T00:00:00Z", "2026-10-30T00:00:00Z"]),
    ),
    min_size=CHANGES_PER_EXAMPLE // 2,
    max_size=CHANGES_PER_EXAMPLE * 3 // 2,
)
fillings = st.builds(
    lambda connection_id, key, field, filling: Noise(connection_id, key, {field: filling}),
    connections,
    st.sampled_from(KEYS),
    st.sampled_from(SEARCHED + UNDECLARED),
    st.sampled_from(sorted(FILLINGS)),
)
"""The name of the filling stands for its text until it is written: an example has to be readable."""
ALL_FIELDS = Terms((PERSONAL,), FIELDS, None, None)


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
        {"sort": "-size_bytes", "limit": 2}, {"filter__labels": "home"}, {"after": "2026-01-11"},
        {"filter__body_text__contains": "unicorn"}, {"filter__body_text__words": "lease"},
        {"filter__subject__ne": "Lease signed"}, {"filter__subject": "Old lease draft"},
        {"filter__size_bytes": 10, "filter__is_seen": "true"},
        {"filter__from_name__in": ["Eva Lang", "Nobody"], "filter__size_bytes__in": [10, 700]},
    ):  # fmt: skip
        yield f"{base}/records", query
    for key in KEYS:
        yield f"{base}/records/{quote(key)}", {}
        yield f"{base}/records/{quote(key)}/field-window", {"field": "body_text"}
        yield (
            f"{base}/records/{quote(key)}/field-window",
            {"field": "subject", "q": "lease", "connection_id": PERSONAL},
        )
    for q in ("lease", "lease deposit", "unicorn canal", "budget*", "lease -signed", '"lease signed"', '"deposit lease" OR "signed budget"',
              "from_email:lease", "eva", "lease OR budget", "unicrn", "nuicorn", "depositt unicornn",
              "lease 10 January 2026", "2026-03-05"):  # fmt: skip
        yield "/v1/search", {"q": q, "limit": 2}
    exact = ("lease", "signing", "lease OR unicorn", "budget café", '-"=Lease" deposit')
    yield from (("/v1/search", {"q": q, "match": "exact"}) for q in exact)
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
        {"metrics": "count,avg,max:received_at", "field": "size_bytes", "group_by": "from_name",
         "group_by_time": "received_at", "granularity": "month", "limit": 1, "sort": "-count"},
        {"metrics": "count,sum", "field": "size_bytes", "group_by": "from_name,is_seen"},
        {"metric": "count", "group_by": "thread_id", "filter__from_name__in": ["Alice", "Eva Lang"]},
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
    ("search", {"q": "unicrn Canal", "match": "exact"}),
    ("aggregate", {"stream": "messages", "metric": "count", "group_by": "from_name"}),
    (
        "aggregate",
        {
            "stream": "messages",
            "metrics": ["count", "sum:size_bytes"],
            "limit": 2,
            "group_by": "from_name",
            "group_by_time": "received_at",
            "granularity": "month",
        },
    ),
    ("fetch", {"id": f"{PERSONAL}/messages:m1"}),
    ("fetch", {"id": "messages:m1"}),
    ("read_record_field", {"id": f"{WORK}/messages:m1", "field_path": "body_text", "q": "budget"}),
)


def plain_text(text: str) -> str:
    """The text without request ids, cursors, and the random tokens of links."""
    return VOLATILE.sub("", CURSOR.sub(r"\1…", ASK_URL.sub("/ask/…", text)))


def told_by_tools(token: str) -> list[tuple[str, str, tuple[int, ...]]]:
    """Both channels of every tool, with what may differ set aside."""

    async def work(client: Client) -> list[Any]:
        return [await client.call_tool(tool, arguments) for tool, arguments in TOOLS_ASKED]

    answers = []
    for (tool, arguments), result in zip(TOOLS_ASKED, real.ask(token, work), strict=True):
        text = json.dumps([result.is_error, result.structured_content], sort_keys=True)
        text += "".join(block.text for block in result.content)
        lengths = tuple(len(match.group(0)) for match in CURSOR.finditer(text))
        answers.append((f"{tool} {arguments}", plain_text(text), lengths))
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
        assert answer.status < 500, (path, query)
        answers.append((f"{path} {query}", answer.status, plain_text(text), lengths))
    return answers


@pytest.fixture
def noted(world: World, embedder: None) -> World:
    """The cast's mail with two more searched fields, first and last in the order of search codes."""
    document = copy.deepcopy(MAIL)
    document["version"] = "1.1.0"
    messages = document["streams"][0]
    note = {"type": ["string", "null"]}
    fields = messages["schema"]["properties"]
    messages["schema"]["properties"] = {"aa_note": note, **fields, "zz_note": note}
    # Sums then have a currency, several, or one that is not granted.
    fields["size_bytes"]["x_pdpp_money"] = {"currency_field": "thread_id", "unit": "minor"}
    messages["query"]["search"]["lexical_fields"] = list(SEARCHED)
    messages["query"]["search"]["semantic_fields"] = ["body_text", "zz_note"]
    world.declare(document)
    return world


@settings(
    max_examples=CHANGES // CHANGES_PER_EXAMPLE,
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.large_base_example,
    ],
)
@given(terms=grants, before=writes, after=noises, filling=fillings)
@example(
    terms=ALL_FIELDS,
    before=[],
    after=[Noise(PERSONAL, "m1", dict.fromkeys(UNDECLARED, "lease"))],
    filling=Noise(PERSONAL, "m1", {"0_raw": "lexeme bytes"}),
)
@example(
    terms=Terms((PERSONAL,), ("body_text", "subject"), None, None),
    before=[],
    after=[],
    filling=Noise(PERSONAL, "m1", {"aa_note": "lexeme bytes"}),
)
def test_what_is_outside_a_grant_changes_no_answer(
    noted: World, terms: Terms, before: Any, after: list[Noise], filling: Noise
) -> None:
    with transaction.atomic():
        noted.grant("zoe", terms.request())
        for connection_id, data in before:
            noted.put((connection_id, "messages", data))
        _put_long_texts(noted, filling.connection_id, filling.key)
        noted.embed()
        first = told(noted, terms)
        by_tools = told_by_tools(noted.tokens["zoe@mcp"])
        _change_what_is_hidden(noted, terms, [filling, *after])
        waiting = told(noted, terms, under="/v1/search")
        noted.embed()
        second = told(noted, terms)
        by_tools_again = told_by_tools(noted.tokens["zoe@mcp"])
        transaction.set_rollback(True)
    for one, other in zip(first, second, strict=True):
        assert one == other
    for tool, again in zip(by_tools, by_tools_again, strict=True):
        assert tool == again
    searches = [each for each in first if each[0].startswith("/v1/search")]
    for one, other in zip(searches, waiting, strict=True):
        assert one == other


def test_people_that_join_sources_change_no_answer(noted: World) -> None:
    """Mentions, counts and merges of people exist in one of two databases; the answers are equal."""
    terms = Terms((PERSONAL, WORK), FIELDS[:-2], None, None, threads=True)
    document = copy.deepcopy(MAIL)
    document["version"] = "1.2.0"
    fields = document["streams"][0]["schema"]["properties"]
    fields["labels"]["x_pdpp_role"] = "participant"
    fields["thread_id"]["x_pdpp_role"] = "thread"
    noted.declare(document)
    noted.put((WORK, "messages", {"id": "h1", "subject": "lease", "from_email": "eva@example.org",
                                  "labels": ["jonas@example.org", "Eva Lang", "0170 1234567"],
                                  "received_at": DAYS[1]}))  # fmt: skip
    noted.grant("zoe", terms.request())
    first = told(noted, terms), told_by_tools(noted.tokens["zoe@mcp"])

    Owner.unscoped.update(country="DE")
    sum(people_index.derive_people())
    people = dict(PersonCount.unscoped.values_list("identity", "person"))
    known = {"mail:eva@example.org", "mail:jonas@example.org", "tel:+491701234567"}
    assert known <= people.keys()
    for identity in people:
        PersonMerge.unscoped.create(
            owner_id=noted.owner_id,
            identity=identity,
            person=people["mail:eva@example.org"],
            merged_at=NOW,
        )
    people_index.join_people()
    assert PersonCount.unscoped.values("person").distinct().count() == 1

    second = told(noted, terms), told_by_tools(noted.tokens["zoe@mcp"])
    for one, other in zip((*first[0], *first[1]), (*second[0], *second[1]), strict=True):
        assert one == other


@pytest.mark.slow
def test_phrases_in_hidden_fields_do_not_change_what_a_search_may_read(
    noted: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The work of a search is enough for the record with the phrase, and for no other."""
    monkeypatch.setattr("evidence.search.results.WORK_PER_SEARCH", 100)
    terms = Terms((PERSONAL,), ("received_at", "subject"), None, None)
    noted.grant("zoe", terms.request())
    subjects = [f"unicorn {'x' * 40}{number} harbor" for number in range(5)]
    mails = [
        {"id": f"u{number}", "subject": subject, "received_at": DAYS[2]}
        for number, subject in enumerate([*subjects, "unicorn harbor"])
    ]
    noted.put(*((PERSONAL, "messages", {**mail, "zz_note": "none"}) for mail in mails))
    first = noted.get("/v1/search", "zoe", q='"unicorn harbor"').body
    assert [hit["record_key"] for hit in first["data"]] == ["u5"]
    assert not first["has_more"]

    noted.put(*((PERSONAL, "messages", {**mail, "zz_note": "unicorn harbor"}) for mail in mails),
              emitted_at="2026-10-30T00:00:00Z")  # fmt: skip
    second = noted.get("/v1/search", "zoe", q='"unicorn harbor"').body
    assert plain_text(json.dumps(second)) == plain_text(json.dumps(first))


def _put_long_texts(world: World, connection_id: str, key: str) -> None:
    """A record with long texts in the fields that other tests show, which a budget could cut."""
    long = {"body_text": LONG, "subject": LONG, "received_at": DAYS[2], "id": key}
    world.put((connection_id, "messages", long))


def _change_what_is_hidden(world: World, terms: Terms, noises: list[Noise]) -> None:
    """Apply the hidden part of each change, and much that no grant of this test could ever show.

    Another owner moves in, too, with connections, records and apps of the same ids.
    """
    move_in()
    current = {
        (record["connection_id"], record["id"]): record["data"]
        for connection_id in (PERSONAL, WORK)
        for record in world.get(
            "/v1/streams/messages/records", "alice", connection_id=connection_id, limit=100
        ).body["data"]
    }
    lines = []
    for noise in noises:
        place = noise.connection_id, noise.key
        data = _hidden_change(terms, noise, current.get(place))
        if data == current.get(place):
            continue
        line = {"connection_id": noise.connection_id, "stream": "messages", "key": noise.key,
                "emitted_at": noise.emitted_at}  # fmt: skip
        lines.append({**line, "op": "delete"} if data is None else {**line, "data": data})
        if data is None:
            del current[place]
        else:
            current[place] = data
    outcome = world.send(lines)
    assert outcome.accepted == len(lines)
    _store_html(world, current)
    _change_other_streams(world, terms)


def _store_html(world: World, current: dict[tuple[str, str], dict[str, Any]]) -> None:
    """Give mails the HTML that no grant covers, as the importers of mail store it."""
    reference = {"blob_id": "blb_hidden", "media_type": "text/html"}
    for connection_id in {place[0] for place in current}:
        key = min(key for place, key in current if place == connection_id)
        data = current[connection_id, key] | {"blob_ref": reference}
        world.put((connection_id, "messages", data))
        put_blob(connection_id, stream="messages", record_key=key, media_type="text/html",
                 chunks=[b"<p>lease deposit</p>"], now=NOW, blob_id="blb_hidden")  # fmt: skip


def _hidden_change(terms: Terms, noise: Noise, now: dict[str, Any] | None) -> dict[str, Any] | None:
    """The record after as much of a change as the oracle calls invisible; None: it is not there."""
    seen = None if now is None else terms.shows(noise.connection_id, now)
    if noise.values is None:
        return None if seen is None else now
    values = {name: FILLINGS.get(value, value) if isinstance(value, str) else value
              for name, value in noise.values.items()}  # fmt: skip
    if seen is not None:
        values = {name: value for name, value in values.items() if name not in terms.fields}
    changed = {"id": noise.key, "received_at": None, **(now or {}), **values}
    return changed if terms.shows(noise.connection_id, changed) == seen else now


def _change_other_streams(world: World, terms: Terms) -> None:
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
