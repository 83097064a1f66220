"""Messages and data files of Outlook have the records of the same mail in a mailbox file."""

import sys
import zipfile
from dataclasses import replace
from datetime import UTC, datetime
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from pdpp_importers_extra import outlook

from evidence.write.record_erasure import delete_record
from importers.authoring.test_kit import ImporterTests
from tests.extras import outlook_data_file
from tests.extras.outlook_data_file import CATEGORIES, MESSAGE, Mail, data_file
from tests.importers.imports import connection, content, latest, one, receipts, records, run
from tests.importers.needs import OUTLOOK, optional_module
from tests.importers.test_demo_year import as_mail, parse_time, require_year_of_mail, year_of_mail
from tests.importers.test_mail_html import PLAIN, PNG, html_of
from tests.importers.test_mail_html import mail as html_mail
from tests.world import NOW


def mail(**headers: str) -> EmailMessage:
    message = EmailMessage()
    message["From"] = "Eva Müller <Eva@example.org>"
    message["To"] = "Ida <ida@example.org>, jo@example.org"
    message["Cc"] = "Max <max@example.org>"
    message["Date"] = "Mon, 05 Jan 2026 09:30:00 +0100"
    message["Subject"] = headers.get("subject", "Grüße aus Köln")
    message["Message-ID"] = headers.get("message_id", "<1@example.org>")
    message.set_content(headers.get("text", "Der Vertrag liegt bei."))
    return message


def with_files(message: EmailMessage) -> EmailMessage:
    message.add_attachment("Sprich langsam.", filename="Notizen für Ida.txt")
    message.add_attachment(b"\x89PNG", maintype="image", subtype="png", filename="a.png")
    return message


foss = optional_module("aspose.email_foss.msg")


def as_msg(message: EmailMessage) -> Any:
    if foss is None:
        pytest.skip("needs the package aspose-email-foss: make test-all")
    outlook = foss.MapiMessage.from_email_message(message)
    outlook.set_property(foss.PropertyId.MESSAGE_FLAGS, 1)
    return outlook


def write_mbox(path: Path, *messages: EmailMessage) -> Path:
    separator = b"From eva@example.org Mon Jan  5 08:30:00 2026\n"
    path.write_bytes(b"\n".join(separator + message.as_bytes() for message in messages))
    return path


@pytest.mark.django_db
def test_msg_file_has_the_fields_of_the_mail_that_was_sent(tmp_path: Path) -> None:
    (tmp_path / "Archiv").mkdir()
    as_msg(with_files(mail())).save(tmp_path / "Archiv" / "a.msg")

    output = run(tmp_path)
    run(tmp_path)

    assert "single messages of Outlook" in output
    found = one("messages")
    assert (found["from_name"], found["from_email"]) == ("Eva Müller", "eva@example.org")
    assert found["to"] == ["ida@example.org", "jo@example.org"]
    assert found["cc"] == ["max@example.org"]
    assert found["subject"] == "Grüße aus Köln"
    assert found["received_at"] == "2026-01-05T08:30:00Z"
    assert found["internet_message_id"] == "1@example.org"
    assert found["body_text"] == "Der Vertrag liegt bei."
    assert (found["folder"], found["is_read"], found["labels"]) == ("Archiv", True, [])
    notes = one("attachments", filename="Notizen für Ida.txt")
    assert notes["message_id"] == found["id"]
    assert notes["text"] == "Sprich langsam.\n"
    assert content(notes["blob_ref"]) == b"Sprich langsam.\n"
    assert one("attachments", filename="a.png")["media_type"] == "image/png"
    assert receipts() == set()
    assert latest().created == 0


@pytest.mark.django_db
def test_attached_message_is_text_and_its_files_are_attachments(tmp_path: Path) -> None:
    outer = as_msg(mail(subject="Weitergeleitet"))
    inner = as_msg(with_files(mail(subject="Alter Vertrag", text="Die Kaution ist 900 €.")))
    outer.add_embedded_message_attachment(inner, filename="Alter Vertrag")
    outer.save(tmp_path / "a.msg")

    run(tmp_path)

    assert one("messages")["subject"] == "Weitergeleitet"
    text = one("attachments", filename="Alter Vertrag")["text"]
    assert "Eva Müller" in text
    assert "Die Kaution ist 900 €." in text
    assert one("attachments", filename="Notizen für Ida.txt")["text"] == "Sprich langsam.\n"


