"""Hostile records are marked, storable and cover the known attacks."""

import json
import unicodedata

from demo import hostile, life
from tests.demo import index


def _quarantined() -> list[dict]:
    return [
        line["data"] for line in life.records() if hostile.LABEL in line["data"].get("labels", [])
    ]


def test_mail_has_the_size_of_its_body() -> None:
    for mail in (line["data"] for line in life.records() if line["stream"] == "messages"):
        if (size := mail.get("size_bytes")) is not None:
            assert size == len(mail["body_text"].encode())


def test_hostile_mail_is_in_the_spam_folder_of_one_mailbox() -> None:
    lines = [line for line in life.records() if line["data"].get("folder") == "spam"]
    senders = {line["data"].get("from_name") for line in lines}
    assert hostile.SENDER[0] in senders
    assert {line["connection_id"] for line in lines} == {"cin_demo_mail_personal"}


def test_every_lookalike_key_is_the_key_of_a_mail() -> None:
    for key in ("a/b", "..", "cin_x/messages:1", "pdpp://record/abc"):
        assert key in hostile.LOOKALIKE_KEYS
    for key in hostile.LOOKALIKE_KEYS:
        assert ("cin_demo_mail_personal", "messages", key) in index.records()


def test_large_body_has_a_rare_word_near_its_end() -> None:
    (giant,) = [mail for mail in _quarantined() if mail["id"] == "hostile-giant"]
    assert len(giant["body_text"]) == 1_000_000
    assert giant["body_text"].index("vellichorium") > 990_000


def test_empty_missing_and_null_fields_all_occur() -> None:
    mails = {
        mail["id"]: mail
        for mail in (line["data"] for line in life.records() if "id" in line["data"])
    }
    assert mails["hostile-empty"]["subject"] == ""
    assert mails["hostile-null"]["subject"] is None
    assert "subject" not in mails["hostile-bare"]
    assert mails["hostile-no-time-1"]["received_at"] is None
    assert "received_at" not in mails["hostile-bare"]


def test_invisible_and_reordering_characters_occur_in_text() -> None:
    text = "".join(str(mail.get("subject")) + str(mail.get("body_text")) for mail in _quarantined())
    for character in ("\u202e", "\u2066", "\u200b", "\u200d", "\x1b"):
        assert character in text
    assert any(0xE0000 <= ord(character) <= 0xE007F for character in text)
    assert len(max((mail.get("subject") or "" for mail in _quarantined()), key=len)) > 10_000


def test_no_key_contains_a_control_character() -> None:
    for _, _, key in index.records():
        assert not any(unicodedata.category(character) == "Cc" for character in key)


def test_refused_lines_have_distinct_reasons_and_are_not_records() -> None:
    reasons = [reason for reason, _ in hostile.REFUSED_LINES]
    assert len(set(reasons)) == len(reasons) >= 10
    stored = {key for _, _, key in index.records()}
    for _, line in hostile.REFUSED_LINES:
        try:
            key = json.loads(line).get("key")
        except (ValueError, AttributeError, RecursionError):
            continue
        assert key not in stored
