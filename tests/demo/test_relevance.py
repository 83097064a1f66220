"""relevance.toml: judged queries in six languages."""

import re
from collections import Counter

from tests.demo import index

QUERIES = index.toml("relevance.toml")["query"]
PHRASES = [query for query in QUERIES if query["kind"] == "phrase"]


def test_queries_cover_every_kind_and_language() -> None:
    assert len(QUERIES) >= 150
    counted = Counter((query["language"], query["kind"]) for query in QUERIES)
    kinds = {"known-item", "phrase", "question", "typo", "name", "date", "amount"}
    languages = {"en", "de", "fr", "es", "zh", "ja"}
    assert set(counted) >= {(language, kind) for language in languages for kind in kinds}
    kinds_of_one_language = {kind for _, kind in counted} - {"cross-language"}
    assert kinds_of_one_language == kinds
    assert sum(n for (_, kind), n in counted.items() if kind == "cross-language") == 20
    assert len({query["text"] for query in QUERIES}) == len(QUERIES)


def test_judgments_refer_to_distinct_records_and_one_has_grade_3() -> None:
    for query in QUERIES:
        records = [index.find_record(judgment) for judgment in query["relevant"]]
        grades = {judgment["grade"] for judgment in query["relevant"]}
        assert len({record["key"] for record in records}) == len(records), query
        assert {3} <= grades <= {1, 2, 3}, query
        assert not any("Quarantine" in record["data"].get("labels", []) for record in records)


def test_phrase_judgments_are_complete() -> None:
    for query in PHRASES:
        phrase = query["text"].strip('"').casefold()
        pattern = re.compile(re.escape(phrase))
        if phrase.isascii() or query["language"] not in ("zh", "ja"):
            pattern = re.compile(rf"\b{re.escape(phrase)}\b")
        containing = {key for key, text in index.texts().items() if pattern.search(text)}
        judged = {
            (judgment["connection_id"], judgment["stream"], judgment["record_key"])
            for judgment in query["relevant"]
        }
        assert judged == containing, phrase
