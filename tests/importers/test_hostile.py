"""Importers parse arbitrary content without errors."""

import io
import mailbox
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from importers.core.export_files import open_export
from importers.core.importer import Options
from importers.core.results import ReceiptCode
from importers.core.source import ProblemCode
from importers.core.text import decode, html_to_text
from importers.mail.mailboxes import MBOX, iter_mbox
from importers.mail.mime import decode_encoded_words
from importers.mail.records import MailboxMetadata, parse_message
from tests.importers.imports import TORTURE, read_all

FILES = sorted(
    path
    for path in TORTURE.rglob("*")
    if path.suffix != ".mbox" and path.is_file() and path.stat().st_size
)
quick = settings(suppress_health_check=list(HealthCheck), max_examples=10)


@pytest.mark.slow
@quick
@given(data=st.data())
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_damaged_files_are_parsed_to_the_end(
    tmp_path: Path, path: Path, data: st.DataObject
) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(content) - 1))
        patch = data.draw(
            st.sampled_from([b"\0", b"\xff\xfe", b"<", b"\n\n", b'"', b"9" * 40, b""])
        )
        content[at : at + data.draw(st.integers(0, 40))] = patch
        if not content:
            break
    damaged = tmp_path / path.name
    damaged.write_bytes(content)

    read_all(damaged)


@quick
@given(st.binary(max_size=4000))
@example(b"Content-Type: multipart/mixed; boundary=\n\n--\n--\n")
@example(b"Content-Type: multipart/mixed; boundary==?x?=\n\n--=?x?=\n\n")
@example(b"From: =?utf-8?B?=?= <@>\nDate: Mon, 99 Xyz 99999 99:99:99 +9999\n\n")
@example(b"Content-Type: text/plain; charset*=utf-8''%ff; charset*0*=x''\n\nx")
def test_arbitrary_bytes_parse_as_message(raw: bytes) -> None:
    item = parse_message(raw, MailboxMetadata())

    assert item.records[0].stream == "messages"
    for record in item.records:
        for value in record.data.values():
            if isinstance(value, str):
                value.encode()
                assert "\0" not in value


@quick
@given(
    st.binary(), st.sampled_from([None, "utf-8", "latin-1", "utf-16", "utf-7", "x", "hz", "idna"])
)
def test_arbitrary_bytes_decode_to_text(content: bytes, charset: str | None) -> None:
    html_to_text(decode(content, charset)).encode()
    decode_encoded_words(content.decode("latin-1")).encode()


TEXT = st.text(st.characters(exclude_categories=["C"], exclude_characters="\x85\u2028\u2029"))
LINES = st.lists(TEXT.map(str.strip), min_size=1, max_size=6).map("\n".join)


@st.composite
def mails(draw: st.DrawFn) -> EmailMessage:
    mail = EmailMessage()
    mail["Subject"] = " ".join(draw(TEXT).split())
    mail["From"] = "someone@example.org"
    mail["Message-ID"] = f"<{draw(st.uuids())}@example.org>"
    body = draw(st.sampled_from(["From me to you, Mon Jan  5 08:30:00 2026\n", ""])) + draw(LINES)
    mail.set_content(body, cte=draw(st.sampled_from(["base64", "quoted-printable", "8bit"])))
    if draw(st.booleans()):
        mail.add_attachment(draw(LINES), filename="note.txt")
    return mail


@quick
@given(st.lists(mails(), min_size=1, max_size=5))
def test_written_messages_are_parsed_unchanged(tmp_path: Path, written: list[EmailMessage]) -> None:
    path = tmp_path / "box.mbox"
    path.unlink(missing_ok=True)
    box = mailbox.mbox(path)
    for mail in written:
        box.add(mail.as_bytes(policy=SMTP.clone(linesep="\n")))
    box.close()

    items = MBOX.read(open_export(path).files, Options())
    parsed = [item.parse().records for item in items]

    assert [records[0].data["subject"] or "" for records in parsed] == [
        " ".join(str(mail["Subject"]).split()) for mail in written
    ]
    for mail, records in zip(written, parsed, strict=True):
        (body, *attached) = [part.get_content() for part in mail.walk() if not part.is_multipart()]
        assert (records[0].data["body_text"] or "").strip() == body.strip()
        assert [(record.data["text"] or "").strip() for record in records[1:]] == [
            text.strip() for text in attached
        ]


def test_message_after_oversized_message_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importers.mail.mailboxes.MESSAGE_MAX_BYTES", 300_000)
    monkeypatch.setattr("importers.mail.mailboxes.BLOCK_BYTES", 1_000)
    line = b"From a@example.org Mon Jan  5 08:30:00 2026\n"
    content = (
        line + b"Subject: long\n\n" + b"x" * 900_000 + b"\n\n" + line + b"Subject: short\n\ny\n"
    )

    long, short = iter_mbox(io.BytesIO(content))

    assert long.raw is None
    assert short.raw == b"Subject: short\n\ny\n"
    assert short.offset == content.rindex(b"From a@")
    assert long.size + short.size == len(content)


def test_every_receipt_code_has_texts() -> None:
    assert all(code.text.problem.endswith(".") for code in ReceiptCode)
    assert all(code.text.next_step.endswith(".") for code in ReceiptCode)
    assert all(code.text.next_step.endswith(".") for code in ProblemCode)
