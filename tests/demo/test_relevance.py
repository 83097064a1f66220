"""relevance.toml: judged queries in six languages, complete where a program can check it."""

import re
from collections import Counter

import pytest

from tests.demo import index

QUERIES = index.toml("relevance.toml")["query"]
PHRASES = [query for query in QUERIES if query["kind"] == "phrase"]


def test_there_are_enough_queries_of_every_kind_in_every_language() -> None:
    assert len(QUERIES) >= 150
    counted = Counter((query["language"], query["kind"]) for query in QUERIES)
    kinds = {"known-item", "phrase", "question", "typo", "name", "date", "amount"}
    languages = {"en", "de", "fr", "es", "zh", "ja"}
    assert set(counted) == {(language, kind) for language in languages for kind in kinds}
    assert len({query["text"] for query in QUERIES}) == len(QUERIES)


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query["text"])
def test_a_judgement_names_real_records_once_and_at_least_one_answer(query: dict) -> None:
    named = [index.named(each)["key"] for each in query["relevant"]]
    assert len(set(named)) == len(named)
    grades = {each["grade"] for each in query["relevant"]}
    assert 3 in grades
    assert grades <= {1, 2, 3}


@pytest.mark.parametrize("query", PHRASES, ids=lambda query: query["text"])
def test_a_phrase_is_judged_in_every_record_that_holds_it(query: dict) -> None:
    phrase = query["text"].strip('"').casefold()
    pattern = re.compile(re.escape(phrase))
    if phrase.isascii() or query["language"] not in ("zh", "ja"):
        pattern = re.compile(rf"\b{re.escape(phrase)}\b")
    holding = {key for key, text in index.texts().items() if pattern.search(text)}
    judged = {
        (each["connection_id"], each["stream"], each["record_key"]) for each in query["relevant"]
    }
    assert judged == holding


def test_no_judgement_names_a_hostile_record() -> None:
    for query in QUERIES:
        for each in query["relevant"]:
            assert "Quarantine" not in index.named(each)["data"].get("labels", [])
