"""Whether the answers are right: what the corpus is known to hold, asked of the running server.

A fast wrong answer is worth nothing, so every line that comes from here fails the run.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from bench.speed.corpus import Connection
from bench.speed.items import Asking

Ask = Callable[[str], Any]
MOST_EXACT = 10_000
"""Up to so many matches a search counts exactly (design: later a lower bound)."""
PAGE = 100
LONGEST_CHECKED = 600


def wrong(asking: Asking, ask: Ask) -> Iterator[str]:
    """A sentence for everything that is not as the truth has it."""
    yield from _counts(asking, ask)
    yield from _months(asking, ask)
    yield from _needles(asking, ask)
    yield from _frequencies(asking, ask)
    yield from _order(asking, ask)
    yield from _long_record(asking, ask)


def _counts(asking: Asking, ask: Ask) -> Iterator[str]:
    for where in asking.corpus.connections:
        body = ask(asking.records(where, limit=1, count="exact"))
        told, known = body["meta"]["count"]["value"], _known(asking, "counts", where)
        if told != known:
            yield f"{where.connection_id} holds {known} records, not {told}"


def _months(asking: Asking, ask: Ask) -> Iterator[str]:
    for where in asking.corpus.connections:
        body = ask(
            asking.get(
                f"/v1/streams/{where.stream}/aggregate",
                metric="count",
                connection_id=where.connection_id,
                group_by_time=asking.corpus.time_fields[where.connection_id],
                granularity="month",
                limit=100,
            )
        )
        told = {group["key"][:7]: group["count"] for group in body["groups"]}
        if told != _known(asking, "month_counts", where):
            yield f"the months of {where.connection_id} are {told}"


def _needles(asking: Asking, ask: Ask) -> Iterator[str]:
    truth = asking.corpus.truth
    expected = {**truth["needles"], truth["pair"]["query"]: truth["pair"]["and_set"]}
    for words, records in expected.items():
        if len(records) > LONGEST_CHECKED or not records:
            continue
        found = set(_all_hits(asking, ask, words))
        known = {tuple(each) for each in records}
        if found != known:
            yield f"{words!r}: {len(known - found)} not found, {len(found - known)} too many"


def _all_hits(asking: Asking, ask: Ask, words: str) -> Iterator[tuple[str, str]]:
    cursor: dict[str, str] = {}
    while True:
        body = ask(asking.search(words, limit=PAGE, **cursor))
        for hit in body["data"]:
            yield hit["connection_id"], hit["record_key"]
        if not body["has_more"]:
            return
        cursor = {"cursor": body["next_cursor"]}


def _frequencies(asking: Asking, ask: Ask) -> Iterator[str]:
    truth = asking.corpus.truth
    for words, known in {**truth["common_df"], **truth["two_term_and_df"]}.items():
        yield from _frequency(words, ask(asking.search(words)), sum(known.values()))
        largest = asking.corpus.largest.connection_id
        narrowed = ask(asking.search(words, connection_id=largest))
        yield from _frequency(f"{words} in {largest}", narrowed, known.get(largest, 0))


def _frequency(words: str, body: Mapping[str, Any], known: int) -> Iterator[str]:
    """Exact up to a bound; beyond it at least the bound, and never more than there are."""
    meta = body["meta"]
    if meta.get("match") == "any_word":
        if known:
            yield f"{words!r} is in {known} records and none was found"
        return
    exact = meta["count_accuracy"] == "exact"
    right = meta["count"] == known if exact else MOST_EXACT <= meta["count"] <= known
    if not right or (exact != (known <= MOST_EXACT)):
        yield f"{words!r} is in {known} records, not in {meta['count']} ({meta['count_accuracy']})"


def _order(asking: Asking, ask: Ask) -> Iterator[str]:
    """Better hits first, newer ones among equals, and no hit without its proof."""
    for words in asking.corpus.words:
        hits = ask(asking.search(words))["data"]
        places = [(hit["score"]["value"], hit.get("authored_at", "")) for hit in hits]
        if any(one < other for one, other in pairwise(places)):
            yield f"the hits of {words!r} are out of order: {places}"
        if any(not hit["evidence_excerpts"] for hit in hits):
            yield f"a hit of {words!r} shows no evidence"


def _long_record(asking: Asking, ask: Ask) -> Iterator[str]:
    big = asking.corpus.truth["big_record"]
    where = Connection(big["connection_id"], big["stream"])
    body = ask(asking.window(where, big["key"], big["field"], 500_000))
    shown = body["window"]
    if (
        shown["total_chars"] < 1_000_000
        or len(shown["text"]) != shown["end_chars"] - shown["start_chars"]
    ):
        yield f"the window into the long record has {shown['total_chars']} characters in all"


def _known(asking: Asking, member: str, where: Connection) -> Any:
    return asking.corpus.truth[member].get(where.connection_id)
