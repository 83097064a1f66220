"""Statements over personal rows."""

import psycopg
import pytest
from pytest_django import DjangoAssertNumQueries

from evidence.access.ranking.matches import load_records
from evidence.access.ranking.vectors import streams_without_vectors
from evidence.access.record_counts import stored_counts
from evidence.access.record_parts import find_blobs
from evidence.access.sql import SQL, fetch_prepared


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
