"""Attachments, pictures and documents: shown where they are safe, and otherwise downloads."""

import copy
import email
import email.policy
import json
from typing import Any

import pytest

from evidence.ledger.disclosures import disclosures_of_record, read_disclosures
from evidence.write.blobs import put_blob
from owner.text import file_type_text
from tests.owner.pages.browser import Browser
from tests.world import NOW, PERSONAL, World

POST: dict[str, Any] = {
    "protocol_version": "0.1.0",
    "connector_id": "https://registry.example/connectors/post",
    "connector_key": "post",
    "version": "1.0.0",
    "display_name": "Post",
    "streams": [
        {
            "name": "letters",
            "semantics": "mutable_state",
            "schema": {"type": "object", "required": ["id"], "properties": {
                "id": {"type": "string"},
                "subject": {"type": "string", "x_pdpp_role": "primary-title"}}},
            "primary_key": ["id"],
            "selection": {"fields": True, "resources": True},
            "relationships": [{"name": "enclosures", "stream": "enclosures",
                               "foreign_key": "letter", "cardinality": "has_many"}],
            "query": {"expand": [{"name": "enclosures", "default_limit": 1, "max_limit": 20}]},
        },
        {
            "name": "enclosures",
            "semantics": "mutable_state",
            "schema": {"type": "object", "required": ["id"], "properties": {
                "id": {"type": "string"}, "letter": {"type": "string"},
                "filename": {"type": "string", "x_pdpp_role": "primary-title"},
                "media_type": {"type": "string"}, "size_bytes": {"type": "integer"},
                "blob_ref": {"type": ["object", "null"]}}},
            "primary_key": ["id"],
            "selection": {"fields": True, "resources": True},
        },
    ],
}  # fmt: skip
PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)
FILES = {
    "photo.png": ("image/png", PNG),
    "page.html": ("text/html", b"<script>alert(1)</script>"),
    "bill.pdf": ("application/pdf", b"%PDF-1.4"),
}


@pytest.fixture
def post(world: World) -> str:
    """A letter with three files."""
    world.declare(POST)
    world.connect("cin_post", "post", "Post")
    world.put(("cin_post", "letters", {"id": "l1", "subject": "With files"}))
    for name, (media_type, content) in FILES.items():
        key, blob_id = name.partition(".")[0], f"blb_{name.partition('.')[0]}"
        world.put(("cin_post", "enclosures", {
            "id": key, "letter": "l1", "filename": name, "media_type": media_type,
            "size_bytes": len(content), "blob_ref": {"blob_id": blob_id}}))  # fmt: skip
        put_blob("cin_post", stream="enclosures", record_key=key, media_type=media_type,
                 chunks=[content], now=NOW, blob_id=blob_id)  # fmt: skip
    return "/records/cin_post"


def test_a_mail_shows_its_pictures_and_names_all_its_files(post: str, alice: Browser) -> None:
    page = alice.open(f"{post}/letters/l1")

    pictures = [given["src"] for tag, given in page.elements if tag == "img"]
    assert pictures == ["/files/cin_post/blb_photo"]
    assert {"Open bill.pdf , 8 bytes", "Open page.html , 25 bytes"} <= {
        words.replace("\xa0", " ").replace("pdf,", "pdf ,").replace("html,", "html ,")
        for words, _ in page.links
    }


def test_types_of_files_are_words(post: str, alice: Browser) -> None:
    page = alice.open(f"{post}/enclosures/bill")

    assert "8 bytes, PDF" in page.text.replace("\xa0", " ")
    assert "Media type PDF" in page.text
    assert file_type_text("application/x-unknown") == "application/x-unknown"


def test_a_picture_is_shown_on_its_page_and_opens(post: str, alice: Browser) -> None:
    page = alice.open(f"{post}/enclosures/photo")

    answer = alice.http.get(page.link("Open the file"))
    assert b"".join(answer) == PNG
    assert answer.headers["Content-Disposition"] == 'inline; filename="photo.png"'
    assert "<img" in page.html


def test_a_file_that_a_browser_could_run_is_a_download(post: str, alice: Browser) -> None:
    page = alice.open(f"{post}/enclosures/page")

    answer = alice.http.get(page.link("Open the file"))
    assert answer.headers["Content-Disposition"] == 'attachment; filename="page.html"'
    assert answer.headers["Content-Security-Policy"] == "default-src 'none'; sandbox"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "no-store" in answer.headers["Cache-Control"]
    assert "<img" not in page.html


def test_an_opened_file_is_on_record(post: str, alice: Browser) -> None:
    alice.http.get("/files/cin_post/blb_bill")

    assert "You 1 time" in alice.open(f"{post}/enclosures/bill").text


@pytest.mark.parametrize("path", ["cin_post/blb_none", "cin_none/blb_bill"])
def test_a_file_that_is_not_there_is_not_found(post: str, alice: Browser, path: str) -> None:
    assert alice.http.get(f"/files/{path}").status_code == 404


