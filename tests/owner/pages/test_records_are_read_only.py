"""Records are looked at; nothing here changes one."""

import pytest

from evidence.models.connections import Connection
from owner.records.record_summaries import record_url, stream_url
from tests.owner.pages.browser import Browser, Page
from tests.world import PERSONAL, World

HOSTILE = "<script>alert(1)</script><a href='javascript:x'>free\u202egnp.exe</a>\x1b[31m"


def open_list(browser: Browser, connection: str, stream: str = "messages") -> Page:
    return browser.open(stream_url(connection, stream))


def open_one(browser: Browser, key: str) -> Page:
    return browser.open(record_url(PERSONAL, "messages", key))


def test_a_record_shows_its_fields(world: World, alice: Browser) -> None:
    page = open_one(alice, "m1")

    assert "Lease signed" in page.text
    assert "Size size_bytes 2.0 KB Stored value of Size 2000" in " ".join(page.text.split())
    assert "Labels labels home" in page.text
    assert "Dear Alice, we signed the lease for Lindenstraße 12 today." in page.text


def test_what_a_record_says_is_shown_as_text_and_does_nothing(world: World, alice: Browser) -> None:
    world.put((PERSONAL, "messages", {"id": "h/../1?", "subject": HOSTILE, "body_text": HOSTILE,
                                      "received_at": "2026-05-01T00:00:00Z"}))  # fmt: skip

    listed = open_list(alice, PERSONAL)
    for page in (open_one(alice, "h/../1?"), listed):
        assert (
            "<script>alert(1)</script><a href='javascript:x'>free⟨U+202E⟩gnp.exe</a>" in page.text
        )
        assert "⟨U+001B⟩[31m" in page.text
        assert "\u202e" not in page.html
        assert "<script>alert" not in page.html
        assert all("javascript:" not in at for _, at in page.links)
    assert any(at.endswith("/messages/h%2F..%2F1%3F") for _, at in listed.links)


def test_a_very_long_field_is_cut_and_shown_whole_on_demand(world: World, alice: Browser) -> None:
    world.put((PERSONAL, "messages", {"id": "long", "body_text": "word " * 5000 + "the end"}))

    page = open_one(alice, "long")

    assert "the end" not in page.text
    assert "22007 more characters are not shown." in page.text
    assert "the end" in alice.open(page.link("Show everything")).text


@pytest.mark.parametrize("key", ["none", "m1 ", "w2"])
def test_a_record_that_is_not_there_is_said_not_to_be(
    world: World, alice: Browser, key: str
) -> None:
    page = open_one(alice, key)

    assert page.status == 404
    assert "No such record" in page.text


@pytest.mark.parametrize(
    ("connection", "stream"),
    [("cin_none", "messages"), (PERSONAL, "transactions"), (PERSONAL, "none")],
)
def test_a_place_that_is_not_there_is_not_found(
    world: World, alice: Browser, connection: str, stream: str
) -> None:
    assert open_list(alice, connection, stream).status == 404


def test_an_ended_connection_is_closed_here_too(world: World, alice: Browser) -> None:
    Connection.unscoped.filter(pk=PERSONAL).update(status="revoked")

    assert open_one(alice, "m1").status == 404
    assert open_list(alice, PERSONAL).status == 404


def test_no_page_of_records_has_anything_to_send(world: World, alice: Browser) -> None:
    for page in (open_one(alice, "m1"), open_list(alice, PERSONAL)):
        assert page.own_forms == []
    for model in ("record", "recordchange", "searchtext", "blob"):
        assert alice.open(f"/admin/evidence/{model}/").status == 404
