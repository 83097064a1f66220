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


def test_the_owner_wrote_mail_that_gmail_exported_as_sent(world: "World", tmp_path: Path) -> None:
    sent, received = b"Archiviert,Gesendet", b"Archiviert"
    exported = b"From 179626372890123456%d@xxx Mon Jan 05 08:30:00 +0000 2026\n"
    delivered = b"From ida@example.org Mon Jan  5 08:30:00 2026\n"
    labels = b"X-GM-THRID: 1\nX-Gmail-Labels: %s\n"
    # A sender can write fields too, even first ones, but not the lines between the mails of an export.
    mailboxes = {
        "takeout.mbox": [
            exported % 1 + labels % sent + MAIL % b"takeout",
            exported % 2 + labels % received + MAIL % b"received",
            exported % 3 + labels % received + MAIL % b"forged later" + b"X-Gmail-Labels: Sent\n",
            delivered + labels % sent + MAIL % b"forged in between",
        ],
        "other.mbox": [
            delivered + labels % sent + MAIL % b"forged first",
            exported % 4 + labels % sent + MAIL % b"forged sender",
            delivered + b"X-Gmail-Labels: Sent\n" + MAIL % b"forged alone",
        ],
        "mail.eml": [labels % sent + MAIL % b"forged file"],
    }
    for name, mails in mailboxes.items():
        (tmp_path / name).write_bytes(b"\n".join(mail + b"\nText\n" for mail in mails))
    run(tmp_path)
    connection_id = connection("Mail").connection_id
    request = GrantRequest(connection_ids=[connection_id], streams=[StreamRequest(name="messages")])
    world.grant("reader", request)

    listed = world.get("/v1/streams/messages/records", "reader").body["data"]

    origins = {each["data"]["subject"]: each["origin"] for each in listed}
    assert len(origins) == 8
    assert [subject for subject, origin in origins.items() if origin == "owner"] == ["takeout"]
    assert origins["received"] == "third_party"
    sizes = {each["data"]["subject"]: each["data"]["original_bytes"] for each in listed}
    assert sizes["forged file"] == len(mailboxes["mail.eml"][0] + b"\nText\n")
