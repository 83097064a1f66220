"""Malicious exports cost little memory and time, and other items are imported."""

import base64
import os
import signal
import struct
import tracemalloc
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from importers.calendar.icalendar import ICALENDAR
from importers.core import export_files, file_texts
from importers.core.export_files import open_export
from importers.core.importer import Options
from importers.core.readers import iter_components
from importers.core.results import Issue, ParsedItem, ReceiptCode
from importers.core.text import html_to_text
from importers.models import ImportRun
from tests.importers.imports import latest, one, read_all, receipts, records, run

pytestmark = [pytest.mark.slow, pytest.mark.django_db]
MAIL = b"From a@b.example Mon Jan  5 08:30:00 2026\nMessage-ID: <%d@b.example>\n"


@pytest.fixture(autouse=True)
def _time_is_short() -> Iterator[None]:
    """Limit CPU time; the longest test takes a few seconds, quadratic algorithms take minutes."""

    def late(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, 120)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.signal(signal.SIGPROF, before)


@pytest.fixture
def _importers_are_loaded(_in_thread: None, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Read small exports: modules that the first export of a kind loads are not its memory."""
    folder = tmp_path_factory.mktemp("small")
    put(folder / "export.xml", f"<HealthData>\n{STEPS}\n</HealthData>")
    put(folder / "result.json", telegram())
    put(folder / "a.mbox", MAIL % 1 + b"\nbody\n")
    with zipfile.ZipFile(folder / "a.zip", "w") as archive:
        archive.writestr("a.txt", "text")
    for path in folder.iterdir():
        read_all(path)


@contextmanager
def memory_limit(max_bytes: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < max_bytes
    finally:
        tracemalloc.stop()


def put(path: Path, content: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def import_twice(path: Path) -> set[tuple[str, str]]:
    """Import an export twice, and return the receipts. The second import writes nothing."""
    run(path)
    first_receipts = receipts()
    run(path)
    assert (latest().created, latest().updated, latest().files) == (0, 0, 0)
    return first_receipts


@pytest.mark.usefixtures("_importers_are_loaded")
def test_unsupported_compression_is_skipped_without_unpacking(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("bomb.txt", bytes(8_000_000))
        archive.writestr("ok.txt", "ok", zipfile.ZIP_DEFLATED)
    content = bytearray(path.read_bytes())
    size_field = content.index(b"PK\x01\x02") + 24
    content[size_field : size_field + 4] = struct.pack("<I", 500)
    path.write_bytes(content)

    with memory_limit(3_000_000):
        read_all(path)

    assert import_twice(path) == {("packed_otherwise", "bomb.txt")}
    assert [record["text"] for record in records("documents")] == ["ok"]


def test_archive_with_oversized_directory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for number in range(200):
            archive.writestr(f"{number:0200}.txt", "x")
    assert len(open_export(tmp_path / "a.zip").files) == 200
    monkeypatch.setattr(export_files, "DIRECTORY_MAX_BYTES", 40_000)
    monkeypatch.setattr(zipfile.ZipFile, "infolist", None)

    with pytest.raises(export_files.UnreadableError) as refused:
        open_export(tmp_path / "a.zip")

    assert refused.value.issue.code == "zip_bomb"


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_last_of_duplicate_archive_members_is_imported(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.txt", "old")
        archive.writestr("a.txt", "new")

    assert import_twice(tmp_path / "a.zip") == set()

    assert [record["text"] for record in records("documents")] == ["new"]


def test_links_and_pipes_get_receipts(tmp_path: Path) -> None:
    folder = put(tmp_path / "f" / "ok.txt", "ok").parent
    os.mkfifo(folder / "pipe.txt")
    (folder / "around").symlink_to(folder)
    (folder / "out.txt").symlink_to("/etc/passwd")
    (folder / "nowhere.txt").symlink_to("nothing")
    os.utime(folder / "ok.txt", (1e12, 1e12))

    codes_and_locations = import_twice(folder)

    assert codes_and_locations == {
        ("no_file", name) for name in ("pipe.txt", "around", "out.txt", "nowhere.txt")
    }
    assert one("documents", text="ok")


def test_removed_file_does_not_stop_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = put(tmp_path / "f" / "a.txt", "a").parent
    gone, later = put(folder / "b.txt", "b"), put(folder / "c.txt", "c")
    walk = os.walk

    def slowly(*args: Any, **more: Any) -> Iterator[Any]:
        for folder in walk(*args, **more):
            gone.unlink(missing_ok=True)
            yield folder

    monkeypatch.setattr(os, "walk", slowly)
    opened = Path.open

    def refused(self: Path, *args: Any, **more: Any) -> Any:
        if self == later:
            raise PermissionError(13, "Permission denied")
        return opened(self, *args, **more)

    monkeypatch.setattr(Path, "open", refused)
    run(folder)

    assert receipts() == {("cannot_open", "b.txt"), ("cannot_open", "c.txt")}
    assert [record["text"] for record in records("documents")] == ["a"]


def test_undecodable_file_names_use_replacement_characters(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt"))
    path.write_text("coffee")

    import_twice(path)

    assert latest().label == "caf\ufffd.txt"
    assert one("documents", text="coffee")["path"] == "caf\ufffd.txt"


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


def test_messages_with_invalid_charset_are_imported(tmp_path: Path) -> None:
    head = b'Content-Type: text/plain; charset="%b"\n\ngr\xfc\xdfe %d\n\n'
    mails = [MAIL % number + head % (name.encode(), number) for number, name in enumerate(CHARSETS)]

    codes_and_locations = import_twice(put(tmp_path / "a.mbox", b"".join(mails)))

    assert codes_and_locations == set()
    assert {record["body_text"][-1] for record in records("messages")} == set("012345678")


@pytest.mark.usefixtures("_importers_are_loaded")
def test_messages_with_malicious_headers_are_imported(tmp_path: Path) -> None:
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

    with memory_limit(7_000_000):
        read_all(path)

    assert import_twice(path) == set()
    assert {record["body_text"] or record["subject"] for record in records("messages")} == {
        f"body {number}" for number in (0, 1, 2, 4)
    } | {"in a file"}


@pytest.mark.slow
@pytest.mark.subprocess
def test_slow_tnef_file_is_stopped_after_five_seconds(tmp_path: Path) -> None:
    properties = struct.pack("<I", 0x7FFFFFFF) + b"\x03\x00\x01\x00" * 5
    wrapped = struct.pack("<IHBII", 0x223E9F78, 1, 1, 0x00069003, len(properties)) + properties
    head = b"Content-Type: application/ms-tnef; name=winmail.dat\nContent-Transfer-Encoding: base64\n\n"
    path = tmp_path / "a.mbox"
    path.write_bytes(
        MAIL % 1 + head + base64.encodebytes(wrapped + b"\0\0") + b"\n" + MAIL % 2 + b"\nnext\n"
    )

    run(path)

    assert receipts() == set()
    assert one("attachments", filename="winmail.dat")["blob_ref"]
    assert one("messages", body_text="next")


@pytest.mark.parametrize("tag", ["<div>", "<p>", "<a><b>", "<table>", "<blockquote>x"])
def test_html_with_very_many_tags_is_converted_in_linear_time(tag: str) -> None:
    page = (
        "<html><head><title>t</title></head><!-- no <p> --><p>one<br>two &amp; <b>three</b></p>"
        "<script>a<b</script><table><tr><td>4</td><td>5</td></tr></table>"
    )
    expected = "one\ntwo & three\n\n4 5"
    assert html_to_text(page) == expected

    assert html_to_text(page + tag * 100_000).startswith(expected)


def test_very_long_text_is_truncated_in_bounded_memory() -> None:
    item, content = ParsedItem(), "\U0001f600".encode() + "\u00e4".encode() * 12_000_000

    with memory_limit(120_000_000):
        text, _ = file_texts._extract_text(
            content, media_type="text/plain", charset=None, item=item
        )

    assert text == "\U0001f600" + "\u00e4" * 999_999
    assert item.issues == [Issue(ReceiptCode.TEXT_CUT)]


def telegram(*messages: str) -> str:
    chat_fields = '"about":"x","name":"A\\u0000B","type":"personal_chat","id":1'
    return f'{{{chat_fields},"messages":[{",".join(messages)}]}}'


def test_unusual_telegram_values_are_imported(tmp_path: Path) -> None:
    message = '{"id":%d,"date_unixtime":"1700000000","text":"%s"%s}'
    path = put(tmp_path / "result.json", telegram(
        message % (1, "number", ',"from_id":1.5'),
        message % (2, "long", ',"from_id":123456789012345678901234567890'),
        message % (3, "cut \\ud83d", ',"from":"x\\ud83d"'),
        message % (4, "nul \\u0000", ',"reactions":null'),
        '{"id":5,"date_unixtime":"1e400","text":"late"}',
        '"no message"',
        message % (6, "last", ""),
    ))  # fmt: skip

    codes_and_locations = import_twice(path)

    assert {code for code, _ in codes_and_locations} == {"bad_date", "no_identity"}
    assert {record["text"] for record in records("messages")} == {
        "number", "long", "cut ?", "nul \ufffd", "late", "last"
    }  # fmt: skip
    assert one("messages", text="number")["author_id"] == "1.5"
    assert one("conversations")["name"] == "A\ufffdB"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "code"), [("[" * 20_000, "malformed"), ('"' + "x" * 9_000_000, "too_large")]
)
@pytest.mark.usefixtures("_importers_are_loaded")
def test_endless_telegram_message_uses_bounded_memory(tmp_path: Path, text: str, code: str) -> None:
    before = '{"id":1,"date_unixtime":"1700000000","text":"before"},{"id":2,"text":'
    path = put(tmp_path / "result.json", telegram(before + text))

    with memory_limit(30_000_000):
        read_all(path)
    run(path)

    assert {code for code, _ in receipts()} == {code}
    assert one("messages", text="before")


def test_slack_messages_are_imported_despite_malformed_lists(tmp_path: Path) -> None:
    folder = tmp_path / "slack"
    put(folder / "users.json", '[{"id":"U1","profile":"x"},{"id":{}},{"id":"U2","name":"Eva"}]')
    put(folder / "channels.json", '[{"id":"C1","name":"general","members":null,"topic":"x"}]')
    put(folder / "general" / "2026-01-05.json",
        '[{"ts":"1700000000.1","text":"a","files":null,"reactions":null,"edited":1},'
        '{"ts":"1700000000.2","text":"b\\u0000","user":"U2"},'
        '{"ts":"1700000000.3","text":"cut \\ud83d"}]')  # fmt: skip

    assert import_twice(folder) == set()

    assert [record["text"] for record in records("messages")] == ["a", "b\ufffd", "cut ?"]
    assert one("messages", text="b\ufffd")["author"] == "Eva"


def test_importer_error_in_one_file_does_not_stop_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from importers.bank import ofx

    statement = b"<OFX><BANKACCTFROM><ACCTID>1</BANKACCTFROM><STMTTRN><DTPOSTED>20260105<TRNAMT>%d"
    put(tmp_path / "f" / "a.ofx", statement % 1)
    put(tmp_path / "f" / "b.ofx", statement % 2)
    read = ofx._aggregates
    monkeypatch.setattr(ofx, "_aggregates", lambda text: 1 / 0 if text[-1] == "1" else read(text))

    run(tmp_path / "f")

    assert receipts() == {("unreadable", "a.ofx")}
    assert [record["amount"] for record in records("transactions")] == [2]
    assert latest().status == ImportRun.Status.FINISHED


def calendar(*events: str) -> str:
    """Return a calendar whose events have their numbers as UIDs."""
    components = (
        f"BEGIN:VEVENT\nUID:{number}\nSUMMARY:e{number}\n{event}\nEND:VEVENT\n"
        for number, event in enumerate(events)
    )
    return f"BEGIN:VCALENDAR\n{''.join(components)}END:VCALENDAR\n"


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


def test_malicious_events_do_not_affect_other_events(tmp_path: Path) -> None:
    fine = "DTSTART:20260101T000000Z\nEXDATE:99991231T235959Z\nRRULE:FREQ=DAILY;COUNT=2"
    zone = f"DTSTART;TZID={'a/' * 20}b:20260101T000000"
    path = put(tmp_path / "a.ics", calendar(*HARMFUL_EVENTS, fine, zone))

    codes_and_locations = import_twice(path)

    assert sorted(code for code, _ in codes_and_locations) == sorted(
        [*HARMFUL_EVENTS.values(), "unknown_time_zone"]
    )
    assert len([record for record in records("events") if record["title"] == "e8"]) == 2
    assert {record["title"] for record in records("events")} == {f"e{n}" for n in (*range(7), 8, 9)}


@pytest.mark.slow
def test_size_of_a_recurring_event_is_limited(tmp_path: Path) -> None:
    event = "DTSTART:20150101T000000Z\nRRULE:FREQ=DAILY\nDESCRIPTION:" + "x" * 900_000
    path = put(tmp_path / "a.ics", calendar(event))
    (export_item,) = ICALENDAR.read(open_export(path).files, Options())

    with memory_limit(30_000_000):
        item = export_item.parse()

    assert len(item.records) == 1 + 4_748
    assert [issue.code for issue in item.issues] == ["outside_window", "text_once"]
    assert [bool(record.data["description"]) for record in item.records[:3]] == [True, False, False]


@pytest.mark.parametrize("name", ["VEVENT", "VCARD"])
def test_unclosed_components_are_split_in_linear_time(name: str) -> None:
    found = list(
        iter_components(b"BEGIN:%b\nX:1\n" % name.encode() * 40_000, names=frozenset({name}))
    )

    assert len(found) == 40_000
    assert found[-1].line == 79_999


def test_contact_with_large_photo_is_imported(tmp_path: Path) -> None:
    picture = "\n ".join(["A" * 70] * 30_000)
    path = put(
        tmp_path / "a.vcf",
        f"BEGIN:VCARD\nFN:Eva\nPHOTO;ENCODING=b:{picture}\nEMAIL:eva@b.example\nEND:VCARD\n"
        "BEGIN:VCARD\nFN:Next\nEND:VCARD\n",
    )

    assert import_twice(path) == set()

    assert one("contacts", name="Eva")["emails"] == ["eva@b.example"]
    assert one("contacts", name="Next")


def test_unclosed_quotation_mark_does_not_swallow_other_rows(tmp_path: Path) -> None:
    rows = "".join(f"2026-01-{n % 28 + 1:02},-{n},x\n" for n in range(10, 210))
    path = put(
        tmp_path / "a.csv", f'date,amount,memo\n2026-01-05,-7,"never\n{rows}2026-01-06,-8,"at\n'
    )

    assert import_twice(path) == set()

    assert len(records("transactions")) == 202
    assert one("transactions", amount=-7)["memo"] == "never"
    assert one("transactions", amount=-8)["memo"] == "at"


@pytest.mark.parametrize(
    "amount", ["1e5", "1.5E-3", "1E+400", "NaN", "Infinity", "=1+1", "9" * 500]
)
def test_invalid_amounts_get_receipts(tmp_path: Path, amount: str) -> None:
    put(tmp_path / "a.csv", f"date,amount,memo\n2026-01-05,-1.50,x\n2026-01-06,{amount},y\n")

    run(tmp_path / "a.csv")

    assert [record["amount"] for record in records("transactions")] == [-1.5]
    assert receipts() == {("bad_amount", "line 3")}


STEPS = '<Record type="HKQuantityTypeIdentifierStepCount" sourceName="My Watch" startDate="2026-01-05 08:30:00 +0100" endDate="2026-01-05 08:31:00 +0100" value="7"/>'


@pytest.mark.slow
def test_message_with_very_many_lines_is_truncated(tmp_path: Path) -> None:
    chat = "05.01.26, 08:30 - A: hi\n14.01.26, 08:30 - A: ho\n" + "x\n" * 300_000
    path = put(tmp_path / "WhatsApp Chat with A.txt", chat + "15.01.26, 08:30 - A: last\n")

    run(path)

    assert one("messages", text="last")
    (long,) = (record for record in records("messages") if record["text"].startswith("ho"))
    assert 200_000 < len(long["text"]) < 400_000
