"""Mail as other programs write it: zones, names, encodings, flowed text and separators."""

from email import message_from_bytes
from email.policy import default
from pathlib import Path
from typing import Any

import pytest

from tests.importers.imports import one, receipts, records, run
from tests.importers.torture_kit import read_stream

pytestmark = pytest.mark.django_db

HEADER = {"From": "Eva <eva@example.org>", "Date": "Tue, 13 Jan 2026 14:30:00 +0100"}


def mail(body: str = "hi", *lines: str, **fields: str) -> bytes:
    values = HEADER | {name.replace("_", "-"): value for name, value in fields.items()}
    header = [f"{name}: {value}" for name, value in values.items()]
    return "\r\n".join([*header, *lines, "", body]).encode()


def read_mail(tmp_path: Path, raw: bytes) -> dict[str, Any]:
    path = tmp_path / "a.eml"
    path.write_bytes(raw)
    (message,) = read_stream("eml", path, "messages")
    return message


def import_mail(tmp_path: Path, raw: bytes) -> dict[str, Any]:
    path = tmp_path / "a.eml"
    path.write_bytes(raw)
    run(path)
    return one("messages")


def test_unknown_zone_of_a_mail_has_a_receipt(tmp_path: Path) -> None:
    raw = mail(Date="Tue, 13 Jan 2026 14:30:00 XYZ")

    assert import_mail(tmp_path, raw)["received_at"] == "2026-01-13T14:30:00Z"
    assert {code for code, _ in receipts()} == {"unknown_time_zone"}


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("Eva @ Home <eva@example.org>", "Eva @ Home"),
        ("Eva [Acme] <eva@example.org>", "Eva [Acme]"),
        ("other@example.org <eva@example.org>", "other@example.org"),
        ('"Lang, Eva" <eva@example.org>', "Lang, Eva"),
        ("eva@example.org (Eva Lang)", "Eva Lang"),
        ("=?utf-8?Q?Lang=2C_Eva?= <eva@example.org>", "Lang, Eva"),
    ],
)
def test_sender_is_the_address_in_angle_brackets(tmp_path: Path, written: str, name: str) -> None:
    message = read_mail(tmp_path, mail(From=written))

    assert (message["from_name"], message["from_email"]) == (name, "eva@example.org")


@pytest.mark.parametrize(
    ("written", "name", "address"),
    [
        ("Eva Lang e@x.org", "Eva Lang", "e@x.org"),
        ('"Lang, Eva" e@x.org', "Lang, Eva", "e@x.org"),
        ("=?utf-8?Q?Lang=2C_Eva?= e@x.org", "Lang, Eva", "e@x.org"),
        ("Dr. Eva Lang e@x.org (home)", "Dr. Eva Lang", "e@x.org"),
        ("Eva e@x.org Lang", "Eva e@x.org Lang", None),
        ("a@x.org e@x.org", "a@x.org e@x.org", None),
        ("Eva Lang @x.org", "Eva Lang @x.org", None),
        ("Eva Lang", "Eva Lang", None),
        ('"Eva Lang"@x.org', None, '"eva lang"@x.org'),
        ("e @ x.org", None, "e@x.org"),
        ("root", None, "root"),
    ],
)
def test_address_without_angle_brackets(
    tmp_path: Path, written: str, name: str | None, address: str | None
) -> None:
    raw = mail(From=written, To=f"{written}, b@x.org", Cc=f"team: {written}; d@x.org")

    message = read_mail(tmp_path, raw)

    assert (message["from_name"], message["from_email"]) == (name, address)
    assert message["to"] == [address or name, "b@x.org"]
    assert message["cc"] == [address or name, "d@x.org"]


def test_further_authors_of_a_mail_have_a_receipt(tmp_path: Path) -> None:
    message = import_mail(tmp_path, mail(From="Eva <eva@x.org>, Jo <jo@x.org>"))

    assert message["from_email"] == "eva@x.org"
    assert receipts() == {("partly_imported", "a.eml")}


def test_second_field_of_the_author_has_a_receipt(tmp_path: Path) -> None:
    message = import_mail(tmp_path, mail("hi", "From: Jo <jo@x.org>", From="Eva <eva@x.org>"))

    assert message["from_email"] == "eva@x.org"
    assert receipts() == {("partly_imported", "a.eml")}


