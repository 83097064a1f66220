"""Two grants of one package over the same stream: where they differ, the narrower one counts."""

from typing import Any

import pytest

from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest
from tests.world import PERSONAL, WORK, World

LIST = "/v1/streams/messages/records"
WIDE = ("subject", "size_bytes", "body_text", "received_at", "from_name")


@pytest.fixture
def erin(world: World) -> World:
    """Erin reads nearly all of the personal mail, and of the work mail the subjects."""
    world.grant("erin", mail_of(PERSONAL, *WIDE), mail_of(WORK, "subject"))
    return world


def mail_of(connection_id: str, *fields: str) -> GrantRequest:
    streams = [StreamRequest(name="messages", fields=fields)]
    return GrantRequest(connection_ids=[connection_id], streams=streams)


@pytest.mark.parametrize(
    ("path", "query"),
    [
        (LIST, {"filter__size_bytes__gte": 1000}),
        (LIST, {"sort": "-received_at"}),
        (LIST, {"window": "exact"}),
        ("/v1/streams/messages/aggregate", {"metric": "sum", "field": "size_bytes"}),
        ("/v1/streams/messages/aggregate", {"metric": "count", "group_by": "from_name"}),
    ],
)
def test_a_field_that_one_of_them_hides_chooses_orders_and_counts_nothing(
    erin: World, path: str, query: dict[str, Any]
) -> None:
    assert erin.get(path, "erin", connection_id=PERSONAL, **query).status == 200
    refused = erin.get(path, "erin", **query)
    assert refused.status in (400, 403)
    assert refused.error["code"] in ("field_not_granted", "invalid_sort", "invalid_request")


def test_each_record_shows_what_its_own_grant_shows(erin: World) -> None:
    rows = erin.get(LIST, "erin", limit=100).body["data"]
    shown = {row["connection_id"]: set(row["data"]) for row in rows if row["id"] != "m4"}
    assert "body_text" in shown[PERSONAL]
    assert shown[WORK] == {"id", "subject"}


def test_words_of_a_field_that_one_of_them_hides_are_found_where_it_is_shown_only(
    erin: World,
) -> None:
    found = erin.get("/v1/search", "erin", q="deposit").body["data"]
    assert {hit["connection_id"] for hit in found} == {PERSONAL}
    assert erin.get("/v1/search", "erin", q="Thursday").body["data"] == []
