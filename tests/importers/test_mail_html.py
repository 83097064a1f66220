"""The HTML of a mail is kept for the owner: it reaches no app, no count and no search."""

from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from evidence.models.records import Blob
from evidence.write.record_erasure import delete_record
from importers.mail import mime
from tests.importers.imports import connection, content, latest, one, receipts, run

pytestmark = pytest.mark.django_db

HTML = '<p style="color: #b00">Dear Ida, <b>the teapot</b> arrives. <img src="cid:pot@x"></p>'
PLAIN = "Dear Ida, the teapot arrives on Thursday, and the invoice is attached."
PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)


def mail(plain: str | None = PLAIN, html: str | None = HTML) -> EmailMessage:
    message = EmailMessage()
    message["From"], message["Message-ID"], message["Subject"] = "a@example.org", "<1@x>", "Teapot"
    message["Date"] = "Mon, 05 Jan 2026 09:30:00 +0100"
    if plain is not None:
        message.set_content(plain)
    if html is not None and plain is not None:
        message.add_alternative(html, subtype="html")
    elif html is not None:
        message.set_content(html, subtype="html")
    return message


def with_picture(message: EmailMessage) -> EmailMessage:
    *_, part = message.walk()
    part.add_related(PNG, "image", "png", cid="<pot@x>", filename="pot.png")
    return message


def html_of(record: dict[str, Any]) -> str:
    return content(record["blob_ref"]).decode()


def write(path: Path, *messages: EmailMessage) -> Path:
    start = b"From a@example.org Mon Jan  5 08:30:00 2026\n"
    path.write_bytes(b"\n".join(start + bytes(message) for message in messages))
    return path


def test_html_is_kept_beside_the_plain_text(tmp_path: Path) -> None:
    run(write(tmp_path / "a.mbox", mail()))

    found = one("messages")
    assert html_of(found).strip() == HTML
    assert found["blob_ref"]["media_type"] == "text/html"
    assert (found["body_source"], found["body_text"]) == ("plain", PLAIN)
    assert found["has_attachments"] is False
    assert latest().files == 0


def test_pictures_in_the_text_are_named_by_their_attachment(tmp_path: Path) -> None:
    run(write(tmp_path / "a.mbox", with_picture(mail())))

    picture = one("attachments")
    assert f'src="cid:{picture["id"]}"' in html_of(one("messages"))


def test_plain_parts_between_html_are_shown_as_written(tmp_path: Path) -> None:
    message = mail(plain=None)
    message.make_mixed()
    signature = EmailMessage()
    signature.set_content("<Ida>\nof the list")
    message.attach(signature)
    run(write(tmp_path / "a.mbox", message))

    assert "&lt;Ida&gt;\nof the list" in html_of(one("messages"))


def test_very_long_html_is_cut_with_a_receipt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(write(tmp_path / "a.mbox", mail(html="<p>" + "long text " * 1_000_000)))

    assert len(html_of(one("messages"))) == mime.HTML_MAX_CHARS
    assert {code for code, _ in receipts()} == {"text_cut"}


def test_erasing_a_mail_erases_its_html(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mbox", mail())
    run(path)
    key, pk = one("messages")["id"], connection("Mail").connection_id

    delete_record(pk, stream="messages", record_key=key, suppress=True, now=timezone.now())

    assert not Blob.unscoped.exists()
    run(path)
    assert not Blob.unscoped.exists()