def test_all_fields_of_recipients_count(tmp_path: Path) -> None:
    raw = mail(
        "hi", "To: a@x.org, Bob @ Work <b@x.org>", "To: c@x.org", "Cc: d@x.org", "Cc: e@x.org",
        "Bcc: f@x.org", "Reply-To: Desk <desk@x.org>", "Reply-To: g@x.org",
    )  # fmt: skip

    message = read_mail(tmp_path, raw)

    assert message["to"] == ["a@x.org", "b@x.org", "c@x.org"]
    assert message["cc"] == ["d@x.org", "e@x.org"]
    assert (message["bcc"], message["reply_to"]) == (["f@x.org"], ["desk@x.org", "g@x.org"])


def test_names_of_recipients_are_kept_beside_their_addresses(tmp_path: Path) -> None:
    message = import_mail(
        tmp_path,
        mail(
            To='"Lindqvist, Ida" <ida@x.org>, b@x.org, Team',
            Cc="=?utf-8?q?Andr=C3=A9?= <andre@x.org>, Ida Lindqvist <ida@x.org>",
            Bcc='"Lindqvist, Ida" <ida@home.org>',
        ),
    )

    assert message["recipient_names"] == ["Lindqvist, Ida", "André", "Ida Lindqvist"]
    assert message["to"] == ["ida@x.org", "b@x.org", "team"]


def test_names_beside_the_addresses_for_answers_are_kept(tmp_path: Path) -> None:
    reply_to = '"Desk, North" <desk@x.org>, b@x.org, =?utf-8?q?Andr=C3=A9?= <andre@x.org>'

    message = import_mail(tmp_path, mail(Reply_To=reply_to))

    assert message["reply_to"] == ["desk@x.org", "b@x.org", "andre@x.org"]
    assert message["reply_to_names"] == ["Desk, North", "André"]


@pytest.mark.parametrize(
    ("content_type", "encoding", "body", "expected"),
    [
        ("text/plain; format=flowed", "7bit", "A long \r\nline.\r\n> said \r\n> he\r\n-- \r\nEva",
         "A long line.\n> said he\n-- \nEva"),
        ("text/plain; format=flowed; delsp=yes", "7bit", "Donau \r\ndampf", "Donaudampf"),
        ("text/plain; format=flowed", "7bit", "a\r\n From b\r\n >c", "a\nFrom b\n>c"),
        ("text/plain", "quoted-printable", "a=  \r\nb =3D c", "ab = c"),
        ("text/enriched", "7bit",
         "<bold>Hi</bold> Eva,\r\n1 << 2<FontFamily><param>Arial</param>\r\n\r\nb</FontFamily>",
         "Hi Eva, 1 < 2\nb"),
        ("text/enriched", "7bit", "a <e@x.org>, 3 < 4\r\n<nofill>b\r\nc</nofill>",
         "a <e@x.org>, 3 < 4 b\nc"),
        ("text/enriched", "7bit", "<param>kept", "kept"),
        ("text/enriched; charset=utf-8", "quoted-printable", "<italic>H=C3=B6he</italic>", "Höhe"),
        ("text/richtext", "7bit", "<bold>a</bold><comment>x</comment>\r\n<lt>b<nl>c", "a <b\nc"),
        ("text/plain", "7bit", "<bold>Hi</bold>", "<bold>Hi</bold>"),
        ("text/plain; charset=utf-8", '"base64"', "SMO2aGU=", "Höhe"),
        ("text/plain; charset=utf-8", "base64 (encoded)", "SMO2aGU=", "Höhe"),
    ],
)  # fmt: skip
def test_body_is_decoded(
    tmp_path: Path, content_type: str, encoding: str, body: str, expected: str
) -> None:
    raw = mail(body, Content_Type=content_type, Content_Transfer_Encoding=encoding)

    assert read_mail(tmp_path, raw)["body_text"] == expected


@pytest.mark.parametrize(
    "disposition",
    [
        "filename=\"Hoehe.bin\"; filename*=utf-8''H%C3%B6he.bin",
        "filename*0*=utf-8''H%C3; filename*1*=%B6he; filename*2=.bin",
        'filename="=?utf-8?Q?H=C3=B6he.bin?="',
    ],
)
def test_name_of_an_attachment(tmp_path: Path, disposition: str) -> None:
    raw = mail(
        "x", Content_Type="application/x-y", Content_Disposition=f"attachment; {disposition}"
    )

    import_mail(tmp_path, raw)

    assert [record["filename"] for record in records("attachments")] == ["Höhe.bin"]


