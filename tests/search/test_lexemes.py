"""Test lexemes: field, tier and term, within the size of a tsvector."""

import pytest

from evidence.search.analysis.tsquery import IndexedField, impact_tier
from tests.search.texts import lexemes


def test_lexeme_is_field_code_tier_and_term() -> None:
    found = lexemes(
        [IndexedField("a", "Lease", 2.0), IndexedField("b", "lease " * 3 + "word " * 400, 1.0)],
        languages=(),
    )
    assert set(found) == {"a3lease", "b1lease", "b2word"}


def test_impact_rises_with_frequency_and_weight_and_falls_with_length() -> None:
    assert impact_tier(1, length=2_000, weight=1.0) == 0
    assert impact_tier(1, length=200, weight=1.0) == 1
    assert impact_tier(4, length=200, weight=1.0) == 2
    assert impact_tier(1, length=10, weight=1.0) == 2
    assert impact_tier(1, length=10, weight=2.0) == 3


def test_impact_of_a_field_does_not_depend_on_other_fields() -> None:
    alone = lexemes([IndexedField("b", "the lease", 1.0)], languages=("en",))
    beside = lexemes(
        [IndexedField("a", "something else", 2.0), IndexedField("b", "the lease", 1.0)],
        languages=("en",),
    )
    assert [name for name in beside if name.startswith("b")] == alone


def test_fields_with_the_same_code_keep_the_higher_tier() -> None:
    texts = [IndexedField("b", "lease " + "word " * 900, 1.0), IndexedField("b", "lease", 1.0)]
    assert [name for name in lexemes(texts, languages=()) if "lease" in name] == ["b2lease"]


@pytest.mark.slow
def test_huge_field_loses_low_impact_terms_and_fits_a_tsvector() -> None:
    words = " ".join(f"word{number}" for number in range(150_000))
    monster = IndexedField("b", f"{'telling ' * 500}{words}", 1.0)
    found = lexemes([monster, IndexedField("a", "Title", 2.0)], languages=())
    assert sum(len(name.encode()) for name in found) <= 1_000_000
    assert "a3title" in found
    assert any(name.endswith("telling") for name in found)


@pytest.mark.slow
def test_huge_field_does_not_displace_lexemes_of_another_field() -> None:
    words = " ".join(f"word{number}" for number in range(150_000))
    long = " ".join(f"plain{number}" for number in range(60_000))
    shown = IndexedField("b", long, 1.0)
    alone = lexemes([shown], languages=(), codes=3)
    for code in ("a", "c"):
        hidden = IndexedField(code, words, 2.0)
        beside = lexemes(sorted([hidden, shown]), languages=(), codes=3)
        assert [name for name in beside if name.startswith("b")] == alone
        assert len([name for name in beside if name.startswith(code)]) > 10_000
        assert sum(len(name.encode()) for name in beside) <= 1_000_000