def test_records_are_exported_as_json_lines_and_recorded(world: World, alice: Browser) -> None:
    def exported(address: str) -> list[str]:
        answer = alice.http.get(address)
        assert answer["Content-Disposition"] == 'attachment; filename="messages.jsonl"'
        lines = b"".join(answer.streaming_content).splitlines()
        return [json.loads(line)["data"]["id"] for line in lines]

    page = alice.open(f"/records/{PERSONAL}/messages/")
    assert exported(page.link("Export all as JSON lines"))[:2] == ["m0", "m1"]
    one = alice.open(f"/records/{PERSONAL}/messages/m1").link("Export as JSON")
    assert exported(one) == ["m1"]
    [latest, *_] = read_disclosures(disclosures_of_record(PERSONAL, "messages", "m1"))
    assert latest.route == "admin export"


@pytest.fixture
def mailbox(world: World, post: str) -> str:
    """A mail as the importer stores it: addresses, text, HTML with a picture, and a PDF file."""
    post_with_senders = copy.deepcopy(POST)
    post_with_senders |= {"version": "1.1.0"}
    post_with_senders["streams"][0]["schema"]["properties"] |= {
        "by": {"type": "string", "x_pdpp_role": "actor"},
        "by_address": {"type": "string", "x_pdpp_role": "address"},
        "to": {"type": "array", "items": {"type": "string"}, "x_pdpp_role": "participant"},
        "cc": {"type": "array", "items": {"type": "string"}, "x_pdpp_role": "participant"},
        "internet_message_id": {"type": "string"},
        "sent": {"type": "string", "format": "date-time", "x_pdpp_role": "event-time"},
        "words": {"type": "string", "x_pdpp_role": "secondary", "x_pdpp_type": "text"},
        "look": {"type": "string", "contentMediaType": "text/html"},
    }
    post_with_senders["streams"][0] |= {"consent_time_field": "sent"}
    world.declare(post_with_senders)
    world.put(("cin_post", "letters", {
        "id": "l1", "subject": "Grüße\r\nBcc: mallory@example.org", "by": "Jürgen Ott",
        "by_address": "ott@example.org", "to": ["Ida <ida@example.org>", "bo@example.org"],
        "cc": ["eva@example.org"], "internet_message_id": "<1@example.org>",
        "sent": "2026-05-01T08:00:00Z", "words": "Für dich", "look": '<img src="cid:photo">'}))  # fmt: skip
    return f"{post}/letters/l1"


def test_a_mail_is_exported_as_a_mail_file(mailbox: str, alice: Browser) -> None:
    answer = alice.http.get(alice.open(mailbox).link("Export as .eml"))

    assert answer["Content-Type"] == "message/rfc822"
    assert answer["Content-Disposition"].startswith("attachment; filename")
    mail = email.message_from_bytes(answer.content, policy=email.policy.default)
    assert mail["From"] == "Jürgen Ott <ott@example.org>"
    assert (mail["To"], mail["Cc"]) == ("Ida <ida@example.org>, bo@example.org", "eva@example.org")
    assert (mail["Subject"], mail["Bcc"]) == ("Grüße Bcc: mallory@example.org", None)
    assert mail["Date"].datetime.isoformat() == "2026-05-01T08:00:00+00:00"
    assert (mail["Message-ID"], mail["Comments"][:7]) == ("<1@example.org>", "Rebuilt")
    plain, html = (mail.get_body((kind,)) for kind in ("plain", "html"))
    assert plain is not None
    assert html is not None
    assert (plain.get_content().strip(), html.get_content().strip()) == (
        "Für dich", '<img src="cid:photo">')  # fmt: skip
    parts = {each.get_filename(): each for each in mail.walk() if each.get_filename()}
    assert {name: part.get_content() for name, part in parts.items()} == {
        "photo.png": PNG, "page.html": "<script>alert(1)</script>", "bill.pdf": b"%PDF-1.4",
    }  # fmt: skip
    assert parts["photo.png"]["Content-ID"] == "<photo>"
    [latest, *_] = read_disclosures(disclosures_of_record("cin_post", "enclosures", "bill"))
    assert latest.route == "admin export"


def test_a_mail_whose_file_is_not_stored_is_not_exported(
    mailbox: str, world: World, alice: Browser
) -> None:
    world.put(("cin_post", "enclosures", {"id": "film", "letter": "l1", "filename": "film.mp4"}))

    page = alice.open(alice.open(mailbox).link("Export as .eml"))

    assert "This mail cannot be exported whole: its file “film.mp4” is not stored." in page.text


def test_what_is_no_mail_has_no_mail_file(post: str, alice: Browser) -> None:
    page = alice.open(f"{post}/letters/l1")

    assert not page.has_link("Export as .eml")
    assert alice.http.get("/mail/cin_post/letters?key=l1").status_code == 404
    assert alice.http.get("/mail/cin_post/letters?key=none").status_code == 404
