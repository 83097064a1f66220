"""Generate any number of records from a fixed seed, for `manage.py seed` and `make bench`.

It contains mail, chat and bank records over three years, in an artificial language with realistic word
frequencies and a few rare words. The generator counts the facts of truth.json as it writes.
"""

import hashlib
import json
import re
from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any

SEED = 20260406
START = datetime(2023, 1, 1, tzinfo=UTC)
SECONDS = 3 * 365 * 86_400
FREQUENT_WORDS = ("the", "project", "invoice", "coffee", "budget")
RANKS = (0, 150, 155, 200, 210)
"""The frequency ranks of these words."""
PAIRS = ("project invoice", "coffee budget")
NEEDLES = {"zyxquorvane": 1, "plumbusite": 5, "quillfeather": 50}
BOTH = ("mirefolk", "dusktide")
LONG_CHARS = 1_000_000
VOCABULARY = 12_000
SYLLABLES = [one + other for one in "bcdfghjklmnprstvwxyz" for other in "aeiou"]
_WORD = re.compile(r"[a-z0-9_]+")

CONNECTIONS = (
    ("cin_bench_home", "benchmail", "Mail at home", "messages", 0.35),
    ("cin_bench_work", "benchmail", "Mail at work", "messages", 0.15),
    ("cin_bench_chat", "benchchat", "Chat", "messages", 0.35),
    ("cin_bench_bank", "benchbank", "Bank", "transactions", 0.15),
)
LEXICAL_FIELDS = {
    "benchmail": ("subject", "from_name", "body_text"),
    "benchchat": ("text",),
    "benchbank": ("name", "memo"),
}


@dataclass
class Truth:
    """The facts about the records for truth.json."""

    counts: Counter[str] = field(default_factory=Counter)
    months: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    needles: dict[str, list[list[str]]] = field(default_factory=lambda: defaultdict(list))
    frequencies: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    pairs: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def count(self, connection_id: str, key: str, month: str, words: frozenset[str]) -> None:
        self.counts[connection_id] += 1
        self.months[connection_id][month] += 1
        for word in (*NEEDLES, *BOTH):
            if word in words:
                self.needles[word].append([connection_id, key])
        for word in FREQUENT_WORDS:
            self.frequencies[word][connection_id] += word in words
        for pair in PAIRS:
            self.pairs[pair][connection_id] += words.issuperset(pair.split())


