"""The table at the end of an import shows what the export has: items, first and last date, and sum."""

import email.utils
import json
import mailbox
import random
import re
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

import mt940
import orjson
import pytest
import recurring_ical_events
import time_machine
from garmin_fit_sdk import Decoder, Stream
from icalendar import Calendar
from ofxtools.Parser import OFXTree

from evidence.models.connections import Connection
from evidence.models.records import Record
from tests.importers import (
    databases,
    year_of_habits,
    year_of_networks,
    year_of_notes,
    year_of_takeout,
)
from tests.importers.databases import fit
from tests.importers.imports import TORTURE, run
from tests.importers.test_bank_years import LAYOUTS, year
from tests.importers.test_databases import BROWSERS, message, write_chats
from tests.importers.test_demo_year import as_mail, year_of_mail
from tests.importers.test_ofx_truth import ofx
from tests.importers.test_tracks import AT, FILE_ID, heartbeat, session

pytestmark = pytest.mark.django_db


class Line(NamedTuple):
    """A line of the table. ``sum`` has its currency."""

    items: int
    stream: str
    account: str
    first: str
    last: str
    sum: str


_LINE = re.compile(
    r"(?P<items>[\d,]+) (?P<stream>[a-z_]+)  +(?P<account>\S(?:\S| (?! ))*)"
    r"(?:  +(?P<first>\d{4}-\d\d-\d\d)  +(?P<last>\d{4}-\d\d-\d\d))?(?:  +(?P<sum>-?[\d,.]+ .+))?"
)


def table(output: str) -> list[Line]:
    """Return the lines of the table of an import."""
    matches = filter(None, map(_LINE.fullmatch, map(str.strip, output.splitlines())))
    return sorted(
        Line(int(m["items"].replace(",", "")), m["stream"], m["account"], m["first"] or "",
             m["last"] or "", m["sum"] or "")
        for m in matches
    )  # fmt: skip


def stored_table() -> list[Line]:
    """Return the lines that the stored records make up."""
    return sorted(line for found in Connection.unscoped.all() for line in _lines(found))


def _lines(connection: Connection) -> Iterator[Line]:
    streams = {stream["name"]: stream for stream in _declaration(connection)["streams"]}
    rows = Record.unscoped.filter(connection_id=connection.connection_id)
    names = {row.record_key: row.data["name"] for row in rows.filter(stream="accounts")}
    groups = defaultdict(list)
    for row in rows:
        properties = streams[row.stream]["schema"]["properties"]
        money = [n for n, each in properties.items() if each.get("x_pdpp_type") == "currency"]
        account = names.get(row.data.get("account_id", ""), "")
        currency = row.data.get("currency") or "(no currency)" if money else ""
        groups[row.stream, account, currency, money[0] if money else ""].append(row.data)
    for (stream, account, currency, amount), found in groups.items():
        time = streams[stream].get("consent_time_field") or streams[stream].get("cursor_field")
        days = sorted(data[time][:10] for data in found if data.get(time))
        values = [
            Decimal(str(data[amount])) for data in found if amount and data[amount] is not None
        ]
        yield Line(
            len(found),
            stream,
            ", ".join(filter(None, (connection.display_name, account))),
            days[0] if days else "",
            days[-1] if days else "",
            f"{sum(values):,.2f} {currency}" if values else "",
        )


def _declaration(connection: Connection) -> Any:
    return orjson.loads(connection.source.current_declaration.snapshot)


def write_visits(browser: str) -> Callable[[Path], Path]:
    """Return a function that writes the history of a browser."""
    return lambda folder: databases.write_history(folder / BROWSERS[browser], browser, VISITS)


VISITS = [
    (1_767_600_000 + day * 90_000 + hour, f"Page {day}", f"https://x.example/{day}/{hour}")
    for day in range(40)
    for hour in range(3)
]


def write_workouts(folder: Path) -> Path:
    for day in (3, 4, 70):
        at = AT + day * 86_400
        beats = [heartbeat(at + second, 120 + second) for second in range(20)]
        (folder / f"{day}.fit").write_bytes(fit([FILE_ID, *beats, session(at)]))
    return folder


