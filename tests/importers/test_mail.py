"""All messages of a torture mailbox are imported as a mail program would display them."""

from pathlib import Path

import pytest

from tests.importers.imports import TORTURE, content, latest, one, receipts, records, run

pytestmark = pytest.mark.django_db
MBOX = TORTURE / "mail.mbox"


def test_duplicate_messages_are_imported_once() -> None:
    output = run(MBOX)

    assert "mail from a mailbox file" in output
    assert len(records("messages")) == 14
    assert latest().doubles == 1
    assert latest().items_done == 15


def test_encoded_words_are_decoded_and_from_lines_unquoted() -> None:
    run(MBOX)

    mail = one("messages", internet_message_id="plain@example.org")
    assert mail["from_name"] == "Jürgen Lörtscher"
    assert mail["from_email"] == "juergen@example.org"
    assert mail["to"] == ["ida@example.org", "cafe@example.org"]
    assert mail["subject"] == "Grüße aus der Schweiz"
    assert mail["received_at"] == "2026-01-05T08:30:00Z"
    assert mail["labels"] == ["Inbox", "Persönlich", "Unread"]
    assert mail["is_read"] is False
    assert mail["body_text"] == (
        "Das Haus ist groß, und der See ist warm.\nFrom the window one sees the alps."
        "\n\nFrom here on it is downhill, said Eva at 10:30."
    )


def test_html_answer_has_its_visible_text_and_thread() -> None:
    run(MBOX)

    mail = one("messages", internet_message_id="html@example.org")
    assert mail["body_source"] == "html"
    assert mail["body_text"] == "The plumber comes on Thursday.\n\nPrice 90€"
    first = one("messages", internet_message_id="plain@example.org")
    assert mail["thread_id"] == first["thread_id"]
    assert mail["in_reply_to"] == "other@example.org"


@pytest.mark.parametrize(
    ("message_id", "words"),
    [
        ("charset@example.org", "Überweisung über 20 €"),
        ("unstated@example.org", "Schöne Grüße aus Köln"),
        ("nul@example.org", "before \ufffd after"),
        ("megabyte@example.org", "A body after a megabyte of headers."),
        ("broken@example.org", "Unfairly cut off he"),
    ],
)
def test_malformed_message_keeps_readable_body(message_id: str, words: str) -> None:
    run(MBOX)

    assert words in one("messages", internet_message_id=message_id)["body_text"]


def test_invalid_date_is_replaced_and_nesting_depth_is_limited() -> None:
    run(MBOX)

    mail = one("messages", internet_message_id="feb30@example.org")
    assert mail["received_at"] == "2026-03-02T11:00:00Z"
    assert ("bad_date", "message 5") in receipts()
    assert one("messages", internet_message_id="deep@example.org")["body_text"] is None
    assert ("nested_too_deeply", "message 8") in receipts()


def test_attachments_and_those_of_winmail_dat_are_stored_with_their_text() -> None:
    run(MBOX)

    mail = one("messages", internet_message_id="contract@example.org")
    assert mail["body_text"] == "The contract is attached."
    assert mail["has_attachments"] is True
    contract = one("attachments", filename="Vertrag München.pdf")
    assert contract["message_id"] == mail["id"]
    assert "The deposit is 2340 euros." in contract["text"]
    assert content(contract["blob_ref"]).startswith(b"%PDF-1.4")
    assert "1900 euros" in one("attachments", filename="the old contract")["text"]
    minutes = one("attachments", filename="minutes.txt")
    assert minutes["text"] == "Minutes of the meeting: the roof is to be mended in spring."
    assert content(minutes["blob_ref"]).startswith(b"Minutes")


def test_messages_with_same_message_id_are_both_kept() -> None:
    run(MBOX)

    bodies = {
        record["body_text"]
        for record in records("messages")
        if record["internet_message_id"] == "twice@example.org"
    }
    assert bodies == {"The same mail twice.", "Another mail under the same id."}


def test_eml_file_is_imported_and_other_content_refused(tmp_path: Path) -> None:
    (tmp_path / "one.eml").write_bytes(b"From: a@example.org\r\nSubject: One\r\n\r\nalone\r\n")
    (tmp_path / "two.eml").write_bytes(b"\x89PNG\r\n\x1a\n")

    run(tmp_path)

    assert [record["subject"] for record in records("messages")] == ["One"]
    assert receipts() == {("malformed", "two.eml")}