@OUTLOOK
@pytest.mark.django_db
def test_categories_are_labels(tmp_path: Path) -> None:
    message = as_msg(mail())
    categories = foss.MapiNamedProperty.string("Keywords")
    message.set_named_property(categories, 0x101F, ["Steuer 2026", "Häuser"])
    message.save(tmp_path / "a.msg")
    stored = stored_mail(2)
    stored.properties = {**stored.properties, CATEGORIES: ["Steuer 2026", "Häuser"]}
    write_data_file(tmp_path / "b.pst", Inbox=[stored])

    run(tmp_path)

    labels = [record["labels"] for record in records("messages")]
    assert labels == [["Steuer 2026", "Häuser"]] * 2
    assert {record["folder"] for record in records("messages")} == {"Inbox", None}


@pytest.mark.django_db
def test_message_with_html_alone_has_its_visible_text(tmp_path: Path) -> None:
    message = mail()
    message.set_content("<p>Rent <a href='https://x.org/pay'>pay</a></p>", subtype="html")
    as_msg(message).save(tmp_path / "a.msg")

    run(tmp_path)

    found = one("messages")
    assert found["body_source"] == "html"
    assert found["body_text"] == "Rent pay (https://x.org/pay)"


@pytest.mark.django_db
@pytest.mark.parametrize("first", ["mbox", "msg"])
def test_the_same_mail_in_a_mailbox_and_in_a_msg_file_is_one(tmp_path: Path, first: str) -> None:
    mbox = write_mbox(tmp_path / "a.mbox", mail(), mail(message_id="<2@example.org>"))
    as_msg(mail()).save(tmp_path / "a.msg")
    paths = [mbox, tmp_path / "a.msg"]

    for path in paths if first == "mbox" else reversed(paths):
        run(path)

    ids = [record["internet_message_id"] for record in records("messages")]
    assert sorted(ids) == ["1@example.org", "2@example.org"]
    assert {code for code, _ in receipts()} == {"already_imported"}


def erase(stream: str, **values: Any) -> None:
    key = one(stream, **values)["id"]
    delete_record(
        connection("Mail").connection_id,
        stream=stream, record_key=key, suppress=True, now=NOW,
    )  # fmt: skip


def write_form(folder: Path, form: str, messages: list[EmailMessage]) -> Path:
    """Write a mail with two files, and another one, in one of the forms that mail has."""
    folder.mkdir()
    if form == "pst":
        second = stored_mail(2)
        return write_data_file(
            folder / "a.pst", Inbox=[stored_mail(), Mail(second.properties, second.recipients)]
        )
    if form == "mbox":
        return write_mbox(folder / "a.mbox", *messages)
    (folder / "cur").mkdir()
    (folder / "new").mkdir()
    for number, message in enumerate(messages):
        raw = message.as_bytes()
        if form == "msg":
            as_msg(message).save(folder / f"{number}.msg")
        elif form == "maildir":
            (folder / "cur" / f"{number}.M1P2.host:2,S").write_bytes(raw)
        else:
            head = f"{len(raw)}\n".encode() if form == "emlx" else b""
            (folder / f"{number}.{form}").write_bytes(head + raw)
    return folder


FORMS = ["mbox", "eml", "emlx", "maildir", "msg", "pst"]


@OUTLOOK
@pytest.mark.django_db
@pytest.mark.parametrize("first", ["mbox", "pst"])
def test_erased_mail_does_not_return_in_another_form(tmp_path: Path, first: str) -> None:
    messages = [with_files(mail()), mail(message_id="<2@example.org>")]
    run(write_form(tmp_path / first, first, messages))
    erase("messages", internet_message_id="1@example.org")
    erase("attachments", filename="a.png")

    for second in [form for form in FORMS if form != first]:
        run(write_form(tmp_path / second, second, messages))

        assert [each["internet_message_id"] for each in records("messages")] == ["2@example.org"]
        assert [each["filename"] for each in records("attachments")] == ["Notizen für Ida.txt"]
        assert "erased" in {code for code, _ in receipts()}
        run(tmp_path / second)
        assert (latest().created, latest().updated) == (0, 0)
    run(tmp_path / first)
    assert (latest().created, latest().updated) == (0, 0)


