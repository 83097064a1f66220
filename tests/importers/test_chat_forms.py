# ruff: noqa: RUF001
"""Chats in more languages, and messages without plain text."""

import json
from pathlib import Path
from typing import Any

import pytest

from importers.models import ImportReceipt
from tests.importers.imports import one, receipts, records, run
from tests.importers.torture_kit import read_stream

pytestmark = pytest.mark.django_db


def chat(path: Path, *lines: str, name: str = "WhatsApp Chat with Jonas") -> Path:
    file = path / f"{name}.txt"
    file.write_text("".join(f"{line}\n" for line in lines))
    return file


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("٢٢/١١/٢٠٢٦، ٨:٣٠ م - Ida: hi", "٢٣/١١/٢٠٢٦، ٨:٣٠ ص - Ida: ho"),
        (
            "\u200f22\u200f/11\u200f/2026، 8:30 م - Ida: hi",
            "\u200f23\u200f/11\u200f/2026، 8:30 ص - Ida: ho",
        ),
        ("۲۰۲۶/۱۱/۲۲،\u200f ۲۰:۳۰ - Ida: hi", "۲۰۲۶/۱۱/۲۳،\u200f ۸:۳۰ - Ida: ho"),
        ("2026/11/22, 8:30 ب.ظ. - Ida: hi", "2026/11/23, 8:30 ق.ظ. - Ida: ho"),
        ("22/11/2026، 8:30 بعد دوپہر - Ida: hi", "23/11/2026، 8:30 قبل دوپہر - Ida: ho"),
        ("22/11/26, 8:30 μ.μ. - Ida: hi", "23/11/26, 8:30 π.μ. - Ida: ho"),
        ("22.11.26 г., 20:30 ч. - Ida: hi", "23.11.26 г., 08:30 ч. - Ida: ho"),
        ("26. 11. 22. 오후 8:30 - Ida: hi", "26. 11. 23. 오전 8:30 - Ida: ho"),
        ("2026년 11월 22일 오후 8:30 - Ida: hi", "2026년 11월 23일 오전 8:30 - Ida: ho"),
        ("2026年11月22日 下午8:30 - Ida: hi", "2026年11月23日 上午8:30 - Ida: ho"),
        ("22/11/2569 20:30 - Ida: hi", "23/11/2569 08:30 - Ida: ho"),
        ("[22/11/2569 BE 20:30:00] Ida: hi", "[23/11/2569 BE 08:30:00] Ida: ho"),
        ("2026-11-22 20 h 30 - Ida: hi", "2026-11-23 08 h 30 - Ida: ho"),
        ("20:30, 22/11/2026 - Ida: hi", "08:30, 23/11/2026 - Ida: ho"),
        ("22/11/2026, 8:30 PTG - Ida: hi", "23/11/2026, 8:30 PG - Ida: ho"),
        ("2026-11-22 8:30 nm. - Ida: hi", "2026-11-23 8:30 vm. - Ida: ho"),
        ("22.11.2026, 8:30 MD - Ida: hi", "23.11.2026, 8:30 PD - Ida: ho"),
        ("22.11.2026 8:30 odp. - Ida: hi", "23.11.2026 8:30 dop. - Ida: ho"),
        ("2026년 11월 22일 오후 8:30, Ida : hi", "2026년 11월 23일 오전 8:30, Ida : ho"),
        ("22.11.2026, 20:30: Ida: hi", "23.11.2026, 08:30: Ida: ho"),
        ("[22.11.2026 klo 20.30.00] Ida: hi", "[23.11.2026 klo 8.30.00] Ida: ho"),
    ],
)
def test_whatsapp_dates_of_more_languages(tmp_path: Path, first: str, second: str) -> None:
    found = read_stream("whatsapp", chat(tmp_path, first, second), "messages")

    times = {record["text"]: record["sent_at"][:16] for record in found}
    assert times == {"hi": "2026-11-22T20:30", "ho": "2026-11-23T08:30"}
    assert {record["author"] for record in found} == {"Ida"}


