"""An export comes through the browser: it is looked at, confirmed, imported and reported."""

import errno
import os
import re
import time
from dataclasses import replace
from email.message import EmailMessage
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import OperationalError
from django.utils import timezone

from evidence.errors import IngestStorageError
from importers.models import ImportRun
from importers.runs import uploads
from importers.runs.runner import ImportWorker
from owner.site import owner
from tests.importers.imports import TORTURE, records, run
from tests.owner.pages.browser import Browser, Page
from tests.owners import OWNER_ID

if TYPE_CHECKING:
    from tests.world import World

IMPORTS = "/imports"
CHAT = b"03/04/26, 08:30 - Jonas: hi\n05/06/26, 08:30 - Jonas: ho\n"


@pytest.fixture(autouse=True)
def _workspace(settings: Any, tmp_path: Path) -> None:
    settings.PDPP_VAR = tmp_path


@pytest.fixture
def imports(tmp_path: Path) -> ImportWorker:
    return ImportWorker(tmp_path / "imports", watch=None, seconds=0)


def send(browser: Browser, name: str, content: bytes) -> Page:
    """The page that the browser is sent to."""
    form = browser.open(IMPORTS).form
    answers = dict(form.answers) | {"file": SimpleUploadedFile(name, content)}
    answer = browser.http.post(IMPORTS, answers, follow=True)
    return Page(answer.redirect_chain[-1][0], answer)


def work(imports: ImportWorker) -> None:
    for _ in imports.job():
        pass


def test_several_files_are_listed_until_each_is_imported(
    world: "World", alice: Browser, imports: ImportWorker
) -> None:
    mails = SimpleUploadedFile("box.mbox", (TORTURE / "mail.mbox").read_bytes())
    answers = dict(alice.open(IMPORTS).form.answers)
    answers["file"] = [mails, SimpleUploadedFile("chat.txt", CHAT)]
    answer = alice.http.post(IMPORTS, answers, follow=True)
    listed = Page(answer.redirect_chain[-1][0], answer)

    assert "Sent, not imported yet box.mbox chat.txt" in listed.text
    alice.press(alice.open(listed.link("box.mbox")).form, "start")
    work(imports)
    assert "Sent, not imported yet chat.txt" in alice.open(IMPORTS).text


def test_it_is_said_what_it_is_before_anything_is_written(world: "World", alice: Browser) -> None:
    page = send(alice, "box.mbox", (TORTURE / "mail.mbox").read_bytes())

    assert "mail from a mailbox file" in page.text
    assert re.search(r"\b1\d messages, \d+ \w+ \d{4} to \d+ \w+ \d{4}", page.text)
    assert "For example:" in page.text
    asked = {name for name, _ in page.form.answers} - {"csrfmiddlewaretoken"}
    assert asked == {"connection", "kind", "languages", "own_addresses"}
    assert "a new connection" in page.text
    assert not ImportRun.unscoped.exists()


@pytest.mark.subprocess
def test_once_confirmed_it_is_imported_and_reported(
    world: "World", alice: Browser, imports: ImportWorker
) -> None:
    page = send(alice, "box.mbox", (TORTURE / "mail.mbox").read_bytes())
    form = page.form
    form.fill("connection", "From the browser")
    waiting = alice.press(form, "start")
    assert "The import starts shortly" in waiting.text
    assert 'http-equiv="refresh"' in waiting.html
    assert any("data-follow" in given for _, given in waiting.elements)

    work(imports)

    done = alice.open(waiting.address)
    assert "From the browser Finished: 17 new records" in done.text
    assert "refresh" not in done.html
    assert not any("data-follow" in given for _, given in done.elements)
    report = alice.open(done.link("Report"))
    assert "message 5, at byte" in report.text
    assert "The date is invalid" in report.text
    assert "box.mbox From the browser" in alice.open(IMPORTS).text