def write_msg_files(folder: Path) -> Path:
    outlook = pytest.importorskip("tests.importers.test_outlook")
    for data in year_of_mail()[:40]:
        message = outlook.with_files(as_mail(data))
        outlook.as_msg(message).save(folder / f"{data['id']}.msg")
    return folder


def write_data_file(folder: Path) -> Path:
    outlook = pytest.importorskip("tests.importers.test_outlook")
    mails = [outlook.stored_mail(number) for number in range(30)]
    for number, each in enumerate(mails):
        sent_at = datetime(2026, 1 + number % 12, 1 + number % 28, 23, 30, tzinfo=UTC)
        each.properties = {**each.properties, outlook.SENT_AT: sent_at}
    return outlook.write_data_file(folder / "a.pst", Inbox=mails[:20], Archive=mails[20:])


def copied(name: str) -> Callable[[Path], Path]:
    return lambda _folder: TORTURE / name


def written(writer: Callable[..., object], name: str = "export") -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        writer(folder / name, days=40)
        return folder / name

    return write


EXPORTS: list[tuple[str, Callable[[Path], Path]]] = [
    *((kind, copied(name)) for kind, name in (
        ("maildir", "Maildir"), ("eml", "eml"), ("mbox", "mail.mbox"), ("icalendar", "calendar.ics"),
        ("vcard", "contacts.vcf"), ("whatsapp", "whatsapp"), ("telegram", "telegram"), ("slack", "slack"),
        ("chatgpt", "chatgpt"), ("claude", "claude"), ("csv", "bank.csv"), ("ofx", "bank.ofx"),
        ("qif", "bank.qif"), ("camt", "camt.xml"), ("mt940", "statement.sta"),
        ("apple-health", "apple_health_export"), ("places", "places"), ("documents", "notes"),
        ("gpx", "track.gpx"),
    )),
    *((browser, write_visits(browser)) for browser in BROWSERS),
    ("imessage", write_chats),
    ("fit", write_workouts),
    ("msg", write_msg_files),
    ("outlook", write_data_file),
    ("spotify", written(year_of_habits.write_spotify)),
    ("netflix", written(year_of_habits.write_netflix)),
    ("amazon", written(year_of_habits.write_amazon)),
    ("linkedin linkedin-connections linkedin-messages", written(year_of_habits.write_linkedin)),
    ("facebook facebook-messages", written(year_of_networks.write_facebook)),
    ("instagram instagram-messages", written(year_of_networks.write_instagram)),
    ("x x-messages", written(year_of_networks.write_x)),
    ("evernote", written(year_of_notes.write_enex, "Notes.enex")),
    ("notion", written(year_of_notes.write_notion)),
    ("documents", written(year_of_notes.write_vault)),
    ("google-keep google-chat google-tasks google-activity", written(year_of_takeout.write_takeout)),
]  # fmt: skip
"""The kinds of an export, and a function that writes it."""


@pytest.mark.parametrize(("kinds", "write"), EXPORTS, ids=[kinds for kinds, _ in EXPORTS])
def test_table_shows_what_was_stored(
    tmp_path: Path, kinds: str, write: Callable[[Path], Path]
) -> None:
    path = write(tmp_path)

    output = run(path, date_order="dmy", decimal="point", signs="as-written")

    assert table(output) == stored_table() != []
    headings = {line.removesuffix(":") for line in output.splitlines()}
    assert headings >= {*kinds.split()}


def without_accounts(lines: list[Line]) -> list[Line]:
    return [line for line in lines if line.stream not in ("accounts", "conversations")]


def money(values: list[Decimal], currency: str) -> str:
    return f"{sum(values):,.2f} {currency}"


def bank_line(account: str, found: list[tuple[str, Decimal]], currency: str) -> Line:
    days = sorted(day for day, _ in found)
    total = money([amount for _, amount in found], currency)
    return Line(len(found), "transactions", f"Bank, {account}", days[0], days[-1], total)


def test_table_of_ofx_is_that_of_another_library(tmp_path: Path) -> None:
    path = tmp_path / "a.ofx"
    path.write_bytes(ofx("xml", random.Random(5)))  # noqa: S311 - not a secret

    output = run(path)

    tree = OFXTree()
    tree.parse(path)
    assert without_accounts(table(output)) == sorted(
        bank_line(
            f"Account …{each.account.acctid[-4:]}",
            [(f"{row.dtposted:%Y-%m-%d}", row.trnamt) for row in each.transactions],
            each.curdef,
        )
        for each in tree.convert().statements
    )