@pytest.mark.parametrize("end", ["", " ", "\r"])
def test_message_of_an_iphone_without_text_has_its_author(tmp_path: Path, end: str) -> None:
    lines = (f"[13/01/2026, 08:30:00] Ida Lang:{end}", "[14/01/2026, 08:30:00] Jonas: ho")

    first, _ = read_stream("whatsapp", chat(tmp_path, *lines), "messages")

    assert (first["author"], first["text"], first["kind"]) == ("Ida Lang", None, "message")


def test_whatsapp_chat_of_two_phones_is_read_in_both_forms(tmp_path: Path) -> None:
    lines = (
        "13/01/2026, 08:30 - Ida: hi", "14/01/2026, 08:30 - Jonas: ho",
        "[15/01/2026, 20:30:11] Ida: ha", "\u200e[1/16/26, 8:30:11\u202fPM] Jonas: hu",
    )  # fmt: skip

    found = read_stream("whatsapp", chat(tmp_path, *lines), "messages")

    assert [(each["author"], each["sent_at"][:16]) for each in found] == [
        ("Ida", "2026-01-13T08:30"), ("Jonas", "2026-01-14T08:30"),
        ("Ida", "2026-01-15T20:30"), ("Jonas", "2026-01-16T20:30"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "is_doubtful"),
    [
        ("15 Jan 2026, 20:30 - Ida: hu", True),
        ("Jan 15, 2026, 8:30 PM - Ida: hu", True),
        ("\\u200E[15.01.2026, 20:30:11] Ida: hu", True),
        ("2026/01/15 20:30, Ida: hu", False),
        ("[8:30 PM, 1/15/2026] Ida: hu", False),
        ("[15/01, 20:30] Ida: hu", False),
        ("15 May at 10:30 - Yoga: bring a mat", False),
    ],
)
def test_line_in_an_unknown_form_has_a_receipt(
    tmp_path: Path, line: str, is_doubtful: bool
) -> None:
    run(chat(tmp_path, "13/01/2026, 08:30 - Ida: hi", "14/01/2026, 08:30 - Jonas: ho", line))

    assert one("messages", author="Jonas")["text"] == f"ho\n{line}"
    assert {code for code, _ in receipts()} == ({"partly_imported"} if is_doubtful else set())


@pytest.mark.parametrize(
    "text",
    [
        "<Medien ausgeschlossen>",
        "<미디어 파일을 제외한 내용>",
        "<メディアは含まれていません>",
        "\u200eimage omitted",
        "\u200eBild weggelassen",
    ],
)
def test_omitted_media_is_a_file_and_no_text(tmp_path: Path, text: str) -> None:
    run(chat(tmp_path, f"13.01.26, 08:30 - Ida: {text}", "14.01.26, 08:30 - Ida: <3 you all"))

    message = one("messages", has_attachments=True)
    assert message["text"] is None
    assert one("messages", has_attachments=False)["text"] == "<3 you all"
    assert records("attachments")[0]["message_id"] == message["id"]
    assert {code for code, _ in receipts()} == {"file_missing"}


@pytest.mark.parametrize(
    ("written", "text", "files"),
    [
        ("Muscles! \u200eBild weggelassen", "Muscles!", 1),
        ("Plan.exe \u200edocument omitted", "Plan.exe", 1),
        ("<Medien ausgeschlossen>\nMuscles!", "Muscles!", 1),
        ("<Ida changed the name to Waffle>", "<Ida changed the name to Waffle>", 0),
        ("Marie absente", "Marie absente", 0),
        ("nothing was omitted", "nothing was omitted", 0),
    ],
)
def test_text_beside_omitted_media_or_like_it_is_kept(
    tmp_path: Path, written: str, text: str, files: int
) -> None:
    run(chat(tmp_path, f"13.01.26, 08:30 - Ida: {written}", "14.01.26, 08:30 - Ida: hi"))

    assert {message["text"] for message in records("messages")} == {text, "hi"}
    assert len(records("attachments")) == files


