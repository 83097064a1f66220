"""Serialized grant terms parse to equal terms."""

from dataclasses import replace
from datetime import UTC, datetime

import orjson
import pytest

from evidence.access.grant_terms import parse_draft_terms, serialize_terms
from evidence.access.scope import Everything, FrozenRelation, Only, StreamTerms, TimeRange

SINCE, UNTIL = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 5, 1, tzinfo=UTC)
MAIL = StreamTerms(
    name="messages",
    connection_ids=frozenset({"cin_a", "cin_b"}),
    fields=Only(frozenset({"id", "subject"})),
    filters=Only(frozenset({"id"})),
    views=Only(frozenset({"list"})),
    relations=(FrozenRelation("thread", "threads", "thread_id", "one", 1, 10),),
    records=Only(frozenset({"m1"})),
    time=TimeRange(SINCE, UNTIL),
)


@pytest.mark.parametrize(
    "terms",
    [
        MAIL,
        replace(MAIL, records=Everything(), time=None),
        replace(MAIL, time=TimeRange(SINCE, None)),
        replace(MAIL, time=TimeRange(None, UNTIL)),
    ],
)
def test_terms_round_trip(terms: StreamTerms) -> None:
    document = serialize_terms([terms], time_fields={"messages": "received_at"})

    assert parse_draft_terms(orjson.dumps(document)) == (terms,)


@pytest.mark.parametrize("part", ["fields", "filters", "views", "relations"])
def test_unrestricted_terms_cannot_be_serialized(part: str) -> None:
    with pytest.raises(TypeError, match="a grant names its"):
        serialize_terms([replace(MAIL, **{part: Everything()})], time_fields={})
