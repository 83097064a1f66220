"""Search over the demo data reaches its thresholds, as `make relevance --short` checks."""

from pathlib import Path

import pytest
from django.utils import timezone
from pytest_django.fixtures import Settings

from bench.relevance import engines, judged
from bench.relevance.judged import Scores
from bench.relevance.thresholds import failures
from evidence.models.owners import get_or_create_owner
from operations import demo_data


@pytest.fixture
def token(db: None, settings: Settings, tmp_path: Path) -> str:
    """Load the demo data and return a REST token."""
    settings.PDPP_VAR = tmp_path
    now = timezone.now()
    get_or_create_owner(now)
    demo_data.load_demo(now=now, on_progress=lambda _: None)
    tokens = demo_data.create_demo_tokens(now)
    assert tokens is not None
    return tokens.rest


@pytest.mark.slow
def test_search_reaches_the_thresholds(token: str) -> None:
    queries = judged.load()
    scores = engines.score(engines.rest(token, mode="lexical"), queries)
    assert failures("lexical", queries, scores) == []


def test_worse_scores_miss_the_thresholds() -> None:
    queries = judged.load()
    low_scores = [Scores(0.5, 0.5, 0.5)] * len(queries)
    assert "lexical ndcg of 'all' is 0.500, below 0.81" in failures("lexical", queries, low_scores)
    assert failures("baseline", queries, low_scores) == []


def test_scores_depend_on_order_and_grades() -> None:
    best, good, other = ("c", "s", "1"), ("c", "s", "2"), ("c", "s", "3")
    grades = {best: 3, good: 1}
    assert judged.score([best, good], grades) == Scores(1.0, 1.0, 1.0)
    assert judged.score([], grades) == Scores(0.0, 0.0, 0.0)
    late = judged.score([other, best], grades)
    assert (late.recall, late.mrr) == (0.5, 0.5)
    assert 0 < late.ndcg < judged.score([best], grades).ndcg < 1