def slack(path: Path, message: dict[str, Any], *, folder: str = "D01") -> None:
    users = [{"id": "U1", "name": "ida"}, {"id": "U2", "profile": {"real_name": "Jonas Wolf"}}]
    dms = [{"id": "D01", "members": ["U1", "U2"]}]
    mpims = [{"id": "G1", "name": "mpdm-ida--jonas-1", "members": ["U1", "U2"]}]
    (path / folder).mkdir(parents=True)
    for name, value in (("users", users), ("dms", dms), ("mpims", mpims)):
        (path / f"{name}.json").write_text(json.dumps(value))
    day = [{"ts": "1768000000.000100", "user": "U1", **message}]
    (path / folder / "2026-01-10.json").write_text(json.dumps(day))
    run(path)


RICH = [
    {
        "type": "rich_text",
        "elements": [
            {
                "type": "rich_text_section",
                "elements": [
                    {"type": "text", "text": "a < b, "},
                    {"type": "user", "user_id": "U2"},
                    {"type": "text", "text": " see "},
                    {"type": "link", "url": "https://a.example", "text": "this"},
                    {"type": "emoji", "name": "wave"},
                ],
            },
            {
                "type": "rich_text_list",
                "elements": [
                    {"type": "rich_text_section", "elements": [{"type": "text", "text": "one"}]},
                    {"type": "rich_text_section", "elements": [{"type": "text", "text": "two"}]},
                ],
            },
        ],
    }
]
SECTION = [
    {"type": "header", "text": {"type": "plain_text", "text": "Build"}},
    {"type": "divider"},
    {
        "type": "section",
        "text": {"type": "mrkdwn", "text": "<@U2> broke &amp; fixed it"},
        "fields": [{"type": "mrkdwn", "text": "Took 5 min"}],
    },
    {"type": "context", "elements": [{"type": "mrkdwn", "text": "by CI"}]},
]


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"blocks": RICH}, "a < b, @Jonas Wolf see this (https://a.example):wave:\none\ntwo"),
        ({"text": "", "blocks": SECTION}, "Build\n@Jonas Wolf broke & fixed it\nTook 5 min\nby CI"),
        ({"text": "", "attachments": [{"blocks": SECTION[:1]}]}, "Build"),
        ({"text": "Said", "blocks": RICH}, "Said"),
        (
            {"text": "Said", "blocks": SECTION},
            "Build\n@Jonas Wolf broke & fixed it\nTook 5 min\nby CI\nSaid",
        ),
    ],
)
def test_slack_message_with_text_in_blocks(
    tmp_path: Path, message: dict[str, Any], text: str
) -> None:
    slack(tmp_path / "slack", message)

    lines = [line.strip() for line in records("messages")[0]["text"].splitlines() if line.strip()]
    assert "\n".join(lines) == text


@pytest.mark.parametrize(
    ("members", "text", "kind"),
    [
        (
            {
                "poll": {
                    "question": "Tea?",
                    "answers": [{"text": "Yes", "voters": 3}, {"text": "No", "voters": 0}],
                }
            },
            "Tea?\n- Yes (3)\n- No (0)",
            "poll",
        ),
        (
            {
                "poll": {
                    "question": [{"type": "plain", "text": "Tea?"}],
                    "answers": [{"text": ["Yes"]}],
                }
            },
            "Tea?\n- Yes",
            "poll",
        ),
        (
            {
                "place_name": "Café Blau",
                "address": "Lindenstr. 1",
                "location_information": {"latitude": 52.5, "longitude": 13.4},
            },
            "Café Blau\nLindenstr. 1\n52.5, 13.4",
            "place",
        ),
        (
            {
                "contact_information": {
                    "first_name": "Eva",
                    "last_name": "Lang",
                    "phone_number": "+49 1",
                }
            },
            "Eva Lang +49 1",
            "contact",
        ),
        ({"media_type": "sticker", "sticker_emoji": "👋"}, "👋", "sticker"),
    ],
)
def test_telegram_messages_without_text(
    tmp_path: Path, members: dict[str, Any], text: str, kind: str
) -> None:
    message = {"id": 1, "type": "message", "date_unixtime": "1768000000", "from": "Ida", "text": ""}
    result = {"name": "Jonas", "type": "personal_chat", "id": 7, "messages": [message | members]}
    (tmp_path / "result.json").write_text(json.dumps(result))

    run(tmp_path / "result.json")

    (record,) = records("messages")
    assert (record["text"], record["kind"]) == (text, kind)


