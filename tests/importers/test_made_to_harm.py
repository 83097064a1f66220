"""Exports that somebody has made to take all memory, all time, or everything else down with them."""

import base64
import os
import signal
import struct
import subprocess
import sys
import tracemalloc
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from evidence.models.imports import ImportRun
from importers.calendar.icalendar import ICALENDAR
from importers.core import attachments, export_files, sandbox
from importers.core.export_files import open_export
from importers.core.importer import Options
from importers.core.results import Code, Item, Remark
from importers.core.streaming import iter_components
from importers.core.text import of_html
from tests.importers.imports import latest, one, read_all, receipts, records, run

pytestmark = pytest.mark.django_db
MAIL = b"From a@b.example Mon Jan  5 08:30:00 2026\nMessage-ID: <%d@b.example>\n"


@pytest.fixture(autouse=True)
def _time_is_short() -> Iterator[None]:
    """Of the processor, so that a busy machine changes nothing; what is square takes minutes."""

    def late(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, 20)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.signal(signal.SIGPROF, before)


@contextmanager
def little_memory(most: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


def put(path: Path, content: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def imported(path: Path) -> set[tuple[str, str]]:
    """The receipts of an import; another one writes nothing."""
    run(path)
    said = receipts()
    run(path)
    again = latest()
    assert (again.created, again.updated, again.files) == (0, 0, 0)
    return said


def test_an_archive_says_how_it_is_packed_before_it_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("bomb.txt", bytes(8_000_000))
        archive.writestr("ok.txt", "ok", zipfile.ZIP_DEFLATED)
    content = bytearray(path.read_bytes())
    stated = content.index(b"PK\x01\x02") + 24
    content[stated : stated + 4] = struct.pack("<I", 500)
    path.write_bytes(content)

    with little_memory(3_000_000):
        read_all(path)

    assert imported(path) == {("packed_otherwise", "bomb.txt")}
    assert [each["text"] for each in records("documents")] == ["ok"]


def test_an_archive_of_too_many_files_is_not_even_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from importers.core import zip_archive

    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for number in range(200):
            archive.writestr(f"{number:0200}.txt", "x")
    assert len(open_export(tmp_path / "a.zip").entries) == 200
    monkeypatch.setattr(zip_archive, "DIRECTORY_BYTES", 40_000)
    monkeypatch.setattr(zipfile.ZipFile, "infolist", None)

    with pytest.raises(export_files.UnreadableError) as refused:
        open_export(tmp_path / "a.zip")

    assert refused.value.remark.code == "zip_bomb"


def test_the_list_of_an_archive_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for number in range(50):
            archive.writestr(f"m/cur/{number}", MAIL.partition(b"\n")[2] % number + b"\nx\n")
    opened, make = [], zipfile.ZipFile.__init__

    def counted(self: Any, *args: Any, **more: Any) -> None:
        opened.append(args)
        make(self, *args, **more)

    monkeypatch.setattr(zipfile.ZipFile, "__init__", counted)
    run(tmp_path / "a.zip")

    assert len(records("messages")) == 50
    assert len(opened) == 1


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_of_two_files_of_one_name_the_last_is_meant(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.txt", "old")
        archive.writestr("a.txt", "new")

    assert imported(tmp_path / "a.zip") == set()

    assert [each["text"] for each in records("documents")] == ["new"]


def test_what_is_no_file_in_a_folder_is_said(tmp_path: Path) -> None:
    folder = put(tmp_path / "f" / "ok.txt", "ok").parent
    os.mkfifo(folder / "pipe.txt")
    (folder / "around").symlink_to(folder)
    (folder / "out.txt").symlink_to("/etc/passwd")
    (folder / "nowhere.txt").symlink_to("nothing")
    os.utime(folder / "ok.txt", (1e12, 1e12))

    said = imported(folder)

    assert said == {("no_file", name) for name in ("pipe.txt", "around", "out.txt", "nowhere.txt")}
    assert one("documents", text="ok")


def test_a_file_that_goes_away_takes_no_other_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = put(tmp_path / "f" / "a.txt", "a").parent
    gone, later = put(folder / "b.txt", "b"), put(folder / "c.txt", "c")
    walk = os.walk

    def slowly(*args: Any, **more: Any) -> Iterator[Any]:
        for each in walk(*args, **more):
            gone.unlink(missing_ok=True)
            yield each

    monkeypatch.setattr(os, "walk", slowly)
    opened = Path.open

    def refused(self: Path, *args: Any, **more: Any) -> Any:
        if self == later:
            raise PermissionError(13, "Permission denied")
        return opened(self, *args, **more)

    monkeypatch.setattr(Path, "open", refused)
    run(folder)

    assert receipts() == {("cannot_open", "b.txt"), ("cannot_open", "c.txt")}
    assert [each["text"] for each in records("documents")] == ["a"]


def test_names_of_another_time_are_shown_as_well_as_can_be(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt"))
    path.write_text("coffee")

    imported(path)

    assert latest().label == "caf\ufffd.txt"
    assert one("documents", text="coffee")["path"] == "caf\ufffd.txt"


def test_of_a_large_folder_only_some_beginnings_are_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_files, "HEADS_KEPT", 10)
    for number in range(100):
        put(tmp_path / "f" / f"{number}", b"x" * 9_000)

    entries = open_export(tmp_path / "f").entries
    assert all(entry.head == b"x" * 8_192 for entry in entries)

    assert sum(map(len, entries[0].heads.values())) == 10 * 8_192


CHARSETS = (
    "zlib",
    "hex",
    "rot13",
    "idna",
    "punycode",
    "undefined",
    "unicode_escape",
    "\0",
    "x" * 999,
)


def test_a_charset_that_is_none_loses_no_mail(tmp_path: Path) -> None:
    head = b'Content-Type: text/plain; charset="%b"\n\ngr\xfc\xdfe %d\n\n'
    mails = [MAIL % number + head % (name.encode(), number) for number, name in enumerate(CHARSETS)]

    said = imported(put(tmp_path / "a.mbox", b"".join(mails)))

    assert said == set()
    assert {each["body_text"][-1] for each in records("messages")} == set("012345678")


def test_headers_made_to_harm_lose_no_mail(tmp_path: Path) -> None:
    mails = [
        b"From: " + b"(" * 60_000,
        b"From: " + b"," * 20_000 + b"\nCc: " + b"<" * 20_000,
        b"References: " + b"<a@b> " * 20_000,
        b"Subject: in a file\nContent-Type: text/plain; "
        + b"; ".join(b"name*%d*=%%41" % n for n in range(1_000)),
        b"\n".join(b"X-%x: y" % n for n in range(40_000)),
    ]
    path = put(tmp_path / "a.mbox", b"".join(
        MAIL % number + head + b"\n\nbody %d\n\n" % number for number, head in enumerate(mails)
    ))  # fmt: skip

    with little_memory(7_000_000):
        read_all(path)

    assert imported(path) == set()
    assert {each["body_text"] or each["subject"] for each in records("messages")} == {
        f"body {number}" for number in (0, 1, 2, 4)
    } | {"in a file"}


def test_what_outlook_may_have_wrapped_up_is_opened_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sandbox.SECONDS, b"tnef", 0.5)
    properties = struct.pack("<I", 0x7FFFFFFF) + b"\x03\x00\x01\x00" * 5
    wrapped = struct.pack("<IHBII", 0x223E9F78, 1, 1, 0x00069003, len(properties)) + properties
    head = b"Content-Type: application/ms-tnef; name=winmail.dat\nContent-Transfer-Encoding: base64\n\n"
    path = tmp_path / "a.mbox"
    path.write_bytes(
        MAIL % 1 + head + base64.encodebytes(wrapped + b"\0\0") + b"\n" + MAIL % 2 + b"\nnext\n"
    )

    assert imported(path) == set()

    assert one("attachments", filename="winmail.dat")["blob_ref"]
    assert one("messages", body_text="next")


def test_whoever_reads_elsewhere_ends_by_itself_when_nobody_is_left_to_end_it() -> None:
    properties = struct.pack("<I", 0x7FFFFFFF) + b"\x03\x00\x01\x00" * 5
    wrapped = struct.pack("<IHBII", 0x223E9F78, 1, 1, 0x00069003, len(properties)) + properties
    asked = b"tnef 0.5 %d\n" % (len(wrapped) + 2) + wrapped + b"\0\0"

    ended = subprocess.run([sys.executable, "-I", sandbox._PROGRAM], input=asked, timeout=60)

    assert ended.returncode == -signal.SIGALRM


@pytest.mark.parametrize("tag", ["<div>", "<p>", "<a><b>", "<table>", "<blockquote>x"])
def test_pages_of_nothing_but_tags_are_read_in_one_pass(tag: str) -> None:
    page = (
        "<html><head><title>t</title></head><!-- no <p> --><p>one<br>two &amp; <b>three</b></p>"
        "<script>a<b</script><table><tr><td>4</td><td>5</td></tr></table>"
    )
    expected = "one\ntwo & three\n\n4 5"
    assert of_html(page) == expected

    assert of_html(page + tag * 100_000).startswith(expected)


def test_a_very_long_text_is_not_taken_in_whole() -> None:
    item, content = Item(), "\U0001f600".encode() + "\u00e4".encode() * 12_000_000

    with little_memory(120_000_000):
        text, _ = attachments.text_of(content, media_type="text/plain", charset=None, item=item)

    assert text == "\U0001f600" + "\u00e4" * 999_999
    assert item.remarks == [Remark(Code.TEXT_CUT)]


def telegram(*messages: str) -> str:
    facts = '"about":"x","name":"A\\u0000B","type":"personal_chat","id":1'
    return f'{{{facts},"messages":[{",".join(messages)}]}}'


def test_odd_values_in_a_chat_lose_nothing(tmp_path: Path) -> None:
    told = '{"id":%d,"date_unixtime":"1700000000","text":"%s"%s}'
    path = put(tmp_path / "result.json", telegram(
        told % (1, "number", ',"from_id":1.5'),
        told % (2, "long", ',"from_id":123456789012345678901234567890'),
        told % (3, "cut \\ud83d", ',"from":"x\\ud83d"'),
        told % (4, "nul \\u0000", ',"reactions":null'),
        '{"id":5,"date_unixtime":"1e400","text":"late"}',
        '"no message"',
        told % (6, "last", ""),
    ))  # fmt: skip

    said = imported(path)

    assert {code for code, _ in said} == {"bad_date", "no_identity"}
    assert {each["text"] for each in records("messages")} == {
        "number", "long", "cut ?", "nul \ufffd", "late", "last"
    }  # fmt: skip
    assert one("messages", text="number")["author_id"] == "1.5"
    assert one("conversations")["name"] == "A\ufffdB"


@pytest.mark.parametrize(
    ("text", "code"), [("[" * 20_000, "malformed"), ('"' + "x" * 9_000_000, "too_large")]
)
def test_a_message_without_end_costs_little(tmp_path: Path, text: str, code: str) -> None:
    said = '{"id":1,"date_unixtime":"1700000000","text":"before"},{"id":2,"text":'
    path = put(tmp_path / "result.json", telegram(said + text))

    with little_memory(30_000_000):
        read_all(path)
    run(path)

    assert {code for code, _ in receipts()} == {code}
    assert one("messages", text="before")


def test_a_workspace_with_odd_lists_loses_no_message(tmp_path: Path) -> None:
    folder = tmp_path / "slack"
    put(folder / "users.json", '[{"id":"U1","profile":"x"},{"id":{}},{"id":"U2","name":"Eva"}]')
    put(folder / "channels.json", '[{"id":"C1","name":"general","members":null,"topic":"x"}]')
    put(folder / "general" / "2026-01-05.json",
        '[{"ts":"1700000000.1","text":"a","files":null,"reactions":null,"edited":1},'
        '{"ts":"1700000000.2","text":"b\\u0000","user":"U2"},'
        '{"ts":"1700000000.3","text":"cut \\ud83d"}]')  # fmt: skip

    assert imported(folder) == set()

    assert [each["text"] for each in records("messages")] == ["a", "b\ufffd", "cut ?"]
    assert one("messages", text="b\ufffd")["author"] == "Eva"


def test_a_file_that_its_reader_stumbles_over_takes_no_other_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from importers.bank import ofx

    statement = b"<OFX><BANKACCTFROM><ACCTID>1</BANKACCTFROM><STMTTRN><DTPOSTED>20260105<TRNAMT>%d"
    put(tmp_path / "f" / "a.ofx", statement % 1)
    put(tmp_path / "f" / "b.ofx", statement % 2)
    read = ofx._blocks
    monkeypatch.setattr(ofx, "_blocks", lambda text: 1 / 0 if text[-1] == "1" else read(text))

    run(tmp_path / "f")

    assert receipts() == {("unreadable", "a.ofx")}
    assert [each["amount"] for each in records("transactions")] == [2]
    assert latest().status == ImportRun.Status.FINISHED


def calendar(*events: str) -> str:
    """Events of a property each line; their UIDs are their numbers."""
    told = (
        f"BEGIN:VEVENT\nUID:{number}\nSUMMARY:e{number}\n{event}\nEND:VEVENT\n"
        for number, event in enumerate(events)
    )
    return f"BEGIN:VCALENDAR\n{''.join(told)}END:VCALENDAR\n"


HARMFUL_EVENTS = {
    "DTSTART:20260106T000000Z\nRRULE:FREQ=DAILY;BYWEEKNO=53;BYMONTH=6": "bad_recurrence",
    "DTSTART:20150106T000000Z" + "\nRRULE:FREQ=DAILY" * 300: "bad_recurrence",
    "DTSTART:20150106T000000Z\nRRULE:FREQ=YEARLY;BYHOUR=0,1,2,3,4,5;BYSECOND="
    + ",".join(map(str, range(60))): "bad_recurrence",
    "DTSTART:00010101T000000": "bad_date",
    "DTSTART;TZID=America/New_York:99991231T235959": "bad_date",
    "DTSTART:20260101T000000Z\nDURATION:P999999999D": "bad_date",
    "DTSTART:20260101T000000Z\nDTEND:99981231T235959Z": "bad_date",
    "DTSTART:20260101T000000Z\n" + "X:1\n" * 20_001: "too_large",
}


def test_calendars_made_to_harm_cost_little_and_lose_nothing_else(tmp_path: Path) -> None:
    fine = "DTSTART:20260101T000000Z\nEXDATE:99991231T235959Z\nRRULE:FREQ=DAILY;COUNT=2"
    zone = f"DTSTART;TZID={'a/' * 20}b:20260101T000000"
    path = put(tmp_path / "a.ics", calendar(*HARMFUL_EVENTS, fine, zone))

    said = imported(path)

    assert sorted(code for code, _ in said) == sorted(
        [*HARMFUL_EVENTS.values(), "unknown_time_zone"]
    )
    assert len([each for each in records("events") if each["title"] == "e8"]) == 2
    assert {each["title"] for each in records("events")} == {f"e{n}" for n in (*range(7), 8, 9)}


def test_a_long_text_is_not_repeated_without_end(tmp_path: Path) -> None:
    event = "DTSTART:20150101T000000Z\nRRULE:FREQ=DAILY\nDESCRIPTION:" + "x" * 900_000
    path = put(tmp_path / "a.ics", calendar(event))
    (piece,) = ICALENDAR.read(open_export(path).entries, Options())

    with little_memory(30_000_000):
        item = piece.make()

    assert len(item.rows) == 149
    assert [each.code for each in item.remarks] == ["too_many_occurrences"]


@pytest.mark.parametrize("name", ["VEVENT", "VCARD"])
def test_entries_that_only_begin_are_cut_apart_in_one_pass(name: str) -> None:
    found = list(
        iter_components(b"BEGIN:%b\nX:1\n" % name.encode() * 40_000, names=frozenset({name}))
    )

    assert len(found) == 40_000
    assert found[-1].line == 79_999


def test_a_picture_loses_no_contact(tmp_path: Path) -> None:
    picture = "\n ".join(["A" * 70] * 30_000)
    path = put(
        tmp_path / "a.vcf",
        f"BEGIN:VCARD\nFN:Eva\nPHOTO;ENCODING=b:{picture}\nEMAIL:eva@b.example\nEND:VCARD\n"
        "BEGIN:VCARD\nFN:Next\nEND:VCARD\n",
    )

    assert imported(path) == set()

    assert one("contacts", name="Eva")["emails"] == ["eva@b.example"]
    assert one("contacts", name="Next")


def test_a_quote_that_never_ends_takes_no_other_booking_with_it(tmp_path: Path) -> None:
    rows = "".join(f"2026-01-{n % 28 + 1:02},{n},x\n" for n in range(200))
    path = put(
        tmp_path / "a.csv", f'date,amount,memo\n2026-01-05,-7,"never\n{rows}2026-01-06,-8,"at\n'
    )

    assert imported(path) == set()

    assert len(records("transactions")) == 202
    assert one("transactions", amount=-7)["memo"] == "never"
    assert one("transactions", amount=-8)["memo"] == "at"


def test_a_quoted_text_may_have_lines_of_its_own(tmp_path: Path) -> None:
    put(tmp_path / "a.csv", 'date,amount,memo\n2026-01-05,-7,"one\n""two"""\n2026-01-06,-8,x')

    run(tmp_path / "a.csv")

    assert one("transactions", amount=-7)["memo"] == 'one "two"'
    assert one("transactions", amount=-8)["memo"] == "x"


@pytest.mark.parametrize(
    "amount", ["1e5", "1.5E-3", "1E+400", "NaN", "Infinity", "=1+1", "9" * 500]
)
def test_what_is_no_amount_is_not_made_into_one(tmp_path: Path, amount: str) -> None:
    put(tmp_path / "a.csv", f"date,amount,memo\n2026-01-05,1.50,x\n2026-01-06,{amount},y\n")

    run(tmp_path / "a.csv")

    assert [each["amount"] for each in records("transactions")] == [1.5]
    assert receipts() == {("bad_amount", "line 3")}


STEPS = '<Record type="HKQuantityTypeIdentifierStepCount" sourceName="My Watch" startDate="2026-01-05 08:30:00 +0100" endDate="2026-01-05 08:31:00 +0100" value="7"/>'


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ("<!DOCTYPE[" * 20_000, "damaged"),
        (STEPS.replace("My", "Watch" * 10_000).replace(" end", f" {'x' * 50_000}='' end").replace("7", "8"), None),
        (f'<Record value="{"x" * 2_000_000}', "too_large"),
        ("<Record>" + "<a/>" * 600_000, "too_large"),
        ("<a>" * 200, "malformed"),
    ],
)  # fmt: skip
def test_health_made_to_harm_costs_little(tmp_path: Path, more: str, code: str | None) -> None:
    path = put(tmp_path / "export.xml", f"<HealthData>\n{STEPS}\n{more}</HealthData>")

    with little_memory(12_000_000):
        read_all(path)
    run(path)

    assert one("measurements", value=7)
    assert {said for said, _ in receipts()} == ({code} if code else set())


def test_a_message_of_very_many_lines_is_cut(tmp_path: Path) -> None:
    chat = "05.01.26, 08:30 - A: hi\n14.01.26, 08:30 - A: ho\n" + "x\n" * 300_000
    path = put(tmp_path / "WhatsApp Chat with A.txt", chat + "15.01.26, 08:30 - A: last\n")

    run(path)

    assert one("messages", text="last")
    (long,) = (each for each in records("messages") if each["text"].startswith("ho"))
    assert 200_000 < len(long["text"]) < 400_000
