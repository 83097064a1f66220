"""A year of mail, written in record export format by the standard library, is imported unchanged."""

import mailbox
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from demo import life
from tests.importers.imports import latest, receipts, records, run

pytestmark = [pytest.mark.django_db, pytest.mark.slow]
YEAR = "2025"


def parse_time(text: str) -> datetime:
    return datetime.fromisoformat(text)


@cache
def year_of_mail() -> tuple[dict[str, Any], ...]:
    """Return the mails of the year by time, without hostile ones."""
    found = [
        line["data"]
        for line in life.records()
        if (line["stream"], line["connector_key"]) == ("messages", "mailbox")
        and str(line["data"].get("received_at")).startswith(YEAR)
        and str(line["data"].get("body_text") or "").isascii()
    ]
    return tuple(sorted(found, key=lambda data: (data["received_at"], data["id"])))


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