def test_number_as_author_has_no_invisible_marks(tmp_path: Path) -> None:
    path = chat(tmp_path, "22/11/2026, 20:30 - \u202a+44\xa07961\xa0427361\u202c: hi")

    (message,) = read_stream("whatsapp", path, "messages")

    assert (message["author"], message["text"]) == ("+44 7961 427361", "hi")


def test_empty_message_has_its_author_and_no_text(tmp_path: Path) -> None:
    path = chat(
        tmp_path,
        "22/11/2026, 20:30 - Ida: ",
        "23/11/2026, 08:30 - Ida: so: ",
        "23/11/2026, 08:31 - Ida:",
    )

    run(path)

    messages = sorted(records("messages"), key=lambda message: message["sent_at"])
    assert [(message["author"], message["text"], message["kind"]) for message in messages] == [
        ("Ida", None, "message"), ("Ida", "so:", "message"), (None, "Ida:", "system")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "author", "text"),
    [
        ('Ida changed the subject to "a: b"', None, 'Ida changed the subject to "a: b"'),
        ("Ida hat den Betreff zu „a: b“ geändert", None, "Ida hat den Betreff zu „a: b“ geändert"),
        ("Ida a changé le sujet en « a : b : c »", None, "Ida a changé le sujet en « a : b : c »"),
        ("Ida changed the subject from “x: y” to “z”", None, "Ida changed the subject from “x: y” to “z”"),
        ("You created group 'a: b'", None, "You created group 'a: b'"),
        ('Jonas "Joe" Wolf: say "x: y"', 'Jonas "Joe" Wolf', 'say "x: y"'),
        ("Ida O'Hara: hi", "Ida O'Hara", "hi"),
        ("~\u202fIda :): hi: you", "~ Ida :)", "hi: you"),
        ("Ida :3: hi", "Ida :3", "hi"),
        ("~\u202fIda:): hi: you", "~ Ida:)", "hi: you"),
        ("Ida 14:13: hi: you", "Ida 14:13", "hi: you"),
        ("+49 151 23:\thi: you", "+49 151 23", "hi: you"),
        ("Ida: :) so: yes", "Ida", ":) so: yes"),
        ("Ida pinned https://a.example/b: see", None, "Ida pinned https://a.example/b: see"),
        ("Ida: hello <This message was edited>", "Ida", "hello"),
        ("Ida: hello \u200e<This message was edited>", "Ida", "hello"),
        ("Ida: a\nb <Diese Nachricht wurde bearbeitet.>", "Ida", "a\nb"),
        ("Ida: ciao <Questo messaggio è stato modificato>", "Ida", "ciao"),
        ("Ida: dag <Dit bericht is bewerkt>", "Ida", "dag"),
        ("Ida: привет <Сообщение изменено>", "Ida", "привет"),
        ("Ida: selam <Bu mesaj düzenlendi>", "Ida", "selam"),
        ("Ida: hi <이 메시지가 수정되었습니다>", "Ida", "hi"),
        ("Ida: hi <此消息已编辑>", "Ida", "hi"),
        ("Ida: hi <תוכן ההודעה נערך>", "Ida", "hi"),
        ("Ida: <This message was edited>", "Ida", None),
        ("Ida: I like <edit>", "Ida", "I like <edit>"),
    ],
)  # fmt: skip
def test_whatsapp_notices_are_no_author_text_or_file(
    tmp_path: Path, line: str, author: str | None, text: str | None
) -> None:
    path = chat(tmp_path, f"13.01.26, 08:30 - {line}", "14.01.26, 08:30 - Ida: ok")

    message, _ = read_stream("whatsapp", path, "messages")

    assert (message["author"], message["text"]) == (author, text)
    assert message["kind"] == ("message" if author else "system")


