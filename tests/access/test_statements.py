"""How statements over personal rows are run."""

import psycopg
import pytest
from pytest_django import DjangoAssertNumQueries

from evidence.access.aggregates import kept_counts
from evidence.access.ranking.matches import rows_of
from evidence.access.ranking.vectors import waiting
from evidence.access.record_parts import blobs_of_id
from evidence.access.sql import Fragment, fetched_by_one_plan


@pytest.mark.django_db
def test_answers_come_in_binary(monkeypatch: pytest.MonkeyPatch) -> None:
    """As text a page of records is read more slowly."""
    formats = []

    class Watched(psycopg.RawCursor[tuple[object, ...]]):
        def fetchall(self) -> list[tuple[object, ...]]:
            assert self.pgresult
            formats.append(self.pgresult.fformat(0))
            return super().fetchall()

    monkeypatch.setattr(psycopg, "RawCursor", Watched)
    assert fetched_by_one_plan(Fragment("SELECT %s::text", ("a",))) == [("a",)]
    assert formats == [psycopg.pq.Format.BINARY]


@pytest.mark.django_db
def test_nothing_is_asked_where_there_is_nothing_to_ask_of(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    with django_assert_num_queries(0):
        assert blobs_of_id([], "blob_1") == []
        assert kept_counts([]) == {}
        assert rows_of([], []) == []
        assert waiting([], {}) == []
