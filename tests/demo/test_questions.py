"""questions.toml: the evidence proves every answer."""

import pytest

from tests.demo import index

QUESTIONS = index.toml("questions.toml")["question"]


def test_there_are_enough_questions_in_enough_languages() -> None:
    assert len(QUESTIONS) >= 60
    assert len({question["id"] for question in QUESTIONS}) == len(QUESTIONS)
    assert {question["lang"] for question in QUESTIONS} == {"en", "de", "fr", "es", "ja", "zh"}


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question["id"])
def test_evidence_contains_its_quote(question: dict) -> None:
    assert question["evidence"] or "aggregate" in question
    for proof in question["evidence"]:
        assert proof["quote"] in index.find_record(proof)["data"][proof["field"]]


@pytest.mark.parametrize(
    "question",
    [question for question in QUESTIONS if question["evidence"]],
    ids=lambda question: question["id"],
)
def test_search_words_occur_in_one_evidence_record(question: dict) -> None:
    texts = [
        str(index.find_record(proof)["data"].values()).casefold() for proof in question["evidence"]
    ]
    for search in question["search"]:
        words = search.casefold().split()
        assert any(all(word in text for word in words) for text in texts)


@pytest.mark.parametrize(
    "question",
    [question for question in QUESTIONS if "aggregate" in question],
    ids=lambda question: question["id"],
)
def test_aggregate_equals_the_number_computed_from_records(question: dict) -> None:
    aggregate = question["aggregate"]
    stream = next(
        stream
        for (_, name), stream in index.streams().items()
        if name == aggregate["stream"]
        and set(aggregate["filter"]) <= set(stream["schema"]["properties"])
    )
    allowed = stream["query"]["aggregations"][aggregate["metric"]]
    assert allowed is True or aggregate["field"] in allowed
    assert index.compute_aggregate(aggregate) == aggregate["number"]
