"""How statements over personal rows are run."""

import psycopg
import pytest

from evidence.access.statements import Fragment, fetched_by_one_plan


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
