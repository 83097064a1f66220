"""Search over the demo life is as good as it was: `make relevance --short`, in the test's database."""

from pathlib import Path

import pytest
from django.utils import timezone
from pytest_django.fixtures import Settings

from bench.relevance import engines, judged
from bench.relevance.judged import Worth
from bench.relevance.levels import missed
from operations import background_jobs, demo_data


@pytest.fixture
def token(db: None, settings: Settings, tmp_path: Path) -> str:
    """Over the demo life, with vectors where there can be any."""
    settings.PDPP_VAR = tmp_path
    now = timezone.now()
    demo_data.load(now=now, on_progress=lambda _: None)
    for _ in background_jobs.vectors():
        pass
    tokens = demo_data.tokens(now)
    assert tokens is not None
    return tokens.rest


@pytest.mark.long
def test_search_reaches_its_levels_in_every_mode(token: str) -> None:
    queries = judged.load()
    modes = engines.modes(token)
    results = {mode: engines.worth(engines.rest(token, mode=mode), queries) for mode in modes}
    assert [line for mode in modes for line in missed(mode, queries, results[mode])] == []
    if "hybrid" in modes:
        asked = [number for number, query in enumerate(queries) if query.kind == "question"]
        by_words, by_both = (
            judged.mean([results[mode][number] for number in asked]).ndcg
            for mode in ("lexical", "hybrid")
        )
        assert by_both > by_words


def test_worse_answers_miss_the_levels() -> None:
    queries = judged.load()
    worthless = [Worth(0.5, 0.5, 0.5)] * len(queries)
    assert "lexical ndcg of 'all' is 0.500, below 0.87" in missed("lexical", queries, worthless)
    assert missed("baseline", queries, worthless) == []


def test_an_answer_is_worth_what_its_order_and_grades_say() -> None:
    best, good, other = ("c", "s", "1"), ("c", "s", "2"), ("c", "s", "3")
    grades = {best: 3, good: 1}
    assert judged.worth([best, good], grades) == Worth(1.0, 1.0, 1.0)
    assert judged.worth([], grades) == Worth(0.0, 0.0, 0.0)
    late = judged.worth([other, best], grades)
    assert (late.recall, late.mrr) == (0.5, 0.5)
    assert 0 < late.ndcg < judged.worth([best], grades).ndcg < 1
