"""Check the responses of the server against the known contents of the corpus.

Every error fails the run, because the speed of wrong responses is irrelevant.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from bench.speed.corpus import Connection
from bench.speed.items import RequestBuilder

Ask = Callable[[str], Any]
MAX_EXACT_COUNT = 10_000
"""Searches count exactly up to this many matches; above it, the count is a lower bound."""
PAGE = 100
MAX_CHECKED_RECORDS = 600


def find_errors(requests: RequestBuilder, ask: Ask) -> Iterator[str]:
    """Yield a sentence for every response that contradicts the corpus."""
    yield from _counts(requests, ask)
    yield from _months(requests, ask)
    yield from _needles(requests, ask)
    yield from _frequencies(requests, ask)
    yield from _order(requests, ask)
    yield from _long_record(requests, ask)


def _counts(requests: RequestBuilder, ask: Ask) -> Iterator[str]:
    for where in requests.corpus.connections:
        body = ask(requests.records(where, limit=1, count="exact"))
        actual, expected = body["meta"]["count"]["value"], _known(requests, "counts", where)
        if actual != expected:
            yield f"{where.connection_id} has {expected} records, not {actual}"


def _months(requests: RequestBuilder, ask: Ask) -> Iterator[str]:
    for where in requests.corpus.connections:
        body = ask(
            requests.get(
                f"/v1/streams/{where.stream}/aggregate",
                metric="count",
                connection_id=where.connection_id,
                group_by_time=requests.corpus.time_fields[where.connection_id],
                granularity="month",
                limit=100,
            )
        )
        months = {group["key"][:7]: group["count"] for group in body["groups"]}
        if months != _known(requests, "month_counts", where):
            yield f"the months of {where.connection_id} are {months}"


def _needles(requests: RequestBuilder, ask: Ask) -> Iterator[str]:
    truth = requests.corpus.truth
    expected = {**truth["needles"], truth["pair"]["query"]: truth["pair"]["and_set"]}
    for words, records in expected.items():
        if len(records) > MAX_CHECKED_RECORDS or not records:
            continue
        found = set(_all_hits(requests, ask, words))
        expected_keys = {tuple(key) for key in records}
        if found != expected_keys:
            missing, extra = len(expected_keys - found), len(found - expected_keys)
            yield f"{words!r}: {missing} missing, {extra} unexpected"


def _all_hits(requests: RequestBuilder, ask: Ask, words: str) -> Iterator[tuple[str, str]]:
    cursor: dict[str, str] = {}
    while True:
        body = ask(requests.search(words, limit=PAGE, **cursor))
        for hit in body["data"]:
            yield hit["connection_id"], hit["record_key"]
        if not body["has_more"]:
            return
        cursor = {"cursor": body["next_cursor"]}


def _frequencies(requests: RequestBuilder, ask: Ask) -> Iterator[str]:
    truth = requests.corpus.truth
    for words, known in {**truth["common_df"], **truth["two_term_and_df"]}.items():
        yield from _frequency(words, ask(requests.search(words)), sum(known.values()))
        largest = requests.corpus.largest.connection_id
        narrowed = ask(requests.search(words, connection_id=largest))
        yield from _frequency(f"{words} in {largest}", narrowed, known.get(largest, 0))


def _frequency(words: str, body: Mapping[str, Any], known: int) -> Iterator[str]:
    """Check that a count is exact, or a lower bound of at least MAX_EXACT_COUNT."""
    meta = body["meta"]
    if meta.get("match") == "any_word":
        if known:
            yield f"{words!r} is in {known} records and none was found"
        return
    exact = meta["count_accuracy"] == "exact"
    is_correct = meta["count"] == known if exact else MAX_EXACT_COUNT <= meta["count"] <= known
    if not is_correct or (exact != (known <= MAX_EXACT_COUNT)):
        yield f"{words!r} is in {known} records, not in {meta['count']} ({meta['count_accuracy']})"


def _order(requests: RequestBuilder, ask: Ask) -> Iterator[str]:
    """Check that hits are sorted by score, then time, and that each has an excerpt."""
    for words in requests.corpus.words:
        hits = ask(requests.search(words))["data"]
        ranks = [(hit["score"]["value"], hit.get("authored_at", "")) for hit in hits]
        if any(one < other for one, other in pairwise(ranks)):
            yield f"the hits of {words!r} are out of order: {ranks}"
        if any(not hit["evidence_excerpts"] for hit in hits):
            yield f"a hit of {words!r} shows no evidence"


def _long_record(requests: RequestBuilder, ask: Ask) -> Iterator[str]:
    big = requests.corpus.truth["big_record"]
    where = Connection(big["connection_id"], big["stream"])
    body = ask(requests.window(where, big["key"], big["field"], 500_000))
    window = body["window"]
    if (
        window["total_chars"] < 1_000_000
        or len(window["text"]) != window["end_chars"] - window["start_chars"]
    ):
        yield f"the window into the long record has {window['total_chars']} characters in all"


def _known(requests: RequestBuilder, member: str, where: Connection) -> Any:
    return requests.corpus.truth[member].get(where.connection_id)
