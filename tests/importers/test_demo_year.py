"""A year of demo data, written in record export format, is imported unchanged."""

import csv
import json
import mailbox
from collections.abc import Iterator
from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime
from functools import cache
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import pytest
from icalendar import Calendar, Event

from demo import life
from tests.importers.imports import latest, receipts, records, run

pytestmark = pytest.mark.django_db
YEAR = "2025"


@cache
def demo_records(stream: str, connector: str) -> tuple[dict[str, Any], ...]:
    """Return the records of a stream in the year by time, without hostile ones."""
    time_of = {"messages": "received_at" if connector == "mailbox" else "sent_at",
               "events": "starts_at", "transactions": "date", "measurements": "measured_at"}[stream]  # fmt: skip
    found = [
        line["data"]
        for line in life.records()
        if line["stream"] == stream
        and line["connector_key"] == connector
        and (line["data"].get(time_of) or "").startswith(YEAR)
        and str(line["data"].get("body_text") or line["data"].get("text") or "").isascii()
    ]
    return tuple(sorted(found, key=lambda data: (data[time_of], data["id"])))


def parse_time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def test_mail(tmp_path: Path) -> None:
    box = mailbox.mbox(tmp_path / "year.mbox")
    for data in demo_records("messages", "mailbox"):
        mail = EmailMessage()
        mail["Message-ID"] = f"<{data['id']}@example.org>"
        mail["Subject"], mail["Date"] = (
            data["subject"],
            format_datetime(parse_time(data["received_at"])),
        )
        mail["From"] = f'"{data["from_name"]}" <{data["from_email"]}>'
        mail["X-Gmail-Labels"] = ",".join([data["folder"], *data["labels"]])
        mail.set_content(data["body_text"])
        box.add(mail.as_bytes())
    box.close()

    run(tmp_path / "year.mbox")

    assert receipts() == set()
    read = {
        record["internet_message_id"].partition("@")[0]: record for record in records("messages")
    }
    assert len(read) == len(demo_records("messages", "mailbox")) > 200
    for data in demo_records("messages", "mailbox"):
        mail_read = read[data["id"]]
        assert parse_time(mail_read["received_at"]) == parse_time(data["received_at"])
        assert mail_read["from_email"] == data["from_email"].lower()
        assert mail_read["labels"] == [data["folder"], *data["labels"]]
        assert mail_read["body_text"].split() == data["body_text"].split()


def test_calendar(tmp_path: Path) -> None:
    calendar = Calendar()
    for data in demo_records("events", "calendar"):
        event = Event()
        event.add("UID", data["id"])
        event.add("SUMMARY", data["title"])
        event.add("DTSTART", parse_time(data["starts_at"]))
        event.add("DTEND", parse_time(data["ends_at"]))
        calendar.add_component(event)
    (tmp_path / "year.ics").write_bytes(calendar.to_ical())

    run(tmp_path / "year.ics")

    assert receipts() == set()
    read = sorted(
        (parse_time(record["starts_at"]), record["title"]) for record in records("events")
    )
    assert read == sorted(
        (parse_time(data["starts_at"]), data["title"])
        for data in demo_records("events", "calendar")
    )
    assert len(read) > 50


def chats() -> Iterator[tuple[int, dict[str, Any]]]:
    return enumerate(demo_records("messages", "chat")[:1500])


def test_chat_of_whatsapp(tmp_path: Path) -> None:
    lines = [
        f"[{parse_time(data['sent_at']):%d.%m.%y, %H:%M:%S}] {data['author_name']}: {data['text']}\n"
        for _, data in chats()
    ]
    (tmp_path / "WhatsApp Chat with Everybody.txt").write_text("".join(lines))

    run(tmp_path)

    read = [
        (record["sent_at"][:19], record["author"], record["text"]) for record in records("messages")
    ]
    assert sorted(read) == sorted(
        (data["sent_at"][:19], data["author_name"], data["text"]) for _, data in chats()
    )