@OUTLOOK
@pytest.mark.django_db
def test_mails_without_an_id_stay_when_another_one_is_erased(tmp_path: Path) -> None:
    bare = mail()
    del bare["Message-ID"]
    run(write_mbox(tmp_path / "a.mbox", bare))
    erase("messages", internet_message_id=None)
    other = stored_mail()
    properties = {each: value for each, value in other.properties.items() if each != MESSAGE_ID}

    run(write_data_file(tmp_path / "a.pst", Inbox=[Mail({**properties, TEXT: "Another one"})]))

    assert [each["body_text"] for each in records("messages")] == ["Another one"]


@pytest.mark.django_db
def test_a_forged_message_id_does_not_hide_another_mail(tmp_path: Path) -> None:
    as_msg(mail()).save(tmp_path / "a.msg")
    as_msg(mail(text="A forged one under the same id.")).save(tmp_path / "b.msg")
    write_mbox(tmp_path / "c.mbox", mail(subject="Under the same id"))

    run(tmp_path)

    assert len(records("messages")) == 3


@pytest.mark.django_db
def test_contacts_and_damaged_files_have_receipts(tmp_path: Path) -> None:
    contact = as_msg(mail())
    contact.message_class = "IPM.Contact"
    contact.save(tmp_path / "contact.msg")
    whole = as_msg(mail()).to_bytes()
    (tmp_path / "cut.msg").write_bytes(whole[:600])
    (tmp_path / "empty.msg").write_bytes(b"")
    (tmp_path / "text.msg").write_text("no container")

    run(tmp_path)

    assert records("messages") == []
    assert receipts() == {
        ("not_supported", "contact.msg"),
        ("damaged", "cut.msg"),
        ("empty", "empty.msg"),
        ("not_recognised", "text.msg"),
    }


@pytest.mark.django_db
def test_data_file_without_the_extra_has_a_receipt_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pypff", None)
    (tmp_path / "Outlook.pst").write_bytes(b"!BDN" + b"\0" * 600)

    output = run(tmp_path / "Outlook.pst")

    assert receipts() == {("needs_outlook", "Outlook.pst")}
    assert "requirements-outlook.txt" in output


SUBJECT, SENT_AT, FLAGS, MESSAGE_ID, TEXT, HTML = 0x0037, 0x0039, 0x0E07, 0x1035, 0x1000, 0x1013
AUTHOR, AUTHOR_ADDRESS, NAME, ADDRESS, KIND = 0x0042, 0x5D02, 0x3001, 0x39FE, 0x0C15
FILE_NAME, FILE_CONTENT, FILE_METHOD = 0x3707, 0x3701, 0x3705


def stored_mail(number: int = 1) -> Mail:
    """Return the mail of ``mail`` as a data file has it."""
    properties = {
        SUBJECT: "\x01\x01Grüße aus Köln",
        SENT_AT: datetime(2026, 1, 5, 8, 30, tzinfo=UTC),
        FLAGS: 1,
        MESSAGE_ID: f"<{number}@example.org>",
        TEXT: "Der Vertrag liegt bei.\r\n",
        AUTHOR: "Eva Müller",
        AUTHOR_ADDRESS: "Eva@example.org",
    }
    recipients = [
        {NAME: "Ida", ADDRESS: "ida@example.org", KIND: 1},
        {NAME: "jo@example.org", ADDRESS: "jo@example.org", KIND: 1},
        {NAME: "Max", ADDRESS: "max@example.org", KIND: 2},
    ]
    notes = {FILE_NAME: "Notizen für Ida.txt", FILE_CONTENT: b"Sprich langsam.\n"}
    return Mail(properties, recipients, [notes, {FILE_NAME: "a.png", FILE_CONTENT: b"\x89PNG"}])


def write_data_file(path: Path, **folders: list[Mail]) -> Path:
    path.write_bytes(data_file(folders))
    return path


@OUTLOOK
@pytest.mark.django_db
@pytest.mark.subprocess
@pytest.mark.parametrize("is_packed", [False, True])
def test_data_file_has_its_folders_and_the_fields_of_each_mail(
    tmp_path: Path, *, is_packed: bool
) -> None:
    path = write_data_file(tmp_path / "Outlook.pst", Häuser=[stored_mail()])
    if is_packed:
        with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.write(path, "Outlook.pst")
        path = tmp_path / "a.zip"

    output = run(path)

    assert "mail from a data file of Outlook" in output
    found = one("messages")
    assert (found["from_name"], found["from_email"]) == ("Eva Müller", "eva@example.org")
    assert found["to"] == ["ida@example.org", "jo@example.org"]
    assert found["cc"] == ["max@example.org"]
    assert found["subject"] == "Grüße aus Köln"
    assert found["received_at"] == "2026-01-05T08:30:00Z"
    assert (found["folder"], found["is_read"], found["labels"]) == ("Häuser", True, [])
    assert found["body_text"] == "Der Vertrag liegt bei."
    notes = one("attachments", filename="Notizen für Ida.txt")
    assert (notes["message_id"], notes["text"]) == (found["id"], "Sprich langsam.\n")
    assert content(notes["blob_ref"]) == b"Sprich langsam.\n"
    assert receipts() == set()


