"""Imported mail can be granted, searched and quoted over REST."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from evidence.access.grant_terms import StreamRequest
from evidence.access.grants import GrantRequest
from tests.importers.imports import TORTURE, connection, run

if TYPE_CHECKING:
    from tests.world import World

MAIL = b"From: ida@example.org\nDate: Mon, 5 Jan 2026 08:30:00 +0000\nSubject: %b\n"
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


def test_the_owner_wrote_imported_mail_of_the_sent_folder(world: "World", tmp_path: Path) -> None:
    mails = {
        "takeout": b"X-GM-THRID: 1\nX-Gmail-Labels: Archiviert,Gesendet\n" + MAIL % b"takeout",
        "received": b"X-GM-THRID: 2\nX-Gmail-Labels: Archiviert\n" + MAIL % b"received",
        # A sender can write fields too, but not before those of an export.
        "forged": MAIL % b"forged" + b"X-Gmail-Labels: Sent\n",
    }
    for name, content in mails.items():
        (tmp_path / f"{name}.eml").write_bytes(content + b"\nText")
    run(tmp_path)
    connection_id = connection("Mail").connection_id
    request = GrantRequest(connection_ids=[connection_id], streams=[StreamRequest(name="messages")])
    world.grant("reader", request)

    listed = world.get("/v1/streams/messages/records", "reader").body["data"]

    origins = {each["data"]["subject"]: each["origin"] for each in listed}
    assert (origins["takeout"], origins["received"]) == ("owner", "third_party")
    assert origins["forged"] != "owner"
    sizes = {each["data"]["subject"]: each["data"]["original_bytes"] for each in listed}
    assert sizes["takeout"] == len(mails["takeout"] + b"\nText")
