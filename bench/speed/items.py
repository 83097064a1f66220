"""What is asked: every figure of the table, with the requests behind it and what it is held against."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.speed import wire
from bench.speed.corpus import Connection, Corpus

PAGE = 25
EXPORT_PAGE = 100
EXPORTED = 100_000
WINDOW_CHARS = 4_096
MCP_HITS = 6
LAST = "~"
"""Comes after every sort key and record key."""


@dataclass(frozen=True)
class Item:
    """`floor` are requests to the other process for the same rows; `beside` names another item of
    the same server that it is compared with instead. `limit` is the size of a page to follow."""

    name: str
    requests: Sequence[str]
    floor: Sequence[str] = ()
    beside: str = ""
    limit: int = 0


@dataclass(frozen=True)
class Tokens:
    """Bearers: over everything, for REST and for agents, and over a hundredth of the time."""

    rest: str
    mcp: str
    narrow: str


@dataclass(frozen=True)
class Asking:
    """What requests are made of. `keys` are some records of each connection."""

    corpus: Corpus
    tokens: Tokens
    keys: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def get(self, path: str, **query: object) -> str:
        return wire.get(path, query, bearer=self.tokens.rest)

    def records(self, where: Connection, **query: object) -> str:
        path = f"/v1/streams/{where.stream}/records"
        return self.get(path, connection_id=where.connection_id, **query)

    def search(self, words: str, *, bearer: str = "", **query: object) -> str:
        return wire.get("/v1/search", {"q": words, **query}, bearer=bearer or self.tokens.rest)

    def window(self, where: Connection, key: str, name: str, start: int) -> str:
        return self.get(
            f"{wire.record(where.stream, key)}/field-window",
            connection_id=where.connection_id,
            field=name,
            offset_chars=start,
            limit_chars=WINDOW_CHARS,
        )

    def every(self) -> Iterator[tuple[Connection, str]]:
        """The sample keys of all connections, in turn."""
        most = max(map(len, self.keys.values()))
        for number in range(most):
            for where in self.corpus.connections:
                keys = self.keys[where.connection_id]
                yield where, keys[number % len(keys)]


def reading(asking: Asking) -> Iterator[Item]:
    """Lists, records, windows, schema, counts."""
    corpus, get = asking.corpus, asking.get
    everywhere = corpus.connections
    yield Item(
        "list of 25 records",
        [asking.records(each, limit=PAGE) for each in everywhere],
        [_page(asking, each, PAGE) for each in everywhere],
    )
    yield Item(
        "changes since the beginning, 25",
        [asking.records(each, limit=PAGE, changes_since="beginning") for each in everywhere],
        [_page(asking, each, PAGE) for each in everywhere],
    )
    sample = list(asking.every())
    yield Item(
        "one record",
        [get(wire.record(w.stream, k), connection_id=w.connection_id) for w, k in sample],
        [_keyed(asking, "record", w, k) for w, k in sample],
    )
    big = corpus.truth["big_record"]
    long = Connection(big["connection_id"], big["stream"])
    texts = [(long, key) for key in asking.keys[long.connection_id]]
    for name, records, start in (
        ("field window", texts, 0),
        ("field window, middle of 1 MB", [(long, big["key"])], 500_000),
    ):
        yield Item(
            name,
            [asking.window(w, k, big["field"], start) for w, k in records],
            [
                _keyed(asking, "window", w, k, field=big["field"], **_span(start))
                for w, k in records
            ],
        )
    where = {"connection_id": corpus.largest.connection_id, "stream": corpus.largest.stream}
    yield Item(
        "months of the largest connection", [_months(asking)], [get("/floor/months", **where)]
    )
    yield Item(
        "list with count=exact",
        [asking.records(corpus.largest, limit=1, count="exact")],
        [get("/floor/count", **where)],
    )
    yield Item("schema, whole", [get("/v1/schema")], [get("/floor/declarations")])
    yield Item("schema, compact", [get("/v1/schema", view="compact")], [get("/floor/declarations")])
    yield Item(
        "export by pages of 100",
        [asking.records(corpus.largest, limit=EXPORT_PAGE)],
        [_page(asking, corpus.largest, EXPORT_PAGE)],
        limit=EXPORT_PAGE,
    )


def searching(asking: Asking) -> Iterator[tuple[str, str]]:
    """Every search by name. Rare words come from the truth, the others from its frequencies."""
    truth, words = asking.corpus.truth, asking.corpus.words
    rare = max(truth["needles"], key=lambda word: (len(truth["needles"][word]) <= 50, word))
    common, stopword = words[1], words[0]
    largest = asking.corpus.largest.connection_id
    yield "search: rare word", asking.search(rare)
    yield "search: common word, one connection", asking.search(common, connection_id=largest)
    yield "search: common word, all", asking.search(common)
    yield "search: two common words", asking.search(next(iter(truth["two_term_and_df"])))
    yield "search: stopword-like word", asking.search(stopword)
    yield "search: phrase", asking.search(f'"{stopword} {common}"')
    yield "search: prefix", asking.search(f"{common[:4]}*")
    narrow = asking.tokens.narrow
    yield "search: common word, 1 % of the time", asking.search(common, bearer=narrow)
    yield "search: stopword-like word, 1 % of the time", asking.search(stopword, bearer=narrow)
    yield "search: two words with few in common", asking.search(truth["pair"]["query"])


def found_rows(asking: Asking, answer: Mapping[str, Any]) -> list[str]:
    """The floor of a search: the records that it found, by their keys."""
    hits = answer["data"]
    names = {"connection_ids": "connection_id", "streams": "stream", "keys": "record_key"}
    query = {name: "|".join(hit[member] for hit in hits) for name, member in names.items()}
    return [asking.get("/floor/rows", **query)] if hits else []


def calling(asking: Asking) -> Iterator[Item]:
    """The MCP surface; each call beside the REST request that it comes to."""
    bearer, corpus = asking.tokens.mcp, asking.corpus
    echo = [wire.call("echo", {"text": "hello"}, bearer=bearer)]
    short = min(corpus.connections, key=lambda each: corpus.truth["counts"][each.connection_id])
    short = next((each for each in corpus.connections if each.stream != "messages"), short)
    page = {
        "stream": short.stream,
        "connection_id": short.connection_id,
        "limit": PAGE,
        "max_bytes": 50_000,
    }
    yield Item("MCP query_records, 25", [wire.call("query_records", page, bearer=bearer)], echo)
    rare = min(
        corpus.truth["needles"], key=lambda word: abs(len(corpus.truth["needles"][word]) - 5)
    )
    yield Item("REST search as MCP asks", [asking.search(rare, limit=MCP_HITS)])
    yield Item(
        "MCP search",
        [wire.call("search", {"q": rare}, bearer=bearer)],
        beside="REST search as MCP asks",
    )
    where, key = short, asking.keys[short.connection_id][0]
    short_id = f"{where.connection_id}/{where.stream}:{key}"
    yield Item(
        "REST record as MCP asks",
        [asking.get(wire.record(where.stream, key), connection_id=where.connection_id)],
    )
    yield Item(
        "MCP fetch",
        [wire.call("fetch", {"id": short_id}, bearer=bearer)],
        beside="REST record as MCP asks",
    )
    big = corpus.truth["big_record"]
    long = Connection(big["connection_id"], big["stream"])
    text = asking.keys[long.connection_id][0]
    asked = {"id": f"{long.connection_id}/{long.stream}:{text}", "field_path": big["field"]}
    yield Item("REST window as MCP asks", [asking.window(long, text, big["field"], 0)])
    yield Item(
        "MCP read_record_field",
        [wire.call("read_record_field", asked, bearer=bearer)],
        beside="REST window as MCP asks",
    )
    yield Item("MCP tools/list", [wire.tools_list(bearer=bearer)], echo)


def _months(asking: Asking) -> str:
    """A histogram by month over the connection with the most records."""
    where = asking.corpus.largest
    return asking.get(
        f"/v1/streams/{where.stream}/aggregate",
        metric="count",
        connection_id=where.connection_id,
        group_by_time=asking.corpus.time_fields[where.connection_id],
        granularity="month",
        limit=100,
    )


def _page(asking: Asking, where: Connection, limit: int) -> str:
    return asking.get(
        "/floor/page",
        connection_id=where.connection_id,
        stream=where.stream,
        before=LAST,
        key=LAST,
        limit=limit,
    )


def _keyed(asking: Asking, what: str, where: Connection, key: str, **more: object) -> str:
    named = {"connection_id": where.connection_id, "stream": where.stream, "key": key}
    return asking.get(f"/floor/{what}", **named, **more)


def _span(start: int) -> dict[str, int]:
    return {"from": start + 1, "for": WINDOW_CHARS}