@OUTLOOK
@pytest.mark.django_db
def test_the_same_mail_in_a_mailbox_a_msg_file_and_a_data_file_is_one(tmp_path: Path) -> None:
    write_data_file(tmp_path / "a.pst", Inbox=[stored_mail()], Archive=[stored_mail()])
    as_msg(with_files(mail())).save(tmp_path / "b.msg")
    write_mbox(tmp_path / "c.mbox", with_files(mail()), mail(message_id="<2@example.org>"))

    run(tmp_path)
    run(tmp_path / "a.pst")

    ids = [record["internet_message_id"] for record in records("messages")]
    assert sorted(ids) == ["1@example.org", "2@example.org"]


@OUTLOOK
@pytest.mark.django_db
def test_long_texts_and_many_mails_are_complete_and_others_have_receipts(tmp_path: Path) -> None:
    long_text = "Der Vertrag. " * 5_000
    many = [Mail({SUBJECT: f"Mail {number}", TEXT: long_text}) for number in range(60)]
    contact = Mail({SUBJECT: "Ida", 0x001A: "IPM.Contact"})
    write_data_file(tmp_path / "a.pst", Inbox=many, Other=[contact])

    run(tmp_path / "a.pst")

    assert {record["body_text"] for record in records("messages")} == {long_text.strip()}
    assert len(records("messages")) == 60
    assert receipts() == {("not_supported", "Other")}


def forwarded(*messages: Mail, subject: str = "Weitergeleitet") -> Mail:
    files = [
        {FILE_NAME: each.properties[SUBJECT], FILE_METHOD: 5, FILE_CONTENT: each}
        for each in messages
    ]
    return Mail({SUBJECT: subject}, [], files)


@OUTLOOK
@pytest.mark.django_db
@pytest.mark.subprocess
def test_attached_messages_of_a_data_file_are_as_in_a_msg_file(tmp_path: Path) -> None:
    inner = {number: stored_mail(number) for number in range(3)}
    for number, each in inner.items():
        each.properties = {
            **each.properties,
            SUBJECT: f"Brief {number}",
            TEXT: f"{number} " * 5_000,
        }
    nested = forwarded(inner[1], subject="Sammlung")
    first, second = forwarded(inner[0], nested), forwarded(inner[2], subject="Noch einer")
    write_data_file(tmp_path / "a.pst", A=[first], B=[second])

    run(tmp_path / "a.pst")

    assert receipts() == set()
    assert {each["subject"] for each in records("messages")} == {"Weitergeleitet", "Noch einer"}
    attached = {each["filename"]: each["text"] for each in records("attachments")}
    for number in inner:
        text = attached[f"Brief {number}"]
        assert text.startswith(f"Brief {number}\n\n")
        assert "Eva Müller" in text
        assert text.endswith(f"{number} " * 4_999 + f"{number}")
    assert attached["Sammlung"] == "Sammlung"
    notes = [each for each in records("attachments") if each["filename"] == "Notizen für Ida.txt"]
    assert [each["text"] for each in notes] == ["Sprich langsam.\n"] * 3


@OUTLOOK
@pytest.mark.django_db
def test_messages_nested_too_deeply_have_a_receipt(tmp_path: Path) -> None:
    nested = stored_mail()
    for depth in range(20):
        nested = forwarded(nested, subject=f"Level {depth}")
    write_data_file(tmp_path / "a.pst", Inbox=[nested])

    run(tmp_path / "a.pst")

    assert receipts() == {("nested_too_deeply", "Inbox")}
    assert len(records("attachments")) == 10


@OUTLOOK
@pytest.mark.django_db
@pytest.mark.parametrize("how", ["another release", "number of a message"])
def test_attached_message_that_the_library_does_not_find_has_a_receipt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    if how == "another release":
        monkeypatch.setattr(outlook, "CHECKED_VERSION", "20200101")
    else:  # local numbers may be those of messages
        monkeypatch.setattr(outlook_data_file, "ATTACHED", 0x10001 << 5 | MESSAGE)
    write_data_file(tmp_path / "a.pst", Inbox=[forwarded(stored_mail())])

    run(tmp_path / "a.pst")

    assert receipts() == {("not_supported", "Inbox")}
    assert [each["subject"] for each in records("messages")] == ["Weitergeleitet"]


