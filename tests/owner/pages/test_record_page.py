"""The page behind the ``url`` of a search result."""

import pytest
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


@pytest.mark.parametrize("key", [".", ".."])
def test_key_that_browsers_remove_from_a_path_is_a_parameter(
    owner: Client, world: World, key: str
) -> None:
    world.put((WORK, "messages", {"id": key, "received_at": "2026-06-01T00:00:00Z",
        "subject": "Dots"}))  # fmt: skip
    url = item_lines.record_url("https://records.example", RecordRef(WORK, "messages", key))

    assert url == f"https://records.example{PAGE}?key={key}"
    assert "Dots" in owner.get(url.removeprefix("https://records.example")).content.decode()