def test_chat_of_telegram(tmp_path: Path) -> None:
    messages = [
        {
            "id": number,
            "type": "message",
            "date_unixtime": str(int(parse_time(data["sent_at"]).timestamp())),
            "from": data["author_name"],
            "text": data["text"],
        }
        for number, data in chats()
    ]
    (tmp_path / "result.json").write_text(
        json.dumps({"name": "Everybody", "type": "private_group", "id": 7, "messages": messages})
    )

    run(tmp_path)

    assert receipts() == set()
    assert sorted(record["text"] for record in records("messages")) == sorted(
        data["text"] for _, data in chats()
    )


@pytest.mark.parametrize("service", ["chatgpt", "claude"])
def test_conversations_with_assistants(tmp_path: Path, service: str) -> None:
    def node(number: int, data: dict[str, Any]) -> dict[str, Any]:
        role = "user" if number % 2 else "assistant"
        if service == "claude":
            return {
                "uuid": str(number),
                "sender": role,
                "text": data["text"],
                "created_at": data["sent_at"],
            }
        message = {
            "id": str(number),
            "author": {"role": role},
            "create_time": parse_time(data["sent_at"]).timestamp(),
            "content": {"content_type": "text", "parts": [data["text"]]},
        }
        return {"id": str(number), "message": message, "parent": None, "children": []}

    conversations: dict[str, list[dict[str, Any]]] = {}
    for number, data in chats():
        conversations.setdefault(data["sent_at"][:10], []).append(node(number, data))
    exported = [
        {"uuid": day, "name": day, "chat_messages": nodes}
        if service == "claude"
        else {"conversation_id": day, "title": day, "mapping": {each["id"]: each for each in nodes}}
        for day, nodes in conversations.items()
    ]
    (tmp_path / "conversations.json").write_text(json.dumps(exported))

    run(tmp_path)

    assert receipts() == set()
    read = sorted(
        (parse_time(record["sent_at"]), record["conversation"], record["text"])
        for record in records("messages")
    )
    assert read == sorted(
        (parse_time(data["sent_at"]), data["sent_at"][:10], data["text"]) for _, data in chats()
    )
    run(tmp_path)
    assert (latest().created, latest().updated) == (0, 0)


def test_bank(tmp_path: Path) -> None:
    with (tmp_path / "year.csv").open("w", newline="", encoding="cp1252", errors="replace") as file:
        table = csv.writer(file, delimiter=";")
        table.writerow(["Buchungstag", "Empfänger", "Verwendungszweck", "Betrag"])
        for data in demo_records("transactions", "bank"):
            day, amount = datetime.fromisoformat(data["date"]), data["amount"] / 100
            written = f"{amount:,.2f}".translate(str.maketrans(",.", ".,"))
            table.writerow([f"{day:%d.%m.%Y}", data["counterparty"], data["memo"] or "", written])

    run(tmp_path / "year.csv")

    assert receipts() == set()
    read = sorted(
        (record["date"], round(record["amount"] * 100)) for record in records("transactions")
    )
    assert read == sorted(
        (data["date"], data["amount"]) for data in demo_records("transactions", "bank")
    )


def test_health(tmp_path: Path) -> None:
    lines = [
        f'<Record type="HKQuantityTypeIdentifier{data["kind"]}" sourceName={quoteattr(data["device"])}'
        f' unit={quoteattr(data["unit"])} value="{data["value"]}"'
        f' startDate="{parse_time(data["measured_at"]):%Y-%m-%d %H:%M:%S +0000}"'
        f' endDate="{parse_time(data["measured_at"]):%Y-%m-%d %H:%M:%S +0000}"/>\n'
        for data in demo_records("measurements", "health")
    ]
    (tmp_path / "export.xml").write_text(f"<HealthData>\n{''.join(lines)}</HealthData>\n")

    run(tmp_path)

    assert latest().created == len(lines) > 300
    read = sorted((record["kind"], record["value"]) for record in records("measurements"))
    assert read == sorted(
        (data["kind"], data["value"]) for data in demo_records("measurements", "health")
    )
