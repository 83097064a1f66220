"""Mail as it comes: every mail of a torture file is there, read as a person would read it."""

from pathlib import Path

import pytest

from tests.importers.imports import TORTURE, content, latest, one, receipts, records, run

pytestmark = pytest.mark.django_db
MBOX = TORTURE / "mail.mbox"


def test_every_mail_is_there_once() -> None:
    said = run(MBOX)

    assert "mail from a mailbox file" in said
    assert len(records("messages")) == 14
    assert latest().doubles == 1
    assert latest().items_done == 15


def test_headers_are_decoded_also_where_words_break_in_the_middle() -> None:
    run(MBOX)

    mail = one("messages", internet_message_id="plain@example.org")
    assert mail["from_name"] == "Jürgen Lörtscher"
    assert mail["from_email"] == "juergen@example.org"
    assert mail["to"] == ["ida@example.org", "cafe@example.org"]
    assert mail["subject"] == "Grüße aus der Schweiz"
    assert mail["received_at"] == "2026-01-05T08:30:00Z"
    assert mail["labels"] == ["Inbox", "Persönlich", "Unread"]
    assert mail["is_read"] is False


def test_lines_that_begin_with_from_are_text_again() -> None:
    run(MBOX)

    mail = one("messages", internet_message_id="plain@example.org")
    assert mail["body_text"] == (
        "Das Haus ist groß, und der See ist warm.\nFrom the window one sees the alps."
        "\n\nFrom here on it is downhill, said Eva at 10:30."
    )


def test_mail_that_is_only_html_has_the_text_that_is_seen() -> None:
    run(MBOX)

    mail = one("messages", internet_message_id="html@example.org")
    assert mail["body_source"] == "html"
    assert mail["body_text"] == "The plumber comes on Thursday.\n\nPrice 90€"


def test_threads_are_joined_by_their_first_mail() -> None:
    run(MBOX)

    first = one("messages", internet_message_id="plain@example.org")
    answer = one("messages", internet_message_id="html@example.org")
    assert answer["thread_id"] == first["thread_id"]
    assert answer["in_reply_to"] == "other@example.org"


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
def test_what_is_badly_written_is_read_as_well_as_can_be(message_id: str, words: str) -> None:
    run(MBOX)

    assert words in one("messages", internet_message_id=message_id)["body_text"]


def test_a_day_that_does_not_exist_leaves_a_receipt_and_the_day_of_arrival() -> None:
    run(MBOX)

    mail = one("messages", internet_message_id="feb30@example.org")
    assert mail["received_at"] == "2026-03-02T11:00:00Z"
    assert ("bad_date", "mail 5") in receipts()


def test_nesting_without_end_is_left_at_its_depth() -> None:
    run(MBOX)

    assert one("messages", internet_message_id="deep@example.org")["body_text"] is None
    assert ("nested_too_deeply", "mail 8") in receipts()


def test_files_are_kept_and_their_text_is_read() -> None:
    run(MBOX)

    mail = one("messages", internet_message_id="contract@example.org")
    assert mail["body_text"] == "The contract is attached."
    assert mail["has_attachments"] is True
    contract = one("attachments", filename="Vertrag München.pdf")
    assert contract["message_id"] == mail["id"]
    assert "The deposit is 2340 euros." in contract["text"]
    assert content(contract["blob_ref"]).startswith(b"%PDF-1.4")
    assert "1900 euros" in one("attachments", filename="the old contract")["text"]


def test_what_outlook_wraps_up_is_unwrapped() -> None:
    run(MBOX)

    minutes = one("attachments", filename="minutes.txt")
    assert minutes["text"] == "Minutes of the meeting: the roof is to be mended in spring."
    assert content(minutes["blob_ref"]).startswith(b"Minutes")


def test_a_mail_cannot_be_replaced_by_another_with_its_id() -> None:
    run(MBOX)

    bodies = {
        each["body_text"]
        for each in records("messages")
        if each["internet_message_id"] == "twice@example.org"
    }
    assert bodies == {"The same mail twice.", "Another mail under the same id."}


def test_maildir_says_folder_and_what_was_read(tmp_path: Path) -> None:
    mail = b"From: a@example.org\nMessage-ID: <%d>\nSubject: x\n\nbody %d\n"
    for number, where in enumerate(["cur/1:2,S", "new/2", ".Archive.2024/cur/3:2,"]):
        path = tmp_path / "box" / where
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(mail % (number, number))

    run(tmp_path / "box")

    found = {(each["folder"], each["is_read"]) for each in records("messages")}
    assert found == {("inbox", True), ("inbox", False), ("Archive/2024", False)}


def test_a_single_mail_is_read_and_what_is_none_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "one.eml").write_bytes(b"From: a@example.org\r\nSubject: One\r\n\r\nalone\r\n")
    (tmp_path / "two.eml").write_bytes(b"\x89PNG\r\n\x1a\n")

    run(tmp_path)

    assert [each["subject"] for each in records("messages")] == ["One"]
    assert receipts() == {("malformed", "two.eml")}