class TextGenerator:
    """Generates text with word frequencies like those of a real language."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._words = _vocabulary(rng)
        self._weights = list(accumulate(1 / (rank + 2.7) ** 1.05 for rank in range(VOCABULARY)))

    def words(self, count: int) -> list[str]:
        return self._rng.choices(self._words, cum_weights=self._weights, k=count)

    def text(self, chars: int) -> str:
        parts: list[str] = []
        size = 0
        while size < chars:
            sentence = " ".join(self.words(12)).capitalize() + "."
            parts.append(sentence)
            size += len(sentence) + 1
        return " ".join(parts)[:chars]


def generate(path: Path, *, size: int) -> None:
    """Write a corpus of `size` records into a directory."""
    path.joinpath("manifests").mkdir(parents=True, exist_ok=True)
    truth, digest = Truth(), hashlib.sha256()
    with (path / "records.jsonl").open("wb") as file:
        for record in records(size, truth):
            line = json.dumps(record, separators=(",", ":")).encode() + b"\n"
            digest.update(line)
            file.write(line)
    for document in documents():
        target = path / "manifests" / f"{document['connector_key']}.json"
        target.write_text(json.dumps(document))
    (path / "connections.json").write_text(json.dumps(connections()))
    (path / "truth.json").write_text(json.dumps(_truth_document(truth, size, digest.hexdigest())))


def _truth_document(truth: Truth, size: int, digest: str) -> dict[str, Any]:
    first, second = (set(map(tuple, truth.needles[word])) for word in BOTH)
    return {
        "n": size,
        "seed": SEED,
        "sha256": digest,
        "counts": truth.counts,
        "needles": truth.needles,
        "pair": {"query": " ".join(BOTH), "and_set": sorted(map(list, first & second))},
        "common_df": truth.frequencies,
        "two_term_and_df": truth.pairs,
        "month_counts": truth.months,
        "big_record": {
            "connection_id": CONNECTIONS[0][0],
            "stream": CONNECTIONS[0][3],
            "key": _key(0, 17),
            "field": "body_text",
        },
    }


def connections() -> list[dict[str, str]]:
    """Return the connections of the records."""
    return [
        {"connection_id": each, "connector_key": key, "display_name": label, "stream": stream}
        for each, key, label, stream, _ in CONNECTIONS
    ]


def records(size: int, truth: Truth | None = None) -> Iterator[Mapping[str, Any]]:
    """Yield `size` records, the same for the same size, and count them in `truth`."""
    truth = truth or Truth()
    rng = Random(SEED)  # noqa: S311 - nothing secret is made with it
    writer = TextGenerator(rng)
    shares = [round(size * share) for *_, share in CONNECTIONS[:-1]]
    shares.append(size - sum(shares))
    rare_words = _choose_rare_words(shares, rng)
    for which, share in enumerate(shares):
        connection_id, connector, _, stream, _ = CONNECTIONS[which]
        for number in range(share):
            at = START + timedelta(seconds=int(SECONDS * (number + rng.random()) / share))
            key = _key(which, number)
            data = _data(connector, key, at, writer, rng, long=(which, number) == (0, 17))
            for word in rare_words.get((which, number), ()):
                data[LEXICAL_FIELDS[connector][-1]] += f" {word}"
            texts = " ".join(str(data[name]) for name in LEXICAL_FIELDS[connector]).lower()
            truth.count(
                connection_id, key, at.date().isoformat()[:7], frozenset(_WORD.findall(texts))
            )
            yield {
                "connector_key": connector,
                "connection_id": connection_id,
                "stream": stream,
                "key": key,
                "data": data,
                "emitted_at": _instant(at + timedelta(seconds=5)),
            }


def _data(
    connector: str, key: str, at: datetime, writer: TextGenerator, rng: Random, *, long: bool
) -> dict[str, Any]:
    if connector == "benchmail":
        chars = LONG_CHARS if long else min(5_000, max(200, int(rng.lognormvariate(6.9, 0.75))))
        return {
            "id": key,
            "subject": " ".join(writer.words(6)).capitalize(),
            "from_name": f"Person {rng.randrange(400)}",
            "received_at": _instant(at),
            "size_bytes": chars + rng.randrange(90_000),
            "is_seen": rng.random() < 0.8,
            "body_text": writer.text(chars),
        }
    if connector == "benchchat":
        chars = min(1_200, max(15, int(rng.lognormvariate(4.6, 0.8))))
        return {
            "id": key,
            "channel": f"C{rng.randrange(40)}",
            "author": f"Person {rng.randrange(60)}",
            "sent_at": _instant(at),
            "text": writer.text(chars),
        }
    return {
        "id": key,
        "date": at.date().isoformat(),
        "amount": int(rng.lognormvariate(8.2, 1.1)) * rng.choice((-1, -1, -1, 1)),
        "currency": "EUR",
        "name": f"Shop {rng.randrange(20)}",
        "memo": " ".join(writer.words(5)),
    }


def _choose_rare_words(shares: list[int], rng: Random) -> dict[tuple[int, int], list[str]]:
    """Choose the records that get rare words; small corpora get fewer."""
    total = sum(shares)
    ends = list(accumulate(shares))
    rare_words: dict[tuple[int, int], list[str]] = defaultdict(list)
    groups: list[tuple[tuple[str, ...], int]] = [((w,), n) for w, n in NEEDLES.items()]
    groups += [(BOTH, 7), (BOTH[:1], 30), (BOTH[1:], 30)]
    for words, count in groups:
        for position in rng.sample(range(total), min(count, total // 20)):
            which = bisect(ends, position)
            rare_words[which, position - (ends[which] - shares[which])].extend(words)
    return rare_words


def _vocabulary(rng: Random) -> list[str]:
    vocabulary: dict[str, None] = {}
    while len(vocabulary) < VOCABULARY:
        parts = rng.choices(SYLLABLES, k=3)
        word = "".join(parts) + rng.choice(("", "n", "r", "s", "t", "ck", "ng"))
        vocabulary[word] = None
    words = list(vocabulary)
    for word, rank in zip(FREQUENT_WORDS, RANKS, strict=True):
        words.insert(rank, word)
    return words[:VOCABULARY]


def _key(which: int, number: int) -> str:
    return f"k{which}_{number:07d}"


def _instant(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


def documents() -> Iterator[dict[str, Any]]:
    """Yield the source declarations."""
    for connector, stream, fields, times in _SHAPES:
        aggregations: dict[str, Any] = {"count": True, "group_by_time": [times]}
        yield {
            "protocol_version": "0.1.0",
            "connector_id": f"https://registry.example/connectors/{connector}",
            "connector_key": connector,
            "version": "1.0.0",
            "display_name": connector,
            "streams": [
                {
                    "name": stream,
                    "description": f"Records of {connector}.",
                    "semantics": "mutable_state",
                    "schema": {"type": "object", "required": ["id"], "properties": fields},
                    "primary_key": ["id"],
                    "cursor_field": times,
                    "consent_time_field": times,
                    "selection": {"fields": True, "resources": True},
                    "query": {
                        "search": {"lexical_fields": list(LEXICAL_FIELDS[connector])},
                        "range_filters": {times: ["gte", "lt"]},
                        "aggregations": aggregations,
                    },
                }
            ],
        }


_TEXT = {"type": "string"}
_TIME = {"type": "string", "format": "date-time", "x_pdpp_role": "event-time"}
_TITLE = {"type": "string", "x_pdpp_role": "primary-title"}
_SHAPES = (
    (
        "benchmail",
        "messages",
        {"id": _TEXT, "subject": _TITLE, "from_name": _TEXT, "received_at": _TIME,
         "size_bytes": {"type": "integer"}, "is_seen": {"type": "boolean"}, "body_text": _TEXT},
        "received_at",
    ),
    (
        "benchchat",
        "messages",
        {"id": _TEXT, "channel": _TEXT, "author": _TEXT, "sent_at": _TIME, "text": _TITLE},
        "sent_at",
    ),
    (
        "benchbank",
        "transactions",
        {"id": _TEXT, "date": {"type": "string", "format": "date", "x_pdpp_role": "event-time"},
         "amount": {"type": "integer"}, "currency": _TEXT, "name": _TITLE, "memo": _TEXT},
        "date",
    ),
)  # fmt: skip
