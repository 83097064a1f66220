"""Slack, Telegram and WhatsApp exports."""

from pathlib import Path

import pytest
from django.core.management.base import CommandError

from tests.importers.imports import TORTURE, content, latest, one, receipts, records, run

pytestmark = pytest.mark.django_db


def whatsapp(path: Path, *lines: str) -> Path:
    path = path / "WhatsApp Chat with Jonas.txt"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_whatsapp_messages_and_media_are_imported() -> None:
    output = run(TORTURE / "whatsapp", timezone="Europe/Berlin")

    assert "local times in Europe/Berlin" in output
    assert len(records("messages")) == 9
    many = one("messages", sent_at="2026-01-13T12:05:00+01:00")
    assert many["author"] == "Ida"
    assert many["text"].startswith("Yes: he did.\nHe says:\n1. the pipe is old")
    assert one("conversations", name="Eva Lang")["service"] == "whatsapp"
    assert [record["text"] for record in records("messages")].count("ok") == 2
    invoice = one("attachments", filename="DOC-20260114-WA0001.txt")
    assert content(invoice["blob_ref"]) == b"The invoice of the plumber: 90 euros.\n"
    assert receipts() == {("bad_date", "line 10"), ("file_missing", "line 11")}
    run(TORTURE / "whatsapp", timezone="Europe/Berlin")
    assert (latest().created, latest().updated) == (0, 0)


def test_date_order_is_detected_from_message_order(tmp_path: Path) -> None:
    lines = [f"{n:02}/02/26, 08:30 - Jonas: {n}" for n in range(1, 13)]

    run(whatsapp(tmp_path, *lines, "01/03/26, 08:30 - Jonas: spring"))

    assert one("messages", text="spring")["sent_at"].startswith("2026-03-01")


def test_ambiguous_dates_require_date_order(tmp_path: Path) -> None:
    path = whatsapp(tmp_path, "03/04/26, 08:30 - Jonas: hi", "05/06/26, 08:30 - Jonas: ho")

    with pytest.raises(CommandError, match="Not everything could be imported"):
        run(path)
    assert records("messages") == []
    output = run(path, date_order="dmy")
    assert one("messages", text="hi")["sent_at"] == "2026-04-03T08:30:00+00:00"
    assert "2 new" not in output

    # The order is saved for the connection.
    path.write_text(path.read_text() + "07/08/26, 08:30 - Jonas: hey\n")
    run(path)
    assert one("messages", text="hey")["sent_at"] == "2026-08-07T08:30:00+00:00"


def test_a_chosen_order_is_for_the_chats_that_leave_it_open(tmp_path: Path) -> None:
    whatsapp(tmp_path, "03/04/26, 08:30 - Jonas: open", "05/06/26, 08:30 - Jonas: ho")
    for name, days in (("Ida", ("02/28/26", "03/04/26")), ("Eva", ("2026/03/04", "2026/05/06"))):
        lines = [f"{day}, 08:30 - {name}: {name} {n}\n" for n, day in enumerate(days)]
        (tmp_path / f"WhatsApp Chat with {name}.txt").write_text("".join(lines))

    run(tmp_path, date_order="dmy")

    sent = {message["text"]: message["sent_at"][:10] for message in records("messages")}
    assert sent["open"] == "2026-04-03"
    assert (sent["Ida 0"], sent["Ida 1"]) == ("2026-02-28", "2026-03-04")
    assert (sent["Eva 0"], sent["Eva 1"]) == ("2026-03-04", "2026-05-06")


def test_slack_resolves_users_and_threads() -> None:
    run(TORTURE / "slack")

    first = one("messages", author="Mara")
    assert first["text"] == (
        "The budget deck (https://x.example/deck) is ready, @Ida Falkner & @here, see #general"
    )
    assert first["reactions"] == ["tada 1"]
    answer = one("messages", text="Thanks")
    assert answer["thread_id"] == answer["reply_to"] == first["id"]
    assert answer["edited_at"] == "2026-02-01T08:03:20Z"
    assert one("attachments", filename="deck.pdf")["message_id"] == answer["id"]
    assert one("messages", text="In private")["conversation"] == "Ida Falkner, Mara"
    assert one("conversations", name="general")["members"] == ["Ida Falkner", "Mara"]
    assert receipts() == {
        ("bad_date", "message 3"),
        ("no_identity", "message 4"),
        ("no_identity", "message 5"),
        ("damaged", "general/2026-02-02.json"),
    }


def test_telegram_chats_and_files_are_imported() -> None:
    run(TORTURE / "telegram")

    link = one("messages", text="See https://x.example and the list")
    assert link["author"] == "Jonas"
    assert link["sent_at"] == "2026-01-05T09:01:00Z"
    assert one("messages", id=link["reply_to"])["kind"] == "system"
    shopping = one("attachments", filename="list.txt")
    assert shopping["text"] == "Eggs, flour and saffron.\n"
    assert one("messages", text="Note to self")["conversation_id"] == "t_1"
    assert {code for code, _ in receipts()} == {"bad_date", "file_missing", "no_identity"}
