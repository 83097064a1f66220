"""Importers of other packages run in a process without network, keys, environment or other files."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from evidence.models.connections import Connection
from importers import registry
from importers.core import sandbox
from importers.core.importer import ImportRequest
from importers.core.readers import KeySet
from importers.core.sandbox import ReceivedItem, RecordHeader
from importers.models import ImportReceipt
from importers.registry import OWN_FOLDER, installed_importers
from importers.runs.preview import preview_export
from importers.runs.record_feed import AttachmentSpool, RecordFeed
from tests.importers.imports import TORTURE, latest, receipts, records, run

pytestmark = [pytest.mark.slow, pytest.mark.django_db, pytest.mark.subprocess]

MANIFEST = """
[[importers]]
name = "mood"
object = "pdpp_mood.importer:MOOD"
title = "a mood diary"
label = "Mood"
declaration = "{declaration}"
"""
CODE = """
import ctypes, fcntl, os, socket, struct, sys
from importers.core.export_files import iter_items
from importers.core.importer import Importer, claim_by_suffix
from importers.core.results import ExportItem, ParsedItem, ParsedRecord

EXPORT = sys.argv[-1] if sys.argv[0] != "-c" else sys.argv[1]

def libc(name, *arguments):
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), name)

def attempt(action):
    try:
        return repr(action())
    except Exception as error:
        return type(error).__name__

def parse(line):
    print("an importer may print")
    text = eval(line[6:]) if line.startswith("eval: ") else line
    data = {"id": line, "path": line, "text": str(text)}
    return ParsedItem(records=[ParsedRecord("documents", data)])

def read_file(file):
    with file.open() as stream:
        for number, line in enumerate(stream.read().decode().splitlines()):
            yield ExportItem(file.name, f"line {number + 1}", len(line), lambda: parse(line))

MOOD = Importer(
    claim=claim_by_suffix(".mood"),
    read=lambda files, options: iter_items(files, read_file),
)
"""
Install = Callable[..., None]
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="only Linux confines processes")


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Return a function that installs a package with an importer, as pip does."""
    monkeypatch.syspath_prepend(tmp_path / "site")

    def install_package(declaration: str = "pdpp:documents", code: str = CODE) -> None:
        files = {
            "pdpp_mood/__init__.py": "",
            "pdpp_mood/importer.py": code,
            "pdpp_mood/importers.toml": MANIFEST.format(declaration=declaration),
            "pdpp_mood-1.dist-info/METADATA": "Name: pdpp-mood\nVersion: 1\n",
            "pdpp_mood-1.dist-info/entry_points.txt": "[pdpp.importers]\nmood = pdpp_mood\n",
        }
        for name, text in files.items():
            path = tmp_path / "site" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        installed_importers.cache_clear()

    yield install_package
    installed_importers.cache_clear()