def telegram(path: Path, *messages: dict[str, Any]) -> Path:
    base = {"type": "message", "date_unixtime": "1768000000", "from": "Ida"}
    result = {
        "name": "Jonas",
        "type": "personal_chat",
        "id": 7,
        "messages": [base | message for message in messages],
    }
    path.mkdir(parents=True, exist_ok=True)
    (path / "result.json").write_text(json.dumps(result))
    return path


def test_second_telegram_message_with_an_id_has_a_receipt(tmp_path: Path) -> None:
    first, other = {"id": 1, "text": "one"}, {"id": 1, "text": "two"}

    run(telegram(tmp_path, first, first, other, {"id": 2, "text": "one"}))

    assert sorted(each["text"] for each in records("messages")) == ["one", "one"]
    assert receipts() == {("older_version", "Jonas")}


def test_newest_telegram_export_of_a_folder_counts(tmp_path: Path) -> None:
    telegram(tmp_path / "in" / "ChatExport_2026-01-02", {"id": 1, "text": "helo"})
    edited = {"id": 1, "text": "hello", "edited_unixtime": "1768000100"}
    telegram(tmp_path / "in" / "ChatExport_2026-02-02", edited)

    run(tmp_path / "in")

    assert records("messages")[0]["text"] == "hello"
    assert records("messages")[0]["edited_at"] == "2026-01-09T23:08:20Z"
    assert receipts() == {("older_version", "Jonas")}


@pytest.mark.parametrize(
    ("members", "sent_at", "edited_at"),
    [
        ({"edited": "2026-01-10T09:00:00"}, "2026-01-10T08:00:00Z", "2026-01-10T08:00:00Z"),
        ({"edited": "1970-01-01T01:00:00"}, "2026-01-10T08:00:00Z", None),
        ({"edited_unixtime": "1768035600"}, "2026-01-10T08:00:00Z", "2026-01-10T09:00:00Z"),
    ],
)
def test_times_of_older_telegram_exports_are_local(
    tmp_path: Path, members: dict[str, Any], sent_at: str, edited_at: str | None
) -> None:
    message = {"id": 1, "text": "hi", "date": "2026-01-10T09:00:00", "date_unixtime": None}

    run(telegram(tmp_path, message | members), timezone="Europe/Berlin")

    (record,) = records("messages")
    assert (record["sent_at"], record["edited_at"]) == (sent_at, edited_at)
    assert receipts() == set()


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"action": "edit_group_title", "actor": "Ida", "title": "New"}, "edit_group_title: New"),
        ({"action": "invite_members", "members": ["A", "B"]}, "invite_members: A, B"),
        (
            {"action": "phone_call", "duration_seconds": 65, "discard_reason": "hangup"},
            "phone_call: 65, hangup",
        ),
        ({"action": "pin_message", "message_id": 4}, "pin_message"),
        (
            {
                "action": "todo_append_tasks",
                "items": [{"text": "Tickets", "id": 1}, {"text": "Bag"}],
            },
            "todo_append_tasks: Tickets, Bag",
        ),
    ],
)
def test_telegram_notices_have_their_details(
    tmp_path: Path, members: dict[str, Any], text: str
) -> None:
    run(telegram(tmp_path, {"id": 1, "type": "service", "text": "", **members}))

    (record,) = records("messages")
    assert (record["text"], record["kind"]) == (text, "system")


@pytest.mark.parametrize(
    ("members", "detail"),
    [
        ({"giveaway_information": {"quantity": 5}}, "giveaway_information"),
        ({"self_destruct_period_seconds": 5}, "self_destruct_period_seconds"),
        ({"type": "unsupported"}, "unsupported"),
    ],
)
def test_telegram_message_of_which_nothing_is_read_has_a_receipt(
    tmp_path: Path, members: dict[str, Any], detail: str
) -> None:
    run(telegram(tmp_path, {"id": 1, "text": "", **members}))

    assert receipts() == {("partly_imported", "Jonas")}
    assert ImportReceipt.unscoped.get().detail == detail


