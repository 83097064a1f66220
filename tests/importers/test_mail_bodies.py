"""Messages of unusual form keep their text, links, folder and read state."""

import base64
import zipfile
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from compressed_rtf import compress

from tests.importers.imports import receipts, records, run

pytestmark = pytest.mark.django_db

HEADER = (
    b"From: a@example.org\nDate: Mon, 5 Jan 2026 08:30:00 +0000\nMessage-ID: <1@x>\nSubject: S\n"
)
HTML = (
    "<p>Dear Ida, your parcel with the blue teapot arrives on Thursday between eight and ten."
    ' <a href="https://shop.example/track?id=7">Track it</a></p><p>Please have your passport'
    " ready, and sign with the courier. The invoice is attached.</p>"
)


def imported(path: Path, content: bytes | EmailMessage, name: str = "a.eml") -> dict[str, Any]:
    (path / name).parent.mkdir(parents=True, exist_ok=True)
    (path / name).write_bytes(bytes(content))
    run(path)
    (message,) = records("messages")
    return message


def alternative(plain: str, html: str) -> EmailMessage:
    message = EmailMessage()
    message["From"], message["Message-ID"], message["Subject"] = "a@example.org", "<1@x>", "S"
    message.set_content(plain)
    message.add_alternative(html, subtype="html")
    return message


@pytest.mark.parametrize(
    "stub",
    [
        "Please view as HTML",
        "This is an HTML message. View it in your browser: https://shop.example/" + "x" * 300,
        "Ihr E-Mail-Programm kann diese Nachricht nicht anzeigen.",
        "-",
        "Your order",
    ],
)
def test_stub_does_not_hide_the_html(tmp_path: Path, stub: str) -> None:
    message = imported(tmp_path, alternative(stub, HTML))

    assert "blue teapot" in message["body_text"]
    assert message["body_source"] == "html"


@pytest.mark.parametrize(
    "plain",
    [
        "The blue teapot arrives on Thursday.\nSign with the courier, the browser shows the way. "
        * 4
    ],
)
def test_plain_text_is_preferred(tmp_path: Path, plain: str) -> None:
    assert imported(tmp_path, alternative(plain, HTML))["body_source"] == "plain"


@pytest.mark.parametrize("breaks", [0, 21_000])
def test_html_keeps_link_targets(tmp_path: Path, breaks: int) -> None:
    html = (
        '<a href="https://shop.example/a?b=1&amp;c=2">Track</a> <a href="#top">Top</a>'
        ' <a href="https://shop.example/pic"><img src=x></a>' + "<br>" * breaks
    )
    message = imported(tmp_path, HEADER + b"Content-Type: text/html\n\n" + html.encode())

    for target in ("https://shop.example/a?b=1&c=2", "https://shop.example/pic"):
        assert target in message["body_text"]
    assert "#top" not in message["body_text"]


def test_link_whose_text_is_its_target_is_shown_once(tmp_path: Path) -> None:
    html = b'<a href="https://www.shop.example/">shop.example</a> <a href="mailto:a@b.example?subject=x">a@b.example</a>'

    message = imported(tmp_path, HEADER + b"Content-Type: text/html\n\n" + html)

    assert message["body_text"] == "shop.example a@b.example"


@pytest.mark.parametrize("parameter", [b'; boundary="wrong"', b"", b'; boundary=""'])
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_wrong_boundary_keeps_the_body(tmp_path: Path, parameter: bytes, line_end: bytes) -> None:
    content = (
        HEADER + b"Content-Type: multipart/mixed" + parameter + b"\n\n--right\n"
        b"Content-Type: text/plain\n\nThe body.\n--right\n"
        b'Content-Type: text/plain\nContent-Disposition: attachment; filename="a.txt"\n\n'
        b"attached\n--right--\n"
    ).replace(b"\n", line_end)

    message = imported(tmp_path, content)

    assert message["body_text"] == "The body."
    assert [record["filename"] for record in records("attachments")] == ["a.txt"]


def test_multipart_without_any_boundary_is_text(tmp_path: Path) -> None:
    content = HEADER + b"Content-Type: multipart/alternative; boundary=b\n\nOnly text.\n"

    assert imported(tmp_path, content)["body_text"] == "Only text."