def test_table_of_mt940_is_that_of_another_library(tmp_path: Path) -> None:
    path = tmp_path / "year.sta"
    path.write_text(LAYOUTS["year.sta"](year()))

    (line,) = without_accounts(table(run(path)))

    found = [
        (each.data["date"].isoformat(), each.data["amount"].amount)
        for each in mt940.parse(path.read_text())
    ]
    assert line == bank_line("Account …3000", found, "EUR")


def test_table_of_camt_is_that_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "year.xml"
    path.write_text(LAYOUTS["year.xml"](year()))

    (line,) = without_accounts(table(run(path)))

    space = "{urn:iso:std:iso:20022:tech:xsd:camt.053.001.08}"
    found = [
        (
            entry.findtext(f"{space}BookgDt/{space}Dt", ""),
            Decimal(entry.findtext(f"{space}Amt", ""))
            * (-1 if entry.findtext(f"{space}CdtDbtInd") == "DBIT" else 1),
        )
        for entry in ET.parse(path).iter(f"{space}Ntry")  # noqa: S314 - written above
    ]
    assert line == bank_line("Account …3000", found, "EUR")


@pytest.mark.parametrize("name", sorted(set(LAYOUTS) - {"year.sta", "year.xml"}))
def test_table_of_a_bank_has_the_sum_of_the_year(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(LAYOUTS[name](year()))

    (line,) = without_accounts(table(run(path)))

    days = sorted(each.on.isoformat() for each in year())
    assert (line.items, line.first, line.last) == (len(days), days[0], days[-1])
    assert line.sum.split()[0] == f"{sum(each.amount for each in year()):,.2f}"


def test_table_of_a_mailbox_is_that_of_another_library(tmp_path: Path) -> None:
    box = mailbox.mbox(tmp_path / "a.mbox")
    for number in range(40):
        sent = datetime(2026, 1 + number % 12, 1 + number % 28, 23, 30, tzinfo=UTC)
        box.add(
            f"From: a@x.org\nDate: {email.utils.format_datetime(sent)}\nMessage-ID: <{number}>\n\nhi"
        )
    box.close()

    (line,) = table(run(tmp_path / "a.mbox"))

    with closing(mailbox.mbox(tmp_path / "a.mbox")) as box:
        sent_at = [email.utils.parsedate_to_datetime(mail["Date"]) for mail in box]
    days = sorted(f"{time.astimezone(UTC):%Y-%m-%d}" for time in sent_at)
    assert line == Line(len(days), "messages", "Mail", days[0], days[-1], "")


@time_machine.travel("2026-11-22T12:00:00Z", tick=True)
def test_table_of_a_calendar_is_that_of_another_library(tmp_path: Path) -> None:
    path = tmp_path / "a.ics"
    path.write_text(
        "BEGIN:VCALENDAR\n"
        "BEGIN:VEVENT\nUID:1\nDTSTART;TZID=Europe/Berlin:20260105T100000\nRRULE:FREQ=WEEKLY;COUNT=9\nEND:VEVENT\n"
        "BEGIN:VEVENT\nUID:2\nDTSTART;TZID=Europe/Berlin:20251231T100000\nEND:VEVENT\nEND:VCALENDAR\n"
    )

    (line,) = table(run(path))

    found = recurring_ical_events.of(Calendar.from_ical(path.read_text()))
    days = sorted(
        f"{each.start:%Y-%m-%d}" for each in found.between(date(2016, 1, 1), date(2029, 1, 1))
    )
    assert line == Line(len(days), "events", "Calendar", days[0], days[-1], "")


def test_table_of_a_chat_is_that_of_its_file(tmp_path: Path) -> None:
    messages = [
        {
            "id": n,
            "type": "message",
            "date_unixtime": str(1_767_600_000 + n * 90_000),
            "from": "Eva",
            "text": "hi",
        }
        for n in range(30)
    ]
    path = tmp_path / "result.json"
    path.write_text(
        json.dumps({"name": "Eva", "type": "personal_chat", "id": 7, "messages": messages})
    )

    (line,) = without_accounts(table(run(path)))

    days = sorted(
        f"{datetime.fromtimestamp(int(each['date_unixtime']), UTC):%Y-%m-%d}" for each in messages
    )
    assert line == Line(30, "messages", "Telegram", days[0], days[-1], "")


def test_table_of_measurements_is_that_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "export.xml"
    rows = "".join(
        f'<Record type="HKQuantityTypeIdentifierHeartRate" unit="count/min" value="{60 + n}" sourceName="W"'
        f' startDate="2026-01-{1 + n:02} 08:00:00 +0000" endDate="2026-01-{1 + n:02} 08:00:00 +0000"/>'
        for n in range(25)
    )
    path.write_text(f"<HealthData>{rows}</HealthData>")

    (line,) = table(run(path))

    days = sorted(each.get("startDate", "")[:10] for each in ET.parse(path).iter("Record"))  # noqa: S314 - written above
    assert line == Line(len(days), "measurements", "Health", days[0], days[-1], "")


@pytest.mark.parametrize("browser", BROWSERS)
def test_table_of_visits_is_that_of_the_history(tmp_path: Path, browser: str) -> None:
    (line,) = table(run(write_visits(browser)(tmp_path)))

    days = [f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d}" for seconds, _, _ in VISITS]
    assert line == Line(len(VISITS), "activities", "Browser", min(days), max(days), "")


def test_table_of_messages_is_that_of_their_database(tmp_path: Path) -> None:
    sent = [message(number, text=f"No. {number}") for number in range(1, 30)]
    path = databases.write_database(
        tmp_path / "chat.db",
        databases.CHAT_SCHEMA,
        message=sent,
        handle=[{"ROWID": 1, "id": "eva@example.org"}],
        chat=[{"ROWID": 1, "guid": "c"}],
        chat_message_join=[{"chat_id": 1, "message_id": row["ROWID"]} for row in sent],
    )

    (line,) = without_accounts(table(run(path)))

    with closing(sqlite3.connect(path)) as database:
        query = "SELECT count(*), date(min(date) / 1e9 + 978307200, 'unixepoch'), date(max(date) / 1e9 + 978307200, 'unixepoch') FROM message"
        items, first, last = database.execute(query).fetchone()
    assert line == Line(items, "messages", "Messages", first, last, "")


def test_table_of_workouts_is_that_of_another_library(tmp_path: Path) -> None:
    lines = table(run(write_workouts(tmp_path)))

    days: dict[str, list[str]] = defaultdict(list)
    for path in tmp_path.glob("*.fit"):
        decoded, errors = Decoder(Stream.from_file(path)).read()
        assert errors == []
        for each in decoded["record_mesgs"]:
            days["measurements"].append(f"{each['timestamp']:%Y-%m-%d}")
        for each in decoded["session_mesgs"]:
            days["workouts"].append(f"{each['start_time']:%Y-%m-%d}")
    assert lines == sorted(
        Line(len(found), stream, "Health", min(found), max(found), "")
        for stream, found in days.items()
    )


def test_table_of_msg_files_is_that_of_another_library(tmp_path: Path) -> None:
    foss = pytest.importorskip("aspose.email_foss.msg")

    lines = table(run(write_msg_files(tmp_path)))

    messages = [
        foss.MapiMessage.from_file(path).to_email_message() for path in tmp_path.glob("*.msg")
    ]
    sent_at = [email.utils.parsedate_to_datetime(each["Date"]).astimezone(UTC) for each in messages]
    days = [f"{time:%Y-%m-%d}" for time in sent_at]
    files = sum(len(list(each.iter_attachments())) for each in messages)
    assert lines == sorted(
        Line(items, stream, "Mail", min(days), max(days), "")
        for stream, items in (("messages", len(days)), ("attachments", files))
    )


def test_table_of_a_data_file_is_that_of_its_mails(tmp_path: Path) -> None:
    lines = table(run(write_data_file(tmp_path)))

    days = [f"2026-{1 + number % 12:02}-{1 + number % 28:02}" for number in range(30)]
    assert lines == sorted(
        Line(items, stream, "Mail", min(days), max(days), "")
        for stream, items in (("messages", 30), ("attachments", 60))
    )