def test_slack_poll_has_its_question_once_and_its_answers(tmp_path: Path) -> None:
    answers = ("Friday `2`\nIda, <@U2>", "Saturday &amp; Sunday `0`")
    texts = [{"type": "mrkdwn", "text": text} for text in ("*Which day?*", *answers)]
    blocks = [{"type": "section", "text": text} for text in texts]

    slack(tmp_path / "slack", {"text": "Which day?", "subtype": "bot_message", "blocks": blocks})

    lines = list(filter(None, one("messages")["text"].splitlines()))
    assert lines == [
        "*Which day?*", "Friday `2`", "Ida, @Jonas Wolf", "Saturday & Sunday `0`"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"files": [{"name": "a.txt", "mode": "snippet", "preview": "print(1)"}]}, "print(1)"),
        ({"files": [{"name": "m", "mode": "email", "plain_text": "Dear Ida"}]}, "Dear Ida"),
        ({"files": [{"name": "a", "initial_comment": {"comment": "Look"}}]}, "Look"),
        ({"subtype": "message_changed", "message": {"text": "New"}}, "New"),
        (
            {"attachments": [{"pretext": "CI", "fields": [{"title": "Took", "value": "5 min"}]}]},
            "CI\nTook: 5 min",
        ),
    ],
)
def test_slack_texts_of_files_and_fields(
    tmp_path: Path, message: dict[str, Any], text: str
) -> None:
    slack(tmp_path / "slack", message)

    assert records("messages")[0]["text"] == text
    assert receipts() == set()


@pytest.mark.parametrize("subtype", ["huddle_thread", "message_deleted"])
def test_slack_message_of_which_nothing_is_read_has_a_receipt(tmp_path: Path, subtype: str) -> None:
    slack(tmp_path / "slack", {"subtype": subtype})

    assert receipts() == {("partly_imported", "message 1")}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Look at this \u200e<attached: 00000012-PHOTO-2026-01-13-12-05-00.jpg>",
         "00000012-PHOTO-2026-01-13-12-05-00.jpg"),
        ("plan.pdf \u2022 \u200e1 page \u200e<attached: 00000013-plan.pdf>", "00000013-plan.pdf"),
        ("\u200e<Anhang: 00000014-AUDIO-2026-01-13.opus>", "00000014-AUDIO-2026-01-13.opus"),
    ],
)  # fmt: skip
def test_whatsapp_file_after_a_caption_is_attached(tmp_path: Path, text: str, name: str) -> None:
    (tmp_path / "chat").mkdir()
    (tmp_path / "chat" / "_chat.txt").write_text(
        f"[13.01.26, 12:05:00] Ida: {text}\n[14.01.26, 12:05:00] Ida: ok\n"
    )
    (tmp_path / "chat" / name).write_bytes(b"content")

    run(tmp_path / "chat")

    assert one("attachments", filename=name)["size_bytes"] == 7
    message = one("messages", has_attachments=True)
    assert message["text"] == text
    assert "file_missing" not in {code for code, _ in receipts()}


def test_whatsapp_file_with_any_name_belongs_to_its_chat(tmp_path: Path) -> None:
    folder = tmp_path / "WhatsApp Chat with Jonas"
    folder.mkdir()
    chat(folder, "13.01.26, 08:30 - Ida: offer.txt (file attached)", "14.01.26, 08:30 - Ida: ok")
    (folder / "offer.txt").write_text("Ninety euros")
    (folder / "other.txt").write_text("Nothing of the chat")

    run(folder)

    assert one("attachments", filename="offer.txt")["size_bytes"] == 12
    assert [record["title"] for record in records("documents")] == ["other.txt"]
    assert receipts() == set()