@pytest.mark.parametrize(
    ("labels", "is_read"),
    [
        ("Posteingang,Ungelesen", False),
        ("=?UTF-8?Q?Bo=C3=AEte_de_r=C3=A9ception,Non_lus?=", False),
        ("=?UTF-8?B?5pyq6Kqt?=", False),
        ("Inbox,UNREAD", False),
        ("Posteingang,=?UTF-8?Q?Ge=C3=B6ffnet?=", True),
        ("Inbox", True),
    ],
)
def test_unread_label_of_any_language(tmp_path: Path, labels: str, is_read: bool) -> None:
    content = b"X-Gmail-Labels: " + labels.encode() + b"\n" + HEADER + b"\nText"

    assert imported(tmp_path, content)["is_read"] is is_read


MBOX = b"From a@example.org Mon Jan  5 08:30:00 2026\n" + HEADER + b"\nText\n"


@pytest.mark.parametrize(
    ("name", "folder"), [("Work.mbox/mbox", "Work"), ("in/Trips.2024.mbox/mbox", "Trips.2024")]
)
def test_folder_of_apple_mail_is_its_name(tmp_path: Path, name: str, folder: str) -> None:
    assert imported(tmp_path, MBOX, name)["folder"] == folder


def test_apple_mailbox_itself_has_its_name(tmp_path: Path) -> None:
    (tmp_path / "Work.mbox").mkdir()

    assert imported(tmp_path / "Work.mbox", MBOX, "mbox")["folder"] == "Work"


@pytest.mark.parametrize(
    ("name", "folder", "is_read"),
    [
        (".Sent/new/1700000000.M1P2.Server", "Sent", False),
        (".Sent/cur/1700000000.M1P2.Server:2,S", "Sent", True),
        (".Sent/1700000000.M1P2.Server:2,RS", "Sent", True),
        ("mail/1700000000.M1P2.Server:2,", "inbox", False),
        ("mail/cur/1700000000.M1P2.Server", "inbox", False),
    ],
)
@pytest.mark.parametrize("is_zip", [False, True])
def test_incomplete_maildirs_are_imported(
    tmp_path: Path, name: str, folder: str, is_read: bool, is_zip: bool
) -> None:
    if is_zip:
        with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
            archive.writestr(name, HEADER + b"\nText")
        run(tmp_path / "a.zip")
        (message,) = records("messages")
    else:
        message = imported(tmp_path, HEADER + b"\nText", name)

    assert (message["folder"], message["is_read"]) == (folder, is_read)


@pytest.mark.parametrize(("flags", "is_read"), [(8590195713, True), (8590195712, False)])
def test_emlx_is_imported(tmp_path: Path, flags: int, is_read: bool) -> None:
    message = HEADER + b"\nThe body."
    plist = f"<?xml version='1.0'?><plist><dict><key>flags</key><integer>{flags}</integer></dict></plist>"
    content = b"%-10d\n" % len(message) + message + plist.encode()

    record = imported(tmp_path, content, "Work.mbox/Data/Messages/12.emlx")

    assert (record["body_text"], record["folder"]) == ("The body.", "Work")
    assert record["is_read"] is is_read
    assert receipts() == set()


RTF = rb"{\rtf1\ansi\ansicpg1252\deff0{\fonttbl{\f0 Arial;}}\pard The m\'fcller comes on Thursday.\par}"


def tnef(rtf: bytes) -> bytes:
    """Return a TNEF file whose only body is compressed RTF (PR_RTF_COMPRESSED)."""
    packed = compress(rtf, compressed=True)
    padded = packed + b"\0" * (-len(packed) % 4)
    values = (
        (1).to_bytes(4, "little") + b"\x02\x01\x09\x10" + (1).to_bytes(4, "little")
        + len(packed).to_bytes(4, "little") + padded
    )  # fmt: skip
    attribute = b"\x01\x03\x90\x06\x00" + len(values).to_bytes(4, "little") + values
    checksum = (sum(values) & 0xFFFF).to_bytes(2, "little")
    return b"\x78\x9f\x3e\x22\x01\x00" + attribute + checksum


def test_rtf_body_of_winmail_is_read(tmp_path: Path) -> None:
    content = (
        HEADER + b"Content-Type: application/ms-tnef; name=winmail.dat\n"
        b"Content-Transfer-Encoding: base64\n\n" + base64.encodebytes(tnef(RTF))
    )

    assert imported(tmp_path, content)["body_text"] == "The müller comes on Thursday."
