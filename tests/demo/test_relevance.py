"""relevance.toml: judged queries in six languages."""

import re
from collections import Counter

import pytest

from tests.demo import index

QUERIES = index.toml("relevance.toml")["query"]
PHRASES = [query for query in QUERIES if query["kind"] == "phrase"]


def test_queries_cover_every_kind_and_language() -> None:
    assert len(QUERIES) >= 150
    counted = Counter((query["language"], query["kind"]) for query in QUERIES)
    kinds = {"known-item", "phrase", "question", "typo", "name", "date", "amount"}
    languages = {"en", "de", "fr", "es", "zh", "ja"}
    assert set(counted) == {(language, kind) for language in languages for kind in kinds}
    assert len({query["text"] for query in QUERIES}) == len(QUERIES)


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query["text"])
def test_judgments_refer_to_distinct_records_and_one_has_grade_3(query: dict) -> None:
    keys = [index.find_record(judgment)["key"] for judgment in query["relevant"]]
    assert len(set(keys)) == len(keys)
    grades = {judgment["grade"] for judgment in query["relevant"]}
    assert 3 in grades
    assert grades <= {1, 2, 3}


@pytest.mark.parametrize("query", PHRASES, ids=lambda query: query["text"])
def test_phrase_judgments_are_complete(query: dict) -> None:
    phrase = query["text"].strip('"').casefold()
    pattern = re.compile(re.escape(phrase))
    if phrase.isascii() or query["language"] not in ("zh", "ja"):
        pattern = re.compile(rf"\b{re.escape(phrase)}\b")
    containing = {key for key, text in index.texts().items() if pattern.search(text)}
    judged = {
        (judgment["connection_id"], judgment["stream"], judgment["record_key"])
        for judgment in query["relevant"]
    }
    assert judged == containing


def test_no_judgment_refers_to_a_hostile_record() -> None:
    for query in QUERIES:
        for judgment in query["relevant"]:
            assert "Quarantine" not in index.find_record(judgment)["data"].get("labels", [])