def test_an_import_that_ends_while_the_page_is_made_is_not_called_failed(
    world: "World", alice: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = send(alice, "box.mbox", (TORTURE / "mail.mbox").read_bytes())
    address = alice.press(page.form, "start").address
    [upload] = uploads.list_queued(uploads.root_of(tmp_path / "imports", OWNER_ID))
    going, done = upload.state, replace(upload.state, phase="done")

    for reads in range(1, 6):
        states = chain(repeat(going, reads), repeat(done))
        monkeypatch.setattr(uploads.Upload, "state", property(lambda _, rest=states: next(rest)))
        assert "Not imported" not in alice.open(address).text, f"it ends after {reads} looks"


def test_what_only_the_owner_knows_is_asked(
    world: "World", alice: Browser, imports: ImportWorker
) -> None:
    page = send(alice, "WhatsApp Chat with Jonas.txt", CHAT)
    assert "does the day come first, or the month" in page.text
    assert "3/4/26" in page.text.replace("03/04/26", "3/4/26")
    assert "Reiwa" not in page.text
    still = alice.press(page.form, "start")
    assert "does the day come first, or the month" in still.text

    form = still.form
    form.fill("date_order", "mdy")
    alice.press(form, "start")
    work(imports)

    chat = [each for each in records("messages") if each.get("service") == "whatsapp"]
    assert sorted(each["sent_at"][:10] for each in chat) == ["2026-03-04", "2026-05-06"]


@pytest.mark.parametrize(
    ("name", "rows", "question", "field", "answer", "expected"),
    [
        ("giro.csv", b"Datum;Name;Betrag\n13.01.2026;A;-1.234\n14.01.2026;B;-5.678\n",
         "Which mark stands before the cents", "decimal", "comma", [-1234, -5678]),
        ("giro.csv", b"Datum;Name;Betrag\n13.01.2026;A;-1.234\n14.01.2026;B;-5.678\n",
         "Which mark stands before the cents", "decimal", "point", [-1.234, -5.678]),
        ("giro.csv", b"Date,Payee,Amount\n01/02/2026,A,-1.50\n03/04/2026,B,-2.50\n",
         "does the day come first", "date_order", "mdy", [-1.5, -2.5]),
        ("mycard.csv", b"Date,Description,Amount\n2026-01-13,A,1.50\n2026-01-14,B,2.50\n",
         "Do amounts without a minus sign arrive", "signs", "inverted", [-1.5, -2.5]),
        ("mycard.csv", b"Date,Description,Amount\n2026-01-13,A,1.50\n2026-01-14,B,2.50\n",
         "Do amounts without a minus sign arrive", "signs", "as-written", [1.5, 2.5]),
    ],
)  # fmt: skip
def test_questions_about_a_bank_table_are_answered_on_the_page(
    world: "World", alice: Browser, imports: ImportWorker, name: str, rows: bytes, question: str,
    field: str, answer: str, expected: list[float],
) -> None:  # fmt: skip
    page = send(alice, name, rows)
    assert question in page.text
    assert not ImportRun.unscoped.exists()

    assert question in alice.press(page.form, "start").text
    form = page.form
    form.fill(field, answer)
    alice.press(form, "start")
    work(imports)

    stored = [each for each in records("transactions") if each["id"].startswith("t_")]
    assert sorted(each["amount"] for each in stored) == sorted(expected)
    if field == "date_order":
        assert {each["date"] for each in stored} == {"2026-01-02", "2026-03-04"}


def test_years_of_the_era_reiwa_are_offered_for_a_japanese_table(
    world: "World", alice: Browser, imports: ImportWorker
) -> None:
    page = send(alice, "giro.csv", "日付,取引先,金額\n08.01.02,A,-150\n".encode())

    assert "Year of the era Reiwa first: 08.01.02 → 2 January 2026" in page.text


def test_columns_of_a_table_are_chosen_from_menus_beside_its_rows(
    world: "World", alice: Browser, imports: ImportWorker
) -> None:
    rows = b"Day,Change,Shop\n2026-01-13,0.5,Baker\n2026-01-14,-0.25,Butcher\n"
    page = send(alice, "changes.csv", rows)
    assert "First rows of changes.csv Day Change Shop 2026-01-13 0.5 Baker" in page.text
    assert "choose the columns of the date and the amount" in page.text
    assert "Nothing that can be imported" in alice.press(page.form, "start").text

    form = page.form
    form.fill("column_date", "Day")
    form.fill("column_amount", "Change")
    form.fill("column_counterparty", "Shop")
    looked = alice.press(form, "look")
    assert "Change Amount" in looked.text
    assert looked.form.values("column_date") == ["Day"]
    alice.press(looked.form, "start")
    work(imports)

    stored = [each for each in records("transactions") if each["id"].startswith("t_")]
    assert sorted((each["amount"], each["counterparty"]) for each in stored) == [
        (-0.25, "Butcher"), (0.5, "Baker"),
    ]  # fmt: skip


def test_menus_of_columns_that_are_not_there_are_folded(world: "World", alice: Browser) -> None:
    rows = b"Day,Change,Shop,Group\n2026-01-13,0.5,Baker,Food\n2026-01-14,-0.25,Butcher,Food\n"
    page = send(alice, "changes.csv", rows)
    shown, _, folded = page.html.partition("<summary>More columns</summary>")
    assert 'name="column_date"' in shown
    assert 'name="column_category"' in folded

    page.form.fill("column_category", "Group")
    looked = alice.press(page.form, "look").html.partition("<summary>More columns</summary>")[0]

    assert 'name="column_category"' in looked


@pytest.mark.parametrize(
    ("name", "content", "readings"),
    [
        ("giro.csv", b"Datum;Name;Betrag\n13.01.2026;A;-1.234\n14.01.2026;B;-5.678\n",
         ["A comma before the cents: -1.234 \u2192 -1234.00",
          "A point before the cents: -1.234 \u2192 -1.234",
          "Day first: 13.01.2026 \u2192 13 January 2026"]),
        ("giro.csv", b"Date,Payee,Amount\n03/04/2026,A,\"1.234,56\"\n04/05/2026,B,-2\n",
         ["A comma before the cents: 1.234,56 \u2192 1234.56",
          "A point before the cents: 1.234,56 \u2192 no amount",
          "Day first: 03/04/2026 \u2192 3 April 2026",
          "Month first: 03/04/2026 \u2192 4 March 2026"]),
        ("WhatsApp Chat with Jonas.txt", CHAT,
         ["Day first: 03/04/26 \u2192 3 April 2026", "Month first: 03/04/26 \u2192 4 March 2026"]),
    ],
)  # fmt: skip
def test_choices_show_how_the_files_own_values_are_read(
    world: "World", alice: Browser, name: str, content: bytes, readings: list[str]
) -> None:
    page = send(alice, name, content)

    assert [text for text in readings if text not in page.text] == []


def test_an_unrecognized_file_cannot_be_imported(world: "World", alice: Browser) -> None:
    unknown = send(alice, "photo.raw", b"\0\1\2")
    assert "Import it" not in unknown.text
    assert "choose the kind below" in unknown.text
    assert "Import it" in send(alice, "WhatsApp Chat with Jonas.txt", CHAT).text


def test_one_record_is_counted_in_the_singular(world: "World", alice: Browser) -> None:
    rows = b"Date,Payee,Amount,Currency\n2026-01-13,Baker,-1.50,EUR\n2026-01-14,Smith,-2.50,EUR\n"

    page = send(alice, "mybank.csv", rows)

    assert "1 account 2 transactions" in page.text
    assert "13 January 2026 to 14 January 2026, -4.00 EUR" in page.text


def test_page_speaks_of_itself_and_not_of_the_command_line(world: "World", alice: Browser) -> None:
    page = send(alice, "other.csv", CHANGES)
    unknown = send(alice, "photo.raw", b"\0\1\2")
    form = send(alice, "WhatsApp Chat with Jonas.txt", CHAT).form
    form.fill("timezone", "Mars")
    refused = alice.press(form, "look")

    assert "choose the columns of the date and the amount" in page.text
    assert "in the menu Kind of the import page" in unknown.text
    assert "a name such as Europe/Berlin" in refused.errors[0]
    for each in (page, unknown, refused):
        assert "--" not in each.text


def test_result_counts_each_account_and_links_its_records(
    world: "World", alice: Browser, imports: ImportWorker
) -> None:
    first = b"Date,Payee,Amount,Currency\n2026-01-13,A,-1.50,EUR\n2026-01-14,B,-2.50,EUR\n"
    report = import_whole(alice, imports, "household.csv", first)
    assert "transactions 13 January 2026 to 14 January 2026 -4.00 EUR 2 new" in report.text

    more = first + b"2026-02-01,C,-3,EUR\nFebruary,D,?,EUR\n"
    report = import_whole(alice, imports, "household.csv", more)

    assert "13 January 2026 to 1 February 2026 -7.00 EUR 1 new 2 unchanged" in report.text
    assert "2 new" not in report.text
    assert "1 not imported" in report.text
    assert "household.csv, line 5: February" in report.text
    listed = alice.open(report.link("Bank, household: transactions"))
    assert listed.status == 200
    assert "-3.00 EUR" in listed.text


def test_receipt_of_an_attachment_names_the_file(
    world: "World", alice: Browser, imports: ImportWorker
) -> None:
    mail = EmailMessage()
    mail["Message-ID"], mail["From"] = "<a@example.org>", "eva@example.org"
    mail["Date"] = "Mon, 01 Jun 2026 09:00:00 +0000"
    mail.set_content("Here it is.")
    mail.add_attachment(b"%PDF-1.4 broken", "application", "pdf", filename="plan.pdf")
    report = import_whole(
        alice, imports, "box.mbox", b"From eva@example.org Mon Jun  1 09:00:00 2026\n" + bytes(mail)
    )

    assert "The file has no readable text" in report.text
    assert "box.mbox, message 1" in report.text
    assert "plan.pdf" in report.text


def import_whole(alice: Browser, imports: ImportWorker, name: str, content: bytes) -> Page:
    """Import a file without questions, and return its report."""
    watched = alice.press(send(alice, name, content).form, "start")
    work(imports)
    return alice.open(alice.open(watched.address).link("Report"))


GERMAN = "Ich komme heute nicht mehr, aber wir sehen uns morgen und dann essen wir auch etwas."
FRENCH = "Nous sommes avec vous mais je ne suis pas encore chez moi, et elle aussi."


@pytest.mark.parametrize(("text", "language"), [(GERMAN, "de"), (FRENCH, "fr"), ("Ok 12", "en")])
@pytest.mark.parametrize("name", ["WhatsApp Chat with Eva.txt", "box.mbox"])
def test_language_of_a_new_connection_is_that_of_its_texts(
    world: "World", alice: Browser, name: str, text: str, language: str
) -> None:
    account = owner()
    account.language = "en"
    account.save()
    chat = "".join(f"{day}.05.26, 08:30 - Eva: {text}\n" for day in range(13, 16))
    mail = f"From e@x.org Mon Jun  1 09:00:00 2026\nFrom: e@x.org\nSubject: A\n\n{text} {text}\n"

    page = send(alice, name, (chat if name.endswith(".txt") else mail).encode())

    assert page.form.values("languages") == [language]


def test_account_of_a_table_is_named_on_the_page(
    world: "World", alice: Browser, imports: ImportWorker
) -> None:
    rows = b"Date,Payee,Amount\n2026-01-13,A,-1.50\n2026-01-14,B,-2.50\n"
    page = send(alice, "export.csv", rows)

    form = page.form
    form.fill("account", "Household")
    alice.press(form, "start")
    work(imports)

    assert "Household" in [each.get("name") for each in records("accounts")]


def test_a_large_file_comes_in_slices(
    world: "World", alice: Browser, imports: ImportWorker
) -> None:
    content = (TORTURE / "calendar.ics").read_bytes()
    token = alice.open(IMPORTS).form.values("csrfmiddlewaretoken")[0]

    def put(offset: int, upload: str = "") -> Any:
        return alice.http.post(
            f"{IMPORTS}/slice",
            content[offset : offset + 1000],
            content_type="application/octet-stream",
            query_params={
                "name": "../../cal.ics",
                "size": str(len(content)),
                "offset": str(offset),
                "upload": upload,
            },
            headers={"X-CSRFToken": token},
        )

    first = put(0).json()
    assert put(2000, first["upload"]).status_code == 400
    received = first["received"]
    while received < len(content):
        answer = put(received, first["upload"]).json()
        received = answer["received"]
    page = alice.open(first["next"])

    assert "calendars (iCalendar)" in page.text
    year = timezone.now().year
    assert f"repeating events from {year - 10} to {year + 2}" in page.text
    alice.press(page.form, "start")
    work(imports)
    assert ImportRun.unscoped.get().label == "cal.ics"


def test_slices_without_the_pages_own_token_are_refused(world: "World", alice: Browser) -> None:
    answer = alice.http.post(
        f"{IMPORTS}/slice?name=a.ics&size=1&offset=0", b"x", content_type="application/octet-stream"
    )

    assert answer.status_code == 403


def test_what_nobody_wants_is_thrown_away_after_a_week(
    world: "World", alice: Browser, imports: ImportWorker, tmp_path: Path
) -> None:
    send(alice, "old.mbox", (TORTURE / "mail.mbox").read_bytes())
    work(imports)
    (folder,) = (tmp_path / "imports/uploads" / OWNER_ID).iterdir()
    then = time.time() - 8 * 24 * 3600
    os.utime(folder / "state.json", (then, then))

    work(imports)

    assert not folder.exists()


def test_what_fails_is_said_and_stops_nothing_else(
    world: "World", alice: Browser, imports: ImportWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = send(alice, "box.mbox", (TORTURE / "mail.mbox").read_bytes())
    address = alice.press(page.form, "start").address
    monkeypatch.setattr("importers.runs.runner.preview_export", lambda *_, **__: 1 / 0)

    work(imports)

    assert "Not imported ZeroDivisionError" in alice.open(address).text


def test_an_upload_waits_while_the_database_fails(
    world: "World", alice: Browser, imports: ImportWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = send(alice, "box.mbox", (TORTURE / "mail.mbox").read_bytes())
    address = alice.press(page.form, "start").address
    with monkeypatch.context() as gone:
        gone.setattr("evidence.write.writer._write", Mock(side_effect=OperationalError))
        with pytest.raises(IngestStorageError):
            work(imports)
    assert "Not imported" not in alice.open(address).text

    work(imports)

    assert "Finished: 17 new records" in alice.open(address).text


def test_a_disk_that_is_full_is_said_and_loses_no_slice(
    world: "World", alice: Browser, imports: ImportWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = (TORTURE / "calendar.ics").read_bytes()
    token = alice.open(IMPORTS).form.values("csrfmiddlewaretoken")[0]

    def put(offset: int, upload: str) -> Any:
        asked = {"name": "c.ics", "size": str(len(content)), "offset": str(offset)}
        return alice.http.post(
            f"{IMPORTS}/slice",
            content[max(0, offset) :],
            content_type="application/octet-stream",
            query_params=asked | {"upload": upload},
            headers={"X-CSRFToken": token},
        )

    assert put(-1, "").status_code == 400
    root = uploads.root_of(imports._workspace, OWNER_ID)
    upload = uploads.create_upload(root, name="c.ics", size=len(content))
    with monkeypatch.context() as full:
        no_room = OSError(errno.ENOSPC, "No space left on device")
        full.setattr(uploads.Upload, "write_chunk", Mock(side_effect=no_room))
        answer = put(0, upload.upload_id)
    assert (answer.status_code, answer.json()["error"]) == (507, "No space left on device")

    page = alice.open(put(0, upload.upload_id).json()["next"])
    alice.press(page.form, "start")
    assert put(0, upload.upload_id).status_code == 400, "it is being read"
    work(imports)
    assert ImportRun.unscoped.get().status == "finished"


def test_what_a_full_disk_left_of_an_upload_stops_no_other(
    world: "World", alice: Browser, imports: ImportWorker, tmp_path: Path
) -> None:
    broken = uploads.root_of(tmp_path / "imports", OWNER_ID) / f"upl_{'0' * 24}"
    broken.mkdir(parents=True)
    (broken / "state.json").write_text("")
    page = send(alice, "box.mbox", (TORTURE / "mail.mbox").read_bytes())
    address = alice.press(page.form, "start").address

    work(imports)

    assert "Finished: 17 new records" in alice.open(address).text
    os.utime(broken, (1, 1))
    work(imports)
    assert not broken.exists()


def test_what_is_no_export_is_said_to_be_none(
    world: "World", alice: Browser, imports: ImportWorker
) -> None:
    page = send(alice, "photo.raw", b"\0\1\2")

    assert "Nothing that can be imported" in page.text
    assert "Nothing that can be imported" in alice.press(page.form, "start").text
    assert alice.http.get(f"{IMPORTS}/upload/upl_none").status_code == 404
    assert alice.http.get(f"{IMPORTS}/imp_none").status_code == 404


GIRO = b"Datum;Name;Betrag\n13.01.2026;A;-1.234\n14.01.2026;B;-5.678\n"


@pytest.fixture
def watched(tmp_path: Path) -> Path:
    folder = tmp_path / "watched"
    folder.mkdir()
    return folder


def look_at(watched: Path, tmp_path: Path) -> None:
    """Let a worker that has just started look at the watched folder."""
    then = time.time() - 100
    for path in watched.rglob("*"):
        os.utime(path, (then, then))
    work(ImportWorker(tmp_path / "imports", watch=watched, seconds=0))


def new_bookings() -> list[float]:
    stored = [each for each in records("transactions") if each["id"].startswith("t_")]
    return sorted(each["amount"] for each in stored)


def test_doubtful_watched_file_is_asked_about_and_imported_once_answered(
    world: "World", alice: Browser, watched: Path, tmp_path: Path
) -> None:
    (watched / "giro.csv").write_bytes(GIRO)
    look_at(watched, tmp_path)
    assert not ImportRun.unscoped.exists()
    assert new_bookings() == []

    imports = alice.open(IMPORTS)
    assert "giro.csv Which mark stands before the cents" in imports.text
    assert "-1.234" not in imports.text
    page = alice.open(imports.link("giro.csv"))
    assert "-1.234" in page.text
    assert "Which mark stands before the cents" in alice.press(page.form, "start").text

    form = page.form
    form.fill("decimal", "comma")
    form.fill("connection", "My bank")
    answered = alice.press(form, "start")
    assert "giro.csv Answered. The import starts shortly." in answered.text
    look_at(watched, tmp_path)

    assert new_bookings() == [-5678, -1234]
    assert "Waiting for your answer" not in alice.open(IMPORTS).text
    look_at(watched, tmp_path)
    assert ImportRun.unscoped.count() == 1


@pytest.mark.parametrize("name", [b"giro.csv", b"giro-\xff.csv"])
def test_running_worker_takes_up_an_answer_at_its_next_look(
    world: "World", alice: Browser, watched: Path, tmp_path: Path, name: bytes
) -> None:
    export = watched / os.fsdecode(name)
    export.write_bytes(GIRO)
    os.utime(export, (1, 1))
    worker = ImportWorker(tmp_path / "imports", watch=watched, seconds=3600)
    work(worker)
    shown = name.decode(errors="backslashreplace")
    form = alice.open(alice.open(IMPORTS).link(shown)).form

    form.fill("decimal", "point")
    alice.press(form, "start")
    work(worker)

    assert new_bookings() == [-5.678, -1.234]


@pytest.mark.parametrize("how", ["removed", "imported by hand"])
def test_watched_file_waits_no_longer_once_it_is(
    world: "World", alice: Browser, watched: Path, tmp_path: Path, how: str
) -> None:
    (watched / "giro.csv").write_bytes(GIRO)
    look_at(watched, tmp_path)
    listed = run(list_waiting=True)
    assert "giro.csv: Which mark stands before the cents" in listed
    assert "import it with --decimal comma or --decimal point" in listed

    if how == "removed":
        (watched / "giro.csv").unlink()
    else:
        run(watched / "giro.csv", decimal="comma", connection="By hand")
    look_at(watched, tmp_path)

    assert "Nothing waits" in run(list_waiting=True)
    assert "Waiting for your answer" not in alice.open(IMPORTS).text
    assert ImportRun.unscoped.count() == (how != "removed")


CHANGES = b"Day,Change\n2026-01-13,0.5\n2026-01-14,-0.25\n"


def test_watched_table_that_no_importer_recognizes_is_asked_about(
    world: "World", alice: Browser, watched: Path, tmp_path: Path
) -> None:
    folder = watched / "statements"
    folder.mkdir()
    (folder / "giro.csv").write_text("Datum;Name;Betrag\n13.01.2026;A;-1,50\n")
    (folder / "other.csv").write_bytes(CHANGES)
    look_at(watched, tmp_path)
    assert new_bookings() == [-1.5]

    imports = alice.open(IMPORTS)
    assert "statements Not recognized as a bank statement: other.csv." in imports.text
    assert "Change" not in imports.text
    page = alice.open(next(address for _, address in imports.links if "/waiting/" in address))
    assert "Day, Change" in page.text
    form = page.form
    form.fill("column_date", "Day")
    form.fill("column_amount", "Change")
    alice.press(form, "start")
    look_at(watched, tmp_path)

    assert new_bookings() == [-1.5, -0.25, 0.5]
    assert "Waiting for your answer" not in alice.open(IMPORTS).text


def test_dismissed_question_is_asked_again_only_about_other_tables(
    world: "World", alice: Browser, watched: Path, tmp_path: Path
) -> None:
    folder = watched / "tables"
    folder.mkdir()
    (folder / "changes.csv").write_bytes(CHANGES)
    look_at(watched, tmp_path)
    assert "--column date=NAME" in run(list_waiting=True)
    form = alice.open(alice.open(IMPORTS).link("tables")).form

    dismissed = alice.press(form, "dismiss")
    look_at(watched, tmp_path)

    assert "What the question is about is not imported" in dismissed.text
    assert "Waiting for your answer" not in alice.open(IMPORTS).text
    (folder / "other.csv").write_bytes(CHANGES)
    look_at(watched, tmp_path)
    assert "statement: changes.csv, other.csv." in alice.open(IMPORTS).text
    assert not ImportRun.unscoped.exists()


def test_own_mail_is_the_owners_by_its_sender(
    world: "World", alice: Browser, imports: ImportWorker
) -> None:
    mails = "".join(
        f"From x Mon Jun  1 09:00:00 2026\nFrom: {sender}\nSubject: By {sender}\n"
        f"Message-ID: <{number}@x>\nDate: Mon, 01 Jun 2026 0{number}:00:00 +0000\n\nHello\n\n"
        for number, sender in enumerate(("Alice@Home.example", "eva@example.org"), 1)
    )
    form = send(alice, "box.mbox", mails.encode()).form
    assert form.values("own_addresses") == [""]
    form.fill("own_addresses", "alice@home.example\nalice@work.example")
    watched = alice.press(form, "start")
    work(imports)

    assert "Finished: 2 new records" in alice.open(watched.address).text
    day = alice.open("/day/2026-06-01").text
    assert day.count("You alice@home.example") == 1
    assert "You eva@example.org" not in day
    again = send(alice, "more.mbox", mails.encode()).form
    assert again.values("own_addresses") == ["alice@home.example\nalice@work.example"]
    assert "own_addresses" not in send(alice, "changes.csv", CHANGES).html
