"""questions.toml: every answer is proved by the records it names."""

import pytest

from tests.demo import index

QUESTIONS = index.toml("questions.toml")["question"]


def test_there_are_enough_questions_in_enough_languages() -> None:
    assert len(QUESTIONS) >= 60
    assert len({question["id"] for question in QUESTIONS}) == len(QUESTIONS)
    assert {question["lang"] for question in QUESTIONS} == {"en", "de", "fr", "es", "ja", "zh"}


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question["id"])
def test_a_question_is_proved_by_its_evidence(question: dict) -> None:
    assert question["evidence"] or "aggregate" in question
    for proof in question["evidence"]:
        assert proof["quote"] in index.named(proof)["data"][proof["field"]]


@pytest.mark.parametrize(
    "question",
    [question for question in QUESTIONS if question["evidence"]],
    ids=lambda question: question["id"],
)
def test_the_words_of_a_search_stand_in_one_proving_record(question: dict) -> None:
    texts = [str(index.named(proof)["data"].values()).casefold() for proof in question["evidence"]]
    for search in question["search"]:
        words = search.casefold().split()
        assert any(all(word in text for word in words) for text in texts)


@pytest.mark.parametrize(
    "question",
    [question for question in QUESTIONS if "aggregate" in question],
    ids=lambda question: question["id"],
)
def test_an_aggregate_is_the_number_that_the_records_give(question: dict) -> None:
    wanted = question["aggregate"]
    stream = next(
        stream
        for (_, name), stream in index.streams().items()
        if name == wanted["stream"] and set(wanted["filter"]) <= set(stream["schema"]["properties"])
    )
    allowed = stream["query"]["aggregations"][wanted["metric"]]
    assert allowed is True or wanted["field"] in allowed
    assert index.aggregated(wanted) == wanted["number"]