@pytest.fixture
def mood(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a diary with these lines."""

    def write(*lines: str) -> Path:
        path = tmp_path / "diary.mood"
        path.write_text("\n".join(lines))
        return path

    return write


def texts() -> dict[str, str]:
    return {record["id"]: record["text"] for record in records("documents")}


def test_importer_of_another_package_is_found_and_never_imported_here(
    install: Install, mood: Callable[..., Path]
) -> None:
    install()

    output = run(mood("good", "better"))
    run(mood("good", "better", "best"))

    assert "a mood diary" in output
    assert texts() == {"good": "good", "better": "better", "best": "best"}
    assert latest().created == 1
    assert not any(name.startswith("pdpp_mood") for name in sys.modules)


ATTEMPTS = (
    "socket.socket()",
    "socket.socket(socket.AF_UNIX)",
    "open('/etc/passwd').read()",
    "open(f'/proc/{os.getppid()}/environ').read()",
    "os.listdir('/tmp')",
    "os.fork()",
    "os.execv('/bin/true', ['true'])",
    "open('/tmp/pdpp-outside', 'w')",
)
DENIED_CALLS = (
    "os.kill(os.getppid(), 0)",
    "libc('sigqueue', os.getppid(), 0, 0)",
    "fcntl.fcntl(0, fcntl.F_SETOWN, os.getppid())",
    "fcntl.fcntl(0, fcntl.F_SETSIG, 9)",
    "fcntl.ioctl(0, 0x8901, struct.pack('i', os.getppid()))",
    "os.chmod(EXPORT, 0o777)",
    "os.chown(EXPORT, 0, 0)",
    "os.utime(EXPORT)",
    "os.setxattr(EXPORT, 'user.x', b'x')",
    "os.truncate(EXPORT, 0)",
    "os.open(EXPORT, os.O_RDONLY | os.O_TRUNC)",
    "os.open(EXPORT, 3)",
    "os.symlink('/etc', 'link')",
    "os.link(EXPORT, 'link')",
    "os.mkfifo('fifo')",
    "os.memfd_create('memory')",
    "libc('shmget', 0, 1 << 30, 0o1600)",
    "os.nice(1)",
    "os.setpriority(os.PRIO_PROCESS, os.getppid(), 19)",
    "os.sched_setaffinity(os.getppid(), {0})",
    "os.sched_setscheduler(os.getppid(), 0, os.sched_param(0))",
    "os.setsid()",
    "libc('prlimit', os.getppid(), 4, 0, 0)",
    "socket.socketpair()",
    "os.chroot('.')",
)
"""What the filter of system calls denies, also on a kernel without Landlock."""


@linux_only
def test_importer_reaches_nothing_outside(install: Install, mood: Callable[..., Path]) -> None:
    install()
    attempts = [f"eval: attempt(lambda: {attempt})" for attempt in (*ATTEMPTS, *DENIED_CALLS)]

    run(mood(*attempts, "eval: 6 * 7"))

    assert texts() == {**dict.fromkeys(attempts, "PermissionError"), "eval: 6 * 7": "42"}


@linux_only
def test_filter_of_system_calls_holds_without_landlock(tmp_path: Path) -> None:
    export = tmp_path / "diary.mood"
    export.write_text("good")
    os.utime(export, (1, 1))
    before = export.stat()
    program = f"""{CODE}
from importers.core import isolation
assert isolation.restrict_calls()
for attempt_code in sys.argv[2:]:
    print(attempt_code, attempt(lambda: eval(attempt_code)))
"""

    done = subprocess.run(
        [sys.executable, "-c", program, export, *DENIED_CALLS],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(OWN_FOLDER.parent)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout.splitlines() == [f"{each} PermissionError" for each in DENIED_CALLS]
    assert export.stat() == before


def test_importer_gets_no_environment_and_a_private_folder(
    install: Install, mood: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PDPP_SECRET_KEY", "made-up")
    install()

    run(mood("eval: sorted(os.environ)", "eval: os.listdir('.')", "eval: 'django' in sys.modules"))

    assert sorted(texts().values()) == ["False", "['LC_ALL', 'TMPDIR']", "[]"]


def slow(*values: str) -> list[Any]:
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


@pytest.mark.parametrize(
    "crash",
    ["os._exit(1)", *slow("os.abort()", "[bytes(10**8) for _ in range(99)]", "'x' * 10**10")],
)
def test_item_that_ends_the_process_has_a_receipt_and_the_others_are_imported(
    install: Install, mood: Callable[..., Path], crash: str
) -> None:
    install()

    run(mood("one", "two", f"eval: {crash}", "four"))

    assert texts() == {"one": "one", "two": "two", "four": "four"}
    (receipt,) = ImportReceipt.unscoped.all()
    assert (receipt.code, receipt.file, receipt.place) == ("unreadable", "diary.mood", "line 3")


@pytest.mark.parametrize(
    ("lines", "others"),
    [("exit\ntwo", {"one", "last"}), ("two\nthree\nexit\nfour", {"one", "two", "three", "last"})],
    ids=["before the first item", "between items"],
)
def test_file_that_ends_the_process_has_a_receipt(
    install: Install, tmp_path: Path, lines: str, others: set[str]
) -> None:
    install(
        code=CODE.replace(
            "            yield", "            line == 'exit' and os._exit(1)\n            yield"
        )
    )
    folder = tmp_path / "diaries"
    folder.mkdir()
    for name, text in (("a", "one"), ("b", lines), ("c", "last")):
        (folder / f"{name}.mood").write_text(text)

    run(folder)

    assert set(texts()) == others
    (receipt,) = ImportReceipt.unscoped.all()
    assert (receipt.file, receipt.detail) == ("b.mood", "the importer exited")


def test_each_file_that_ends_the_process_has_a_receipt(install: Install, tmp_path: Path) -> None:
    install(
        code=CODE.replace(
            "            yield", "            line == 'exit' and os._exit(1)\n            yield"
        )
    )
    folder = tmp_path / "diaries"
    folder.mkdir()
    lines = {"a": "1\n2\nexit", "b": "3\n4", "c": "5\nexit\n6", "d": "exit", "e": "7"}
    for name, text in lines.items():
        (folder / f"{name}.mood").write_text(text)

    run(folder)

    assert set(texts()) == set("123457")
    files = ImportReceipt.unscoped.values_list("file", flat=True)
    assert sorted(files) == ["a.mood", "c.mood", "d.mood"]


def test_item_that_never_ends_has_a_receipt_and_the_others_are_imported(
    install: Install, mood: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "SILENCE_SECONDS", 10.0)  # many times a start
    install()

    run(mood("one", "eval: __import__('time').sleep(999)", "three"))

    assert texts() == {"one": "one", "three": "three"}
    (receipt,) = ImportReceipt.unscoped.all()
    assert "silent for too long" in receipt.detail


@pytest.mark.parametrize(
    ("start", "part", "limit", "read", "why"),
    [
        (b"60\n", b"x", "SILENCE_SECONDS", ["one", "three"], "silent for too long"),
        (b"", b'12\n{"items":[]}', "TOTAL_SECONDS", [], "took too long"),
    ],
)
def test_process_that_sends_a_little_now_and_then_has_a_deadline(
    install: Install, mood: Callable[..., Path], monkeypatch: pytest.MonkeyPatch,
    start: bytes, part: bytes, limit: str, read: list[str], why: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(sandbox, limit, 12.0)
    # The last pipe that is open for writing is that of the messages.
    code = CODE.replace(
        "def parse(line):",
        f"""
def drip():
    import time
    pipe = max(n for n in range(3, 20) if attempt(lambda: fcntl.fcntl(n, fcntl.F_GETFL)) == "1")
    os.write(pipe, {start!r})
    for _ in range(60):
        os.write(pipe, {part!r})
        time.sleep(0.3)

def parse(line):""",
    )
    install(code=code)

    run(mood("one", "eval: drip()", "three"))

    assert sorted(texts()) == read
    assert why in ImportReceipt.unscoped.latest("id").detail


@pytest.mark.parametrize(
    "code", ["1 / 0", *slow("import os; os._exit(1)", "MOOD = None", "print(")]
)
def test_broken_package_does_not_stop_ours(install: Install, tmp_path: Path, code: str) -> None:
    install(code=code)
    folder = tmp_path / "export"
    folder.mkdir()
    (folder / "diary.mood").write_text("good")
    (folder / "a.mbox").write_bytes((TORTURE / "mail.mbox").read_bytes())

    run(folder)

    assert len(records("messages")) == 14
    assert {name for _, name in receipts()} >= {"diary.mood"}


@pytest.mark.parametrize(
    "sample",
    ["1 / 0", *slow("__import__('os')._exit(1)", "[1]", "FileSample(file='x', header=7)",
                    "[FileSample(file='x', rows=[['y'] * 99] * 99)]")],
)  # fmt: skip
def test_importer_with_a_broken_sample_is_previewed(
    install: Install, mood: Callable[..., Path], sample: str
) -> None:
    code = CODE.replace("import Importer,", "import FileSample, Importer,")
    install(code=code.replace("MOOD = Importer(", f"MOOD = Importer(sample=lambda *_: {sample},"))

    found = preview_export(
        mood("one"),
        request=ImportRequest(),
        owner_id="owner",
        now=timezone.now(),
        with_samples=True,
    )

    assert [part.importer.name for part in found.parts] == ["mood"]
    assert all(len(each.rows) <= 5 for each in found.samples)


def test_declaration_of_another_package_is_not_replaced(
    install: Install, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    declaration = json.loads((OWN_FOLDER / "declarations" / "mail.json").read_bytes())
    declaration["display_name"] = "Not your mail"
    install(declaration="mail.json")
    (tmp_path / "site" / "pdpp_mood" / "mail.json").write_text(json.dumps(declaration))

    names = [importer.name for importer in installed_importers()]

    assert "mood" not in names
    assert "mbox" in names
    assert "connector_key imported-mail is taken by importers" in caplog.text


@pytest.mark.parametrize(
    ("declaration", "problem"),
    [("../secret.json", "takes a file of the package"), ("none.json", "No such file")],
)
def test_wrong_manifest_is_logged_and_left_out(
    install: Install, caplog: pytest.LogCaptureFixture, declaration: str, problem: str
) -> None:
    install(declaration=declaration)

    assert "mood" not in [importer.name for importer in installed_importers()]
    assert problem in caplog.text


def test_record_cannot_name_another_connection_or_operation() -> None:
    run(TORTURE / "mail.mbox")
    own, key = Connection.unscoped.get().connection_id, records("messages")[0]["id"]
    forged = json.dumps({"id": key}) + f',"op":"delete","connection_id":"{own}"'
    forged += f',"stream":"messages","key":{json.dumps(key)}'
    item = ReceivedItem(0, "f", "", 0, records=[RecordHeader("documents", "k", len(forged))])
    item.read = lambda _size: forged.encode()
    spool = AttachmentSpool()

    feed = RecordFeed(iter([item]), connection_id="cin_other", seen=KeySet(), spool=spool)
    (line,) = feed.lines()
    spool.close()

    assert line.content is not None
    envelope = json.loads(line.content)
    assert (envelope["connection_id"], envelope["stream"]) == ("cin_other", "documents")
    assert (envelope["op"], envelope["key"]) == ("upsert", "k")


def test_every_importer_of_ours_is_in_the_manifest() -> None:
    declared = {
        importer.object_path for importer in registry.load_importers("importers", OWN_FOLDER)
    }
    written = {
        f"{'.'.join(path.relative_to(OWN_FOLDER.parent).with_suffix('').parts)}:{line.split()[0]}"
        for path in OWN_FOLDER.rglob("*.py")
        for line in path.read_text().splitlines()
        if re.match(r"[A-Z0-9_]+ = (?:_importer|Importer|once_across_formats)\(", line)
    }

    assert written == declared


FORGED = b'{"items":[["f","l",1,[],[],[["documents","k",100,[],[]]],[]]]}'
MANY = b'{"items":[' + b"[]," * 1_500_000 + b"0]}"
HUGE = FORGED.replace(b"100", b"%d" % (17 * 1024 * 1024))
RECORD = b'["documents","k",16777216,[],[]]'
FIVE = b'{"items":[["f","l",1,[],[],[%b],[]]]}' % b",".join([RECORD] * 5)


@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        (b"%d\n%b0123456789" % (len(FORGED), FORGED), "the importer exited"),
        (b"40000000\n", "the importer sent too long a message"),
        (b"%d\n%b" % (len(MANY), MANY), "the importer sent too long a message"),
        (b"%d\n%b" % (len(HUGE), HUGE), "the importer sent something else than a message"),
        (b"%d\n%b" % (len(FIVE), FIVE), "the importer sent something else than a message"),
    ],
    ids=["cut payload", "long message", "many values", "huge record", "many large records"],
)
def test_message_that_is_cut_or_too_long_has_a_receipt_and_the_others_are_imported(
    install: Install, mood: Callable[..., Path], tmp_path: Path, sent: bytes, problem: str
) -> None:
    package = tmp_path / "site" / "pdpp_mood"
    install()
    (package / "sent").write_bytes(sent)
    send = f"os.write(3, open({str(package / 'sent')!r}, 'rb').read()) and os._exit(1)"

    run(mood("one", f"eval: {send}", "three"))

    assert texts() == {"one": "one", "three": "three"}
    (receipt,) = ImportReceipt.unscoped.all()
    assert receipt.detail == problem


def test_record_that_is_too_large_has_a_receipt_and_the_others_are_imported(
    install: Install, mood: Callable[..., Path]
) -> None:
    install()

    run(mood("one", "eval: 'x' * (17 * 1024 * 1024)", "three"))

    assert texts() == {"one": "one", "three": "three"}
    assert [code for code, _ in receipts()] == ["too_large"]
