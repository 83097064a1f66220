"""A year of demo data, written in record export format, is imported unchanged."""

import csv
import html
import json
import mailbox
from collections.abc import Callable, Iterator
from contextlib import closing
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

pytestmark = [pytest.mark.django_db, pytest.mark.slow]
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


def year_of_mail() -> tuple[dict[str, Any], ...]:
    return demo_records("messages", "mailbox")


def as_mail(data: dict[str, Any]) -> EmailMessage:
    mail = EmailMessage()
    mail["Message-ID"] = f"<{data['id']}@example.org>"
    mail["Subject"], mail["Date"] = (
        data["subject"],
        format_datetime(parse_time(data["received_at"])),
    )
    mail["From"] = f'"{data["from_name"]}" <{data["from_email"]}>'
    mail.set_content(data["body_text"])
    return mail


def write_mbox(folder: Path) -> None:
    with closing(mailbox.mbox(folder / "year.mbox")) as box:
        for data in year_of_mail():
            mail = as_mail(data)
            mail["X-Gmail-Labels"] = ",".join([data["folder"], *data["labels"]])
            box.add(mail.as_bytes())


def write_maildir(folder: Path) -> None:
    with closing(mailbox.Maildir(folder / "Mail")) as box:
        for data in year_of_mail():
            message = mailbox.MaildirMessage(as_mail(data).as_bytes())
            message.set_subdir("cur")
            message.set_flags("S" if data["is_read"] else "")
            box.add_folder(data["folder"]).add(message)


def write_eml(folder: Path) -> None:
    for data in year_of_mail():
        path = folder / "Mail" / data["folder"] / f"{data['id']}.eml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(as_mail(data).as_bytes())


def folder_of(data: dict[str, Any]) -> str:
    return str(data["folder"])


def folder_in_mbox(data: dict[str, Any]) -> str | None:
    """Outside of Takeout, a sender could write a label that says that the owner wrote the mail."""
    return None if data["folder"] == "sent" else data["folder"]


def require_year_of_mail(folder_of: Callable[[dict[str, Any]], str | None] = folder_of) -> None:
    """Fail if a stored message differs from that of the year."""
    assert receipts() == set()
    read = {
        record["internet_message_id"].partition("@")[0]: record for record in records("messages")
    }
    assert len(read) == len(year_of_mail()) > 200
    for data in year_of_mail():
        mail = read[data["id"]]
        assert parse_time(mail["received_at"]) == parse_time(data["received_at"])
        assert (mail["from_name"], mail["subject"]) == (data["from_name"], data["subject"])
        assert mail["from_email"] == data["from_email"].lower()
        assert mail["body_text"].split() == data["body_text"].split()
        assert mail["folder"] == folder_of(data)


@pytest.mark.parametrize("write", [write_mbox, write_maildir, write_eml])
def test_mail(tmp_path: Path, write: Callable[[Path], None]) -> None:
    write(tmp_path)

    run(tmp_path)

    require_year_of_mail(folder_in_mbox if write is write_mbox else folder_of)
    stored = {record["subject"]: record for record in records("messages")}
    for data in year_of_mail():
        mail = stored[data["subject"]]
        labels = [data["folder"], *data["labels"]] if write is write_mbox else []
        assert mail["labels"] == labels
    run(tmp_path)
    assert (latest().created, latest().updated) == (0, 0)


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


def test_chat_of_slack(tmp_path: Path) -> None:
    days: dict[str, list[dict[str, str]]] = {}
    people = sorted({data["author_name"] for _, data in chats()})
    for number, data in chats():
        seconds = int(parse_time(data["sent_at"]).timestamp())
        days.setdefault(data["sent_at"][:10], []).append(
            {
                "type": "message",
                "user": f"U{people.index(data['author_name'])}",
                "ts": f"{seconds}.{number:06}",
                "text": html.escape(data["text"], quote=False),
            }
        )
    users = [{"id": f"U{at}", "name": name} for at, name in enumerate(people)]
    (tmp_path / "users.json").write_text(json.dumps(users))
    (tmp_path / "channels.json").write_text(json.dumps([{"id": "C1", "name": "home"}]))
    (tmp_path / "home").mkdir()
    for day, messages in days.items():
        (tmp_path / "home" / f"{day}.json").write_text(json.dumps(messages))

    run(tmp_path)

    assert receipts() == set()
    assert sorted(
        (record["sent_at"][:19], record["author"], record["text"]) for record in records("messages")
    ) == sorted((data["sent_at"][:19], data["author_name"], data["text"]) for _, data in chats())


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


def test_contacts(tmp_path: Path) -> None:
    people = {
        data["from_email"].lower(): data["from_name"]
        for data in demo_records("messages", "mailbox")
    }
    cards = [
        f"BEGIN:VCARD\r\nVERSION:{version}\r\nUID:{number}\r\nFN:{name.replace(',', chr(92) + ',')}\r\n"
        f"EMAIL:{address}\r\nTEL:+49 30 {number:05}\r\nBDAY:19{number % 60 + 40}-05-{number % 28 + 1:02}\r\n"
        "END:VCARD\r\n"
        for number, (address, name) in enumerate(people.items())
        for version in [("3.0", "4.0")[number % 2]]
    ]
    (tmp_path / "contacts.vcf").write_text("".join(cards), newline="")

    run(tmp_path / "contacts.vcf")

    assert receipts() == set()
    assert len(people) > 10
    assert sorted(
        (record["name"], *record["emails"], *record["phones"], record["birthday"])
        for record in records("contacts")
    ) == sorted(
        (name, address, f"+49 30 {number:05}", f"19{number % 60 + 40}-05-{number % 28 + 1:02}")
        for number, (address, name) in enumerate(people.items())
    )


def test_places(tmp_path: Path) -> None:
    events = demo_records("events", "calendar")
    places = [(52 + at / 1_000, 13 + at / 10_000) for at in range(len(events))]
    segments = [
        {
            "startTime": data["starts_at"],
            "endTime": data["ends_at"],
            "visit": {
                "topCandidate": {
                    "semanticType": data["title"],
                    "placeLocation": {"latLng": f"{latitude}°, {longitude}°"},
                }
            },
        }
        for data, (latitude, longitude) in zip(events, places, strict=True)
    ]
    positions = [
        {
            "latitudeE7": round(latitude * 10**7),
            "longitudeE7": round(longitude * 10**7),
            "timestamp": data["starts_at"],
        }
        for data, (latitude, longitude) in zip(events, places, strict=True)
    ]
    (tmp_path / "Timeline.json").write_text(json.dumps({"semanticSegments": segments}))
    (tmp_path / "Records.json").write_text(json.dumps({"locations": positions}))

    run(tmp_path)

    assert receipts() == set()
    expected = {
        (parse_time(data["starts_at"]), *place) for data, place in zip(events, places, strict=True)
    }
    assert len(expected) > 50
    for stream, time in (("visits", "started_at"), ("points", "recorded_at")):
        found = {
            (parse_time(each[time]), round(each["latitude"], 6), round(each["longitude"], 6))
            for each in records(stream)
        }
        assert found == {(at, round(a, 6), round(b, 6)) for at, a, b in expected}
    assert {each["name"] for each in records("visits")} == {data["title"] for data in events}
