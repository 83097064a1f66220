"""Imported mail can be granted, searched and quoted over REST."""

from typing import TYPE_CHECKING

import pytest

from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest
from tests.importers.imports import TORTURE, connection, run

if TYPE_CHECKING:
    from tests.world import World

FIELDS = ("id", "subject", "from_name", "received_at", "body_text")


@pytest.fixture
def reader(world: "World") -> str:
    """A client with a grant for the text of imported mail, without attachments."""
    run(TORTURE / "mail.mbox", language=["en", "de"])
    request = GrantRequest(
        connection_ids=[connection("Mail").connection_id],
        streams=[StreamRequest(name="messages", fields=FIELDS)],
    )
    world.grant("reader", request)
    return "reader"


def test_imported_message_is_found_and_quoted(world: "World", reader: str) -> None:
    (hit,) = world.get("/v1/search", reader, q="plumber Thursday").body["data"]

    excerpt = hit["evidence_excerpts"][0]
    record = world.get(f"/v1/streams/messages/records/{hit['record_key']}", reader)
    text = record.body["data"][excerpt["field_path"]]
    quote = text[excerpt["match_start_chars"] : excerpt["match_end_chars"]]
    assert quote.lower() in ("plumber", "thursday")
    assert "The plumber comes on Thursday." in text
    assert set(record.body["data"]) <= set(FIELDS)


def test_ungranted_records_are_not_found(world: "World", reader: str) -> None:
    # This text occurs in attachments only.
    assert world.get("/v1/search", reader, q="2340").body["data"] == []
    assert world.get("/v1/streams/attachments/records", reader).status == 403