@pytest.mark.django_db
def test_html_and_its_pictures_are_kept(tmp_path: Path) -> None:
    written = as_msg(html_mail())
    written.add_attachment("pot.png", PNG, mime_type="image/png", content_id="pot@x")
    written.save(tmp_path / "a.msg")
    run(tmp_path)

    found = one("messages")
    assert found["body_text"] == PLAIN
    assert f'src="cid:{one("attachments")["id"]}"' in html_of(found)


@pytest.mark.slow
@pytest.mark.django_db
def test_year_of_msg_files(tmp_path: Path) -> None:
    for data in year_of_mail():
        folder = tmp_path / data["folder"]
        folder.mkdir(exist_ok=True)
        as_msg(as_mail(data)).save(folder / f"{data['id']}.msg")

    run(tmp_path)

    require_year_of_mail()
    run(tmp_path)
    assert (latest().created, latest().updated) == (0, 0)


def folder_of_month(data: dict[str, Any]) -> str:
    return f"{data['folder']} {data['received_at'][:7]}"


@pytest.mark.slow
@OUTLOOK
@pytest.mark.django_db
def test_year_of_a_data_file(tmp_path: Path) -> None:
    folders: dict[str, list[Mail]] = {}
    for data in year_of_mail():
        properties = {
            SUBJECT: data["subject"],
            SENT_AT: parse_time(data["received_at"]),
            FLAGS: int(data["is_read"]),
            MESSAGE_ID: f"<{data['id']}@example.org>",
            TEXT: data["body_text"].replace("\n", "\r\n"),
            AUTHOR: data["from_name"],
            AUTHOR_ADDRESS: data["from_email"],
            CATEGORIES: data["labels"],
        }
        folders.setdefault(folder_of_month(data), []).append(Mail(properties))
    write_data_file(tmp_path / "year.pst", **folders)

    run(tmp_path / "year.pst")

    require_year_of_mail(folder_of_month)
    stored = {each["internet_message_id"].partition("@")[0]: each for each in records("messages")}
    for data in year_of_mail():
        mail = stored[data["id"]]
        assert (mail["labels"], mail["is_read"]) == (data["labels"], data["is_read"])
    run(tmp_path / "year.pst")
    assert (latest().created, latest().updated) == (0, 0)


@pytest.mark.subprocess
class TestMsg(ImporterTests):
    importer_name = "msg"

    @pytest.fixture(autouse=True)
    def _export(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        folder = tmp_path_factory.mktemp("export")
        self.export, self.newer_export = folder / "old", folder / "new"
        for export, count in ((self.export, 2), (self.newer_export, 3)):
            export.mkdir()
            for number in range(count):
                message = with_files(mail(message_id=f"<{number}@example.org>"))
                as_msg(message).save(export / f"{number}.msg")


@OUTLOOK
@pytest.mark.subprocess
class TestDataFile(ImporterTests):
    importer_name = "outlook"

    @pytest.fixture(autouse=True)
    def _export(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        folder = tmp_path_factory.mktemp("export")
        mails = [stored_mail(number) for number in range(30)]
        self.export = write_data_file(folder / "old.pst", Inbox=mails[:20])
        self.newer_export = write_data_file(folder / "new.pst", Inbox=mails)


@OUTLOOK
@pytest.mark.django_db
@pytest.mark.subprocess
def test_recipients_are_those_of_the_header_once(tmp_path: Path) -> None:
    mail = stored_mail()
    header = "To: Ida <ida@example.org>, jo@example.org\r\nCc: Max <max@example.org>\r\n"
    hidden = {NAME: "Uma", ADDRESS: "uma@example.org", KIND: 3}
    mail = replace(
        mail,
        properties={**mail.properties, 0x007D: header},
        recipients=[*mail.recipients, hidden],
    )
    run(write_data_file(tmp_path / "Outlook.pst", Archiv=[mail]))

    found = one("messages")
    assert (found["to"], found["cc"], found["bcc"]) == (
        ["ida@example.org", "jo@example.org"],
        ["max@example.org"],
        ["uma@example.org"],
    )
