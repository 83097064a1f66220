"""Messages of unusual form keep their text, links, folder and read state."""

import base64
import zipfile
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from compressed_rtf import compress

from tests.importers.imports import content, receipts, records, run
from tests.importers.torture_kit import read_directly, read_stream

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


PLAIN_HEADER = b"From: Eva <eva@example.org>\nSubject: Tea\nDate: Tue, 13 Jan 2026 14:30:00 +0100"


def test_line_of_blanks_may_end_the_header(tmp_path: Path) -> None:
    (tmp_path / "a.eml").write_bytes(PLAIN_HEADER + b"\n \nThis is the text\nof Eva.\n\nBye\n")
    (message,) = read_stream("eml", tmp_path / "a.eml", "messages")

    assert message["body_text"] == "This is the text\nof Eva.\n\nBye"


def test_line_of_blanks_may_continue_a_field(tmp_path: Path) -> None:
    (tmp_path / "a.eml").write_bytes(PLAIN_HEADER + b"\n \nTo: ida@example.org\n\nBye\n")
    (message,) = read_stream("eml", tmp_path / "a.eml", "messages")

    assert (message["to"], message["body_text"]) == (["ida@example.org"], "Bye")


def test_line_in_a_header_that_is_no_field_has_a_receipt(tmp_path: Path) -> None:
    (tmp_path / "a.eml").write_bytes(PLAIN_HEADER + b"\nThis is no field\nX-A: b\n\nBye\n")
    result = read_directly("eml", tmp_path / "a.eml")

    assert [(str(each.code), each.detail) for each in result.issues] == [
        ("partly_imported", "header: This is no field")
    ]


def test_media_type_may_have_no_semicolon_before_its_charset(tmp_path: Path) -> None:
    path = tmp_path / "a.eml"
    path.write_bytes(
        b'From: Ida <ida@example.org>\nSubject: x\nContent-Type: multipart/mixed; boundary="b"\n\n'
        b'--b\nContent-Type: text/plain\n   charset="koi8-r"\n\n'
        + "ИИИИ".encode("koi8-r")
        + b"\n--b--\n"
    )

    run(path)

    (message,) = records("messages")
    assert (message["body_text"], records("attachments")) == ("ИИИИ", [])


def test_text_that_only_claims_to_be_base64_is_kept(tmp_path: Path) -> None:
    text = b"\nContent-Transfer-Encoding: base64\n\nDear Ida\nsee you at noon\n\nEva Lang\n"
    (tmp_path / "a.eml").write_bytes(PLAIN_HEADER + text)
    (message,) = read_stream("eml", tmp_path / "a.eml", "messages")

    assert message["body_text"] == "Dear Ida\nsee you at noon\n\nEva Lang"


def test_encoded_word_that_is_no_text_is_kept_as_written(tmp_path: Path) -> None:
    word = "=?UTF-8?B?nnDusSNdG92w6Fuw61fMjAxOF8wMy0xMzMyNTMzMTkzLnBkZg==?="
    (tmp_path / "a.eml").write_bytes(PLAIN_HEADER.replace(b"Tea", word.encode()) + b"\n\nBye\n")
    (message,) = read_stream("eml", tmp_path / "a.eml", "messages")

    assert message["subject"] == word


@pytest.mark.parametrize("kind", ["plain", "html"])
def test_alternatives_of_one_type_that_say_something_else_are_both_kept(
    tmp_path: Path, kind: str
) -> None:
    parts = ("The dinner is at eight.", "The dinner is at <i>eight.</i>", "Bring your own chair!")
    content = "".join(f"--b\nContent-Type: text/{kind}\n\n{part}\n" for part in parts)

    message = imported(
        tmp_path,
        HEADER + f"Content-Type: multipart/alternative; boundary=b\n\n{content}--b--\n".encode(),
    )

    assert message["body_text"] == "The dinner is at eight.\n\nBring your own chair!"


def test_report_of_a_server_is_searchable(tmp_path: Path) -> None:
    report = "--b\nContent-Type: message/delivery-status\n\nThe mailbox of Ida is full.\n--b--\n"

    imported(tmp_path, HEADER + f"Content-Type: multipart/report; boundary=b\n\n{report}".encode())

    (attachment,) = records("attachments")
    assert attachment["text"] == "The mailbox of Ida is full."


@pytest.mark.parametrize("plain", ["Your parcel 4711 was sent.", "Something else entirely. " * 60])
def test_plain_text_and_html_that_say_different_things_are_both_kept(
    tmp_path: Path, plain: str
) -> None:
    text = imported(tmp_path, alternative(plain, HTML))["body_text"]

    assert text.startswith(plain.strip())
    assert "blue teapot" in text


PDF = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n1 0 obj\n<<>>\nstream\n\x01\x02\nendstream\nendobj\n"


@pytest.mark.parametrize("declared", ["text/html", "text/plain; charset=utf-8"])
@pytest.mark.parametrize(
    ("file", "media_type"),
    [
        (PDF, "application/pdf"),
        (b"PK\x03\x04" + bytes(range(256)) * 4, "application/zip"),
        (bytes(range(256)) * 4, "application/octet-stream"),
        (b"\xd0\xcf\x11\xe0" + bytes(600), "application/octet-stream"),
    ],
    ids=["pdf", "zip", "any", "nul"],
)
def test_file_that_is_labelled_as_text_is_an_attachment(
    tmp_path: Path, declared: str, file: bytes, media_type: str
) -> None:
    part = f"Content-Type: {declared}\nContent-Transfer-Encoding: base64\n\n".encode()
    mail = (
        HEADER
        + b'Content-Type: multipart/mixed; boundary="b"\n\n--b\n\nSee the file.\n--b\n'
        + part
        + base64.encodebytes(file)
        + b"--b--\n"
    )

    message = imported(tmp_path, mail)

    (attachment,) = records("attachments")
    assert message["body_text"] == "See the file."
    assert attachment["media_type"] == media_type
    assert content(attachment["blob_ref"]) == file


@pytest.mark.parametrize(
    ("charset", "body"),
    [
        ("utf-16", "Grüße aus Köln".encode("utf-16")),
        ("utf-16le", "Grüße aus Köln".encode("utf-16-le")),
        ("utf-8", "Grüße\x01 aus\0 Köln, wo es heute den ganzen Tag lang regnet".encode()),
    ],
)
def test_text_with_nul_bytes_or_few_control_characters_remains_text(
    tmp_path: Path, charset: str, body: bytes
) -> None:
    part = f"Content-Type: text/plain; charset={charset}\nContent-Transfer-Encoding: base64\n\n"

    message = imported(tmp_path, HEADER + part.encode() + base64.encodebytes(body))

    assert message["body_text"].startswith("Grüße")
    assert not message["has_attachments"]
