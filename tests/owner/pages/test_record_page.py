"""The page behind the ``url`` of a search result."""

from urllib.parse import quote

import pytest
from django.contrib.auth.models import User
from django.test import Client

from evidence import item_lines
from evidence.record_ids import RecordRef
from tests.owners import sign_up
from tests.world import WORK, World

PAGE = f"/records/{WORK}/messages/"


@pytest.fixture
def owner(world: World) -> Client:
    client = Client()
    client.force_login(sign_up("alice", password="a long password"))
    return client


def test_the_owner_reads_the_record_as_text(owner: Client) -> None:
    response = owner.get(PAGE + "w2")
    assert response.status_code == 200
    text = response.content.decode()
    assert "Invoice INV-2026/0042" in text
    assert text.count("<script") == 1, "our own"
    assert "default-src 'none'" in response.headers["Content-Security-Policy"]
    assert response.headers["Referrer-Policy"] == "same-origin"
    assert "no-store" in response.headers["Cache-Control"]


def test_anybody_else_is_sent_to_sign_in(owner: Client, client: Client) -> None:
    response = client.get(PAGE + "w2")
    assert response.status_code == 302
    assert response.headers["Location"].startswith("/login?next=/records/")
    client.force_login(
        User.objects.create_user("mallory", password="another password", is_staff=True)
    )
    assert client.get(PAGE + "w2").status_code == 302
    assert owner.post(PAGE + "w2").status_code == 405


@pytest.mark.parametrize("path", [PAGE + "missing", "/records/cin_nowhere/messages/w2"])
def test_what_is_not_there_is_a_page_of_its_own(owner: Client, path: str) -> None:
    assert owner.get(path).status_code == 404


@pytest.mark.parametrize("key", ["a/b", "..", "<b>", "über 100%"])
def test_hostile_keys_and_texts_do_nothing(owner: Client, world: World, key: str) -> None:
    world.put((WORK, "messages", {"id": key, "received_at": "2026-06-01T00:00:00Z",
        "subject": "<script>alert(1)</script>\u202e"}))  # fmt: skip
    response = owner.get(PAGE + quote(key, safe=""))
    assert response.status_code == 200
    text = response.content.decode()
    assert "<script>" not in text
    assert "\u202e" not in text


@pytest.mark.parametrize("key", [".", ".."])
def test_key_that_browsers_remove_from_a_path_is_a_parameter(
    owner: Client, world: World, key: str
) -> None:
    world.put((WORK, "messages", {"id": key, "received_at": "2026-06-01T00:00:00Z",
        "subject": "Dots"}))  # fmt: skip
    url = item_lines.record_url("https://records.example", RecordRef(WORK, "messages", key))

    assert url == f"https://records.example{PAGE}?key={key}"
    assert "Dots" in owner.get(url.removeprefix("https://records.example")).content.decode()
