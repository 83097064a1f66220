"""Statements over personal rows."""

import psycopg
import pytest
from pytest_django import DjangoAssertNumQueries

from evidence.access.ranking.matches import load_records
from evidence.access.ranking.vectors import streams_without_vectors
from evidence.access.record_counts import stored_counts
from evidence.access.record_details import find_blobs
from evidence.access.sql import SQL, fetch_prepared, fill


@pytest.mark.django_db
def test_results_of_prepared_statements_are_binary(monkeypatch: pytest.MonkeyPatch) -> None:
    """Text results would be slower to parse."""
    formats = []

    class FormatRecorder(psycopg.RawCursor[tuple[object, ...]]):
        def fetchall(self) -> list[tuple[object, ...]]:
            assert self.pgresult
            formats.append(self.pgresult.fformat(0))
            return super().fetchall()

    monkeypatch.setattr(psycopg, "RawCursor", FormatRecorder)
    assert fetch_prepared(SQL("SELECT %s::text", ("a",))) == [("a",)]
    assert formats == [psycopg.pq.Format.BINARY]


@pytest.mark.django_db
def test_empty_input_runs_no_query(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    with django_assert_num_queries(0):
        assert find_blobs([], "blob_1") == []
        assert stored_counts([]) == {}
        assert load_records([], []) == []
        assert streams_without_vectors([], {}) == []


@pytest.mark.django_db
def test_parts_and_values_of_a_statement_stand_where_they_are_named() -> None:
    part = SQL("%s::text || %s", ("b", "c"))
    statement = fill("SELECT {first}::text, {part}, '{}', {first}::text", first="a", part=part)
    assert fetch_prepared(statement) == [("a", "bc", "{}", "a")]


@pytest.mark.parametrize("parts", [{}, {"owner": "a", "limit": 1}])
def test_a_statement_takes_exactly_its_parts(parts: dict[str, object]) -> None:
    """A condition that is not in the statement would be lost in silence."""
    with pytest.raises(ValueError, match="not the parts"):
        fill("SELECT 1 WHERE {owner}", **parts)
