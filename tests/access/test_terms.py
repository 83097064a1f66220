"""What a grant freezes says which names it allows, and reads back to the same."""

from dataclasses import replace
from datetime import UTC, datetime

import orjson
import pytest

from evidence.access.grant_terms import frozen, thawed
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
def test_what_is_frozen_reads_back_to_the_same(terms: StreamTerms) -> None:
    document = frozen([terms], time_fields={"messages": "received_at"})

    assert thawed(orjson.dumps(document)) == (terms,)


@pytest.mark.parametrize("part", ["fields", "filters", "views", "relations"])
def test_everything_is_not_frozen(part: str) -> None:
    with pytest.raises(TypeError, match="a grant names its"):
        frozen([replace(MAIL, **{part: Everything()})], time_fields={})