@pytest.mark.parametrize(
    ("body", "text", "files"),
    [
        ("R0lGODlhAQABAAAAACw=", "", ["image/gif"]),  # GIF89a and zeros
        ("SGVsbG8gRXZh", "Hello Eva", []),
    ],
)
def test_mail_of_a_single_file_has_an_attachment(
    tmp_path: Path, body: str, text: str, files: list[str]
) -> None:
    raw = mail(body, Content_Type="image/gif", Content_Transfer_Encoding="base64")

    message = import_mail(tmp_path, raw)

    assert (message["body_text"] or "", message["has_attachments"]) == (text, bool(files))
    assert [record["media_type"] for record in records("attachments")] == files


def test_digest_has_messages(tmp_path: Path) -> None:
    body = "--X\r\n\r\nSubject: one\r\n\r\nfirst\r\n--X\r\n\r\nSubject: two\r\n\r\nsecond\r\n--X--"

    import_mail(tmp_path, mail(body, Content_Type="multipart/digest; boundary=X"))

    names = {record["filename"]: record["media_type"] for record in records("attachments")}
    assert names == {"one": "message/rfc822", "two": "message/rfc822"}


SEPARATOR = "From eva@example.org Tue Jan 13 13:30:00 2026\n"
MESSAGE = "From: eva@example.org\nMessage-ID: <{}@x>\n\n{}\n"
ONE, TWO = MESSAGE.format(1, "first"), MESSAGE.format(2, "second")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (f"{SEPARATOR}{ONE}{SEPARATOR}{TWO}", ["first", "second"]),
        (f"{SEPARATOR}{ONE}\n{SEPARATOR}{TWO}", ["first", "second"]),
        (f"{SEPARATOR}{ONE}\n{SEPARATOR}is in the text\n\n{SEPARATOR}{TWO}",
         [f"first\n\n{SEPARATOR}is in the text", "second"]),
        ("From a@x.org 2026-01-13 13:30:00\n" + ONE, ["first"]),
        (f"{SEPARATOR}{ONE}\n{SEPARATOR}{TWO}".replace("\n", "\r\n"), ["first", "second"]),
    ],
)  # fmt: skip
def test_mailbox_is_divided_where_messages_begin(
    tmp_path: Path, content: str, expected: list[str]
) -> None:
    path = tmp_path / "a.mbox"
    path.write_bytes(content.encode())

    run(path)

    assert sorted(record["body_text"] for record in records("messages")) == expected


@pytest.mark.parametrize(
    "subject",
    [
        "=?utf-8?B?SMO2?= =?utf-8?B?aGU=?=",
        "=?utf-8?Q?Caf=C3=A9?= =?iso-8859-1?Q?_f=FCr?= alle",
        "=?utf-8*de?Q?=C3=A4?=",
        "=?windows-1251?B?z/Do4uXy?=",
        "=?iso-2022-jp?B?GyRCRnxLXBsoQg==?=",
        "Re: =?utf-8?Q?a=3Db?= c",
    ],
)
def test_subject_is_decoded_as_by_the_standard_library(tmp_path: Path, subject: str) -> None:
    raw = mail(Subject=subject)

    assert read_mail(tmp_path, raw)["subject"] == message_from_bytes(raw, policy=default)["Subject"]


def test_long_subjects_and_lists_of_people_have_a_receipt(tmp_path: Path) -> None:
    people = ", ".join(f"p{number}@example.org" for number in range(600))
    head = "Date: Mon, 5 Jan 2026 08:30:00 +0000\nFrom: a@example.org\n"
    for name, field in (("a", f"Subject: {'word ' * 300}"), ("b", f"To: {people}")):
        (tmp_path / f"{name}.eml").write_text(f"{head}{field}\n\ntext\n")

    run(tmp_path)

    assert receipts() == {("text_cut", "a.eml"), ("text_cut", "b.eml")}


@pytest.mark.parametrize("blanks", [b" " * 80 + b"\r\n", b"\r\n \t\r\n\r\n"])
def test_lines_of_blanks_before_the_header_are_skipped(tmp_path: Path, blanks: bytes) -> None:
    message = import_mail(tmp_path, blanks + mail("Dear all", Subject="Plan"))

    assert (message["subject"], message["from_email"]) == ("Plan", "eva@example.org")
    assert message["body_text"] == "Dear all"
    assert receipts() == set()
