"""questions.toml: the evidence proves every answer."""

from tests.demo import index

QUESTIONS = index.toml("questions.toml")["question"]


def test_there_are_enough_questions_in_enough_languages() -> None:
    assert len(QUESTIONS) >= 60
    assert len({question["id"] for question in QUESTIONS}) == len(QUESTIONS)
    assert {question["lang"] for question in QUESTIONS} == {"en", "de", "fr", "es", "ja", "zh"}


def test_evidence_contains_its_quote() -> None:
    for question in QUESTIONS:
        assert question["evidence"] or "aggregate" in question
        for proof in question["evidence"]:
            assert proof["quote"] in index.find_record(proof)["data"][proof["field"]], question


def test_search_words_occur_in_one_evidence_record() -> None:
    for question in QUESTIONS:
        texts = [
            str(index.find_record(proof)["data"].values()).casefold()
            for proof in question["evidence"]
        ]
        for search in question["search"] if texts else ():
            words = search.casefold().split()
            assert any(all(word in text for word in words) for text in texts), question


def test_aggregate_equals_the_number_computed_from_records() -> None:
    for question in QUESTIONS:
        if "aggregate" not in question:
            continue
        aggregate = question["aggregate"]
        stream = next(
            stream
            for (_, name), stream in index.streams().items()
            if name == aggregate["stream"]
            and set(aggregate["filter"]) <= set(stream["schema"]["properties"])
        )
        allowed = stream["query"]["aggregations"][aggregate["metric"]]
        assert allowed is True or aggregate["field"] in allowed
        assert index.compute_aggregate(aggregate) == aggregate["number"], question
