"""Test tsquery text: granted fields only, every word, safely quoted."""

import pytest
from django.db import connection
from hypothesis import HealthCheck, given, settings

from evidence.search.analysis.matcher import needs_verification, verify
from evidence.search.analysis.query import Query, QueryError, parse
from evidence.search.analysis.query_relaxation import match_any_word
from evidence.search.analysis.tsquery import IndexedField, score_terms, to_tsquery
from tests.search.texts import LANGUAGES, MIXED, lexemes

CODES = {"subject": "a", "body": "b"}


def in_postgres(record: list[str], tsquery: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT array_to_tsvector(%s::text[]) @@ %s::tsquery", [record, tsquery])
        return bool(cursor.fetchone()[0])


def record(*, subject: str = "", body: str = "") -> list[str]:
    fields = [IndexedField("a", subject, 2.0), IndexedField("b", body, 1.0)]
    return lexemes(fields, languages=LANGUAGES)


def asked(q: str) -> Query:
    return parse(q, fields=CODES)


def test_tsquery_names_every_granted_field_tier_and_form() -> None:
    text = to_tsquery(asked("leases"), codes={"body": "b"}, languages=("en",), least_tier=2)
    assert text == "('b2leases' | 'b2leas' | 'b3leases' | 'b3leas')"


def test_tsquery_never_names_a_field_outside_the_grant() -> None:
    assert to_tsquery(asked("subject:lease"), codes={"body": "b"}, languages=()) is None
    assert to_tsquery(asked("lease"), codes={}, languages=()) is None
    one = to_tsquery(asked("subject:x OR y -subject:z"), codes={"body": "b"}, languages=())
    assert one == to_tsquery(asked("y"), codes={"body": "b"}, languages=())


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("q", "matches"),
    [
        ("running", True),
        ("run lease", True),
        ("run rocket", False),
        ("rocket OR lease", True),
        ("lea*", True),
        ("lease -rocket", True),
        ("lease -paris", False),
        ("subject:lease", True),
        ("subject:paris", False),
        ("e-mail", True),
        ("email", True),
        ("INV-2024/0017", True),
        ("inv-2024", True),
        ("0017", True),
        ("1234.5", True),
        ("ana@example.com", True),
        ("example.com", True),
        ("日本語", True),
        ("語", True),
        ("本日", False),
        ("it's", True),
        ('"signed the lease"', True),
        ('lease -"signed paris"', True),
    ],
)
def test_postgres_matches_the_tsquery(q: str, matches: bool) -> None:
    text = to_tsquery(asked(q), codes=CODES, languages=LANGUAGES)
    assert text is not None
    stored = record(
        subject="The lease we signed",
        body="It's running: e-mail INV-2024/0017 over 1,234.50 to ana@example.com in Paris. 日本語",
    )
    assert in_postgres(stored, text) is matches


@pytest.mark.django_db
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(MIXED, MIXED)
def test_postgres_parses_every_tsquery_and_misses_no_match(q: str, body: str) -> None:
    stored = record(body=body)
    try:
        query = asked(q)
    except QueryError:
        return
    for each in (query, match_any_word(query)):
        text = to_tsquery(each, codes=CODES, languages=LANGUAGES)
        assert text is not None
        found = in_postgres(stored, text)
        verified = verify({"body": body}, each, languages=LANGUAGES)
        assert found or not verified
        if not needs_verification(each, languages=LANGUAGES):
            assert found is verified
    for tiers in score_terms(query, codes=CODES, languages=LANGUAGES):
        for text in tiers:
            in_postgres(stored, text)


@pytest.mark.django_db
def test_text_matches_its_own_words() -> None:
    body = (
        "Dear Ana, the plumber's invoice (No. 4711/A) came to 1.234,50 €; see www.example.com/q?x=1"
    )
    for word in body.split():
        try:
            text = to_tsquery(parse(word), codes=CODES, languages=LANGUAGES)
        except QueryError:
            continue
        assert text is not None
        assert in_postgres(record(body=body), text), word


def test_word_scores_by_tier_highest_first() -> None:
    units = score_terms(asked("lease -draft"), codes={"body": "b"}, languages=())
    assert units == {("'b3lease'", "'b2lease'", "'b1lease'", "'b0lease'"): 1}


def test_compound_scores_as_a_whole_and_by_its_parts() -> None:
    units = score_terms(asked("e-mail"), codes={"body": "b"}, languages=())
    assert [unit[0] for unit in units] == ["'b3email'", "'b3e'", "'b3mail'"]


def test_cjk_run_scores_as_one_word() -> None:
    units = score_terms(asked("日本語"), codes={"body": "b"}, languages=())
    assert [unit[0] for unit in units] == ["('b3日本' | 'b3本語')"]
