"""The measured items: their requests, and the baseline or item they are compared with."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.speed import wire
from bench.speed.corpus import Connection, Corpus

PAGE = 25
EXPORT_PAGE = 100
MAX_EXPORTED = 100_000
WINDOW_CHARS = 4_096
MCP_HITS = 6
ABSENT_WORD = "wqvxertzun"
"""No word of a corpus is like it, so a search finds nothing and has no other spelling to suggest."""
LAST = "~"
"""Sorts after every sort key and record key."""


@dataclass(frozen=True)
class Item:
    """A measured item.

    `baseline` holds requests to the baseline for the same rows; `beside` names another item to compare
    with instead. `limit` is the page size of an export.
    """

    name: str
    requests: Sequence[str]
    baseline: Sequence[str] = ()
    beside: str = ""
    limit: int = 0


@dataclass(frozen=True)
class Tokens:
    """Tokens for REST and MCP over all records, and for REST over 1 % of the time range."""

    rest: str
    mcp: str
    narrow: str


@dataclass(frozen=True)
class RequestBuilder:
    """Builds requests for a corpus. `keys` are sample records of each connection."""

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

    def sample_records(self) -> Iterator[tuple[Connection, str]]:
        """Yield the sample keys of all connections in turn."""
        longest = max(map(len, self.keys.values()))
        for number in range(longest):
            for where in self.corpus.connections:
                keys = self.keys[where.connection_id]
                yield where, keys[number % len(keys)]


def read_items(requests: RequestBuilder) -> Iterator[Item]:
    """Yield the items that read lists, records, windows, schema and counts."""
    yield from _list_items(requests)
    yield from _record_items(requests)
    yield from _whole_stream_items(requests)


def _list_items(requests: RequestBuilder) -> Iterator[Item]:
    everywhere = requests.corpus.connections
    for size in (PAGE, EXPORT_PAGE):
        yield Item(
            f"list of {size} records",
            [requests.records(each, limit=size) for each in everywhere],
            [_page_request(requests, each, size) for each in everywhere],
        )
    yield Item(
        "changes since the beginning, 25",
        [requests.records(each, limit=PAGE, changes_since="beginning") for each in everywhere],
        [_page_request(requests, each, PAGE) for each in everywhere],
    )


def _record_items(requests: RequestBuilder) -> Iterator[Item]:
    corpus, get = requests.corpus, requests.get
    sample = list(requests.sample_records())
    yield Item(
        "one record",
        [get(wire.record(w.stream, k), connection_id=w.connection_id) for w, k in sample],
        [_record_request(requests, "record", w, k) for w, k in sample],
    )
    big = corpus.truth["big_record"]
    long = Connection(big["connection_id"], big["stream"])
    texts = [(long, key) for key in requests.keys[long.connection_id]]
    for name, records, start in (
        ("field window", texts, 0),
        ("field window, middle of 1 MB", [(long, big["key"])], 500_000),
    ):
        yield Item(
            name,
            [requests.window(w, k, big["field"], start) for w, k in records],
            [
                _record_request(requests, "window", w, k, field=big["field"], **_span_params(start))
                for w, k in records
            ],
        )


def _whole_stream_items(requests: RequestBuilder) -> Iterator[Item]:
    corpus, get = requests.corpus, requests.get
    where = {"connection_id": corpus.largest.connection_id, "stream": corpus.largest.stream}
    yield Item(
        "months of the largest connection",
        [_months_request(requests)],
        [get("/baseline/months", **where)],
    )
    yield Item(
        "list with count=exact",
        [requests.records(corpus.largest, limit=1, count="exact")],
        [get("/baseline/count", **where)],
    )
    yield Item("schema, whole", [get("/v1/schema")], [get("/baseline/declarations")])
    yield Item(
        "schema, compact", [get("/v1/schema", view="compact")], [get("/baseline/declarations")]
    )
    yield Item(
        "export by pages of 100",
        [requests.records(corpus.largest, limit=EXPORT_PAGE)],
        [_page_request(requests, corpus.largest, EXPORT_PAGE)],
        limit=EXPORT_PAGE,
    )


def search_requests(requests: RequestBuilder) -> Iterator[tuple[str, str]]:
    """Yield name and request of each search."""
    truth, words = requests.corpus.truth, requests.corpus.words
    rare = max(truth["needles"], key=lambda word: (len(truth["needles"][word]) <= 50, word))
    common, stopword = words[1], words[0]
    largest = requests.corpus.largest.connection_id
    yield "search: rare word", requests.search(rare)
    yield "search: common word, one connection", requests.search(common, connection_id=largest)
    yield "search: common word, all", requests.search(common)
    yield "search: two common words", requests.search(next(iter(truth["two_term_and_df"])))
    yield "search: stopword-like word", requests.search(stopword)
    yield "search: phrase", requests.search(f'"{stopword} {common}"')
    yield "search: prefix", requests.search(f"{common[:4]}*")
    narrow = requests.tokens.narrow
    yield "search: common word, 1 % of the time", requests.search(common, bearer=narrow)
    yield "search: stopword-like word, 1 % of the time", requests.search(stopword, bearer=narrow)
    yield "search: nothing found", requests.search(ABSENT_WORD)
    yield "search: two words with few in common", requests.search(truth["pair"]["query"])


def baseline_of_search(requests: RequestBuilder, answer: Mapping[str, Any]) -> list[str]:
    """Return the baseline request for the records that a search found, or for none."""
    hits = answer["data"]
    names = {"connection_ids": "connection_id", "streams": "stream", "keys": "record_key"}
    query = {name: "|".join(hit[member] for hit in hits) or "-" for name, member in names.items()}
    return [requests.get("/baseline/rows", **query)]


def mcp_items(requests: RequestBuilder) -> Iterator[Item]:
    """Yield the items that call MCP tools, each compared with its REST request."""
    bearer, corpus = requests.tokens.mcp, requests.corpus
    echo = [wire.call("echo", {"text": "hello"}, bearer=bearer)]
    short = _short_records(corpus)
    page = {
        "stream": short.stream,
        "connection_id": short.connection_id,
        "limit": PAGE,
        "max_bytes": 50_000,
    }
    yield Item("MCP query_records, 25", [wire.call("query_records", page, bearer=bearer)], echo)
    yield from _mcp_search_items(requests)
    yield from _mcp_record_items(requests, short)
    yield Item("MCP tools/list", [wire.tools_list(bearer=bearer)], echo)


def _short_records(corpus: Corpus) -> Connection:
    """Return a connection whose records have no long texts."""
    short = min(corpus.connections, key=lambda where: corpus.truth["counts"][where.connection_id])
    return next((each for each in corpus.connections if each.stream != "messages"), short)


def _mcp_search_items(requests: RequestBuilder) -> Iterator[Item]:
    bearer, corpus = requests.tokens.mcp, requests.corpus
    rare = min(
        corpus.truth["needles"], key=lambda word: abs(len(corpus.truth["needles"][word]) - 5)
    )
    yield Item("REST search as MCP asks", [requests.search(rare, limit=MCP_HITS)])
    yield Item(
        "MCP search",
        [wire.call("search", {"q": rare}, bearer=bearer)],
        beside="REST search as MCP asks",
    )


def _mcp_record_items(requests: RequestBuilder, where: Connection) -> Iterator[Item]:
    bearer, corpus = requests.tokens.mcp, requests.corpus
    key = requests.keys[where.connection_id][0]
    short_id = f"{where.connection_id}/{where.stream}:{key}"
    yield Item(
        "REST record as MCP asks",
        [requests.get(wire.record(where.stream, key), connection_id=where.connection_id)],
    )
    yield Item(
        "MCP fetch",
        [wire.call("fetch", {"id": short_id}, bearer=bearer)],
        beside="REST record as MCP asks",
    )
    big = corpus.truth["big_record"]
    long = Connection(big["connection_id"], big["stream"])
    text = requests.keys[long.connection_id][0]
    arguments = {"id": f"{long.connection_id}/{long.stream}:{text}", "field_path": big["field"]}
    yield Item("REST window as MCP asks", [requests.window(long, text, big["field"], 0)])
    yield Item(
        "MCP read_record_field",
        [wire.call("read_record_field", arguments, bearer=bearer)],
        beside="REST window as MCP asks",
    )


def _months_request(requests: RequestBuilder) -> str:
    """Return a request for a histogram by month of the largest connection."""
    where = requests.corpus.largest
    return requests.get(
        f"/v1/streams/{where.stream}/aggregate",
        metric="count",
        connection_id=where.connection_id,
        group_by_time=requests.corpus.time_fields[where.connection_id],
        granularity="month",
        limit=100,
    )


def _page_request(requests: RequestBuilder, where: Connection, limit: int) -> str:
    return requests.get(
        "/baseline/page",
        connection_id=where.connection_id,
        stream=where.stream,
        before=LAST,
        key=LAST,
        limit=limit,
    )


def _record_request(
    requests: RequestBuilder, what: str, where: Connection, key: str, **more: object
) -> str:
    named = {"connection_id": where.connection_id, "stream": where.stream, "key": key}
    return requests.get(f"/baseline/{what}", **named, **more)


def _span_params(start: int) -> dict[str, int]:
    return {"from": start + 1, "for": WINDOW_CHARS}