def test_log_is_no_chat(tmp_path: Path) -> None:
    (tmp_path / "app.txt").write_text("2026-01-13 08:30:01: job: a\n2026-01-13 08:30:02: job: b\n")

    run(tmp_path / "app.txt")

    assert records("messages") == []


def test_whatsapp_messages_of_a_minute_keep_their_order(tmp_path: Path) -> None:
    texts = [f"number {number}" for number in range(12)]
    path = chat(tmp_path, *(f"13.01.26, 08:30 - Ida: {text}" for text in texts))

    run(path)
    keys = {record["text"]: record["id"] for record in records("messages")}
    path.write_text("\n".join(path.read_text().splitlines()[3:]))
    run(path)

    # The later export begins within the minute, as WhatsApp limits the number of messages.
    found = sorted(records("messages"), key=lambda record: record["sent_at"])
    assert [record["text"] for record in found] == texts
    assert {record["text"]: record["id"] for record in found} == keys
    assert found[0]["sent_at"] == "2026-01-13T08:30:00+00:00"


def test_equal_whatsapp_messages_of_a_second_with_one_between_are_kept(tmp_path: Path) -> None:
    lines = (
        "[13/01/2026, 08:30:01] Ida: \u200eimage omitted", "[13/01/2026, 08:31:00] Jonas: nice",
        "[13/01/2026, 08:30:01] Ida: \u200eimage omitted",
    )  # fmt: skip

    run(chat(tmp_path, *lines))

    assert sorted(record["author"] for record in records("messages")) == ["Ida", "Ida", "Jonas"]


def test_slack_snippet_of_an_old_export_and_source_of_a_quote_are_text(tmp_path: Path) -> None:
    slack(tmp_path, {
        "subtype": "file_share", "text": "uploaded a file",
        "file": {"name": "plot.r", "mimetype": "text/plain", "size": 9, "preview": "x <- 1"},
        "attachments": [
            {"service_name": "Gazette", "author_name": "Eva", "title": "Maps", "text": "See",
             "footer": "#general"},
        ],
    })  # fmt: skip

    (message,) = records("messages")
    assert message["text"] == "uploaded a file\nx <- 1\nGazette\nEva\nMaps\nSee\n#general"
    assert one("attachments", filename="plot.r")["message_id"] == message["id"]


def test_buttons_of_a_telegram_bot_are_text(tmp_path: Path) -> None:
    button = {"type": "url", "text": "Open", "data": "https://example.org/1"}
    other = {"type": "callback", "text": "Stop", "data": "x7"}
    message = {"id": 1, "text": "Play", "inline_bot_buttons": [[button, other], "damaged"]}

    run(telegram(tmp_path, message))

    assert one("messages")["text"] == "Play\nOpen (https://example.org/1)\nStop"


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"text": "Hi", "author": "Eva"}, "Hi\nauthor: Eva"),
        ({"text": "", "game_title": "Jump", "game_link": "https://t.me/g"},
         "Jump\ngame link: https://t.me/g"),
        ({"text": "Hi", "forwarded_from": "Eva", "saved_from": "Bo"},
         "Forwarded from Eva:\nSaved from Bo:\nHi"),
        ({"text": "Hi", "forwarded_from": "Eva", "saved_from": "Eva"}, "Forwarded from Eva:\nHi"),
        ({"text": "Hi", "media_type": "audio_file", "title": "Song", "width": 5}, "Hi\ntitle: Song"),
    ],
)  # fmt: skip
def test_every_text_of_a_telegram_message_is_kept(
    tmp_path: Path, members: dict[str, Any], text: str
) -> None:
    run(telegram(tmp_path, {"id": 1, **members}))

    assert one("messages")["text"] == text
    assert receipts() == set()


def test_list_of_a_telegram_message_with_text_has_a_receipt(tmp_path: Path) -> None:
    run(telegram(tmp_path, {"id": 1, "text": "Win", "giveaway_information": {"quantity": 5}}))

    assert one("messages")["text"] == "Win"
    assert receipts() == {("partly_imported", "Jonas")}
