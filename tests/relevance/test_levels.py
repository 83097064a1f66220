"""Search over the demo life is as good as it was: `make relevance --short`, in the test's database."""

from pathlib import Path

import pytest
from django.utils import timezone
from pytest_django.fixtures import Settings

from bench.relevance import engines, judged
from bench.relevance.judged import Worth
from bench.relevance.levels import missed
from pdpp_site import demo_life


@pytest.mark.django_db
def test_search_reaches_its_levels(settings: Settings, tmp_path: Path) -> None:
    settings.PDPP_VAR = tmp_path
    now = timezone.now()
    demo_life.load(now=now, on_progress=lambda _: None)
    tokens = demo_life.tokens(now)
    assert tokens is not None
    queries = judged.load()
    assert missed("lexical", queries, engines.worth(engines.rest(tokens.rest), queries)) == []


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
