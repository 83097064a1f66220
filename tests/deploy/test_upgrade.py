"""A database of the first release, served by today's code: it migrates it, and everything is there."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest

from tests.deploy.servers import database, one_of_several
from tests.pdpp_site.web import free_port
from tests.world import BANK, PERSONAL, RECORDS

FIRST = Path(__file__).parent / "releases/first.sql"
TOKENS = {
    "alice": "pdpp_own_Wa23tsOGqwIg8iXaCN9Cl8HNnjqq5ZcAwrHs3UX67CM",
    "bob": "pdpp_at_qwknvAde3xmQbguLYL6yRISRJ4ZSQh_tdyiUehtHi-U",
    "charlie": "pdpp_at_zg9E_D9dyO94izF-FiYOTekW-IrdgKSSn0Fcwgkulx4",
    "dora@mcp": "pdpp_at_sJYVqeAboo0T8ou2vmnF-P0Ex5jhGgO7F2BL-OIakCg",
}
"""As that release gave them, under the key of these tests; they open nothing else."""


class Upgraded:
    """The server on that database."""

    def __init__(self, client: httpx2.Client) -> None:
        self._client = client

    def get(self, path: str, who: str, **query: str) -> Any:
        headers = {"Authorization": f"Bearer {TOKENS[who]}"}
        answer = self._client.get(path, params=query, headers=headers)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def search(self, q: str) -> Any:
        call = {
            "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "search", "arguments": {"q": q}},
        }  # fmt: skip
        accepted = {"Accept": "application/json, text/event-stream"}
        headers = {"Authorization": f"Bearer {TOKENS['dora@mcp']}", **accepted}
        answer = self._client.post("/mcp", json=call, headers=headers)
        assert answer.status_code == 200, answer.text
        return answer.json()["result"]["structuredContent"]


@pytest.fixture(scope="module")
def upgraded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upgraded]:
    with database() as url:
        with psycopg.connect(url) as connection:
            connection.execute(FIRST.read_text().encode())
        port, var = free_port(), tmp_path_factory.mktemp("var")
        with (
            one_of_several(var, port=port, url=url),
            httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client,
        ):
            yield Upgraded(client)


def ids(body: Any) -> list[str]:
    return [each["id"] for each in body["data"]]


def test_what_was_stored_and_granted_then_is_read_now(upgraded: Upgraded) -> None:
    everything = upgraded.get(
        "/v1/streams/messages/records", "alice", connection_id=PERSONAL, limit="100"
    )
    stored = {row["id"] for at, stream, row in RECORDS if (at, stream) == (PERSONAL, "messages")}
    assert set(ids(everything)) == stored
    changed = next(each for each in everything["data"] if each["id"] == "m1")
    assert changed["data"]["subject"] == "Lease signed at last"

    bobs = upgraded.get("/v1/streams/messages/records", "bob", connection_id=PERSONAL)
    assert "m0" not in ids(bobs)
    assert all("size_bytes" not in each["data"] for each in bobs["data"])

    money = upgraded.get(
        "/v1/streams/transactions/records", "charlie", **{"filter[amount][gt]": "0"}
    )
    assert {each["connection_id"] for each in money["data"]} == {BANK}
    assert set(ids(money)) == {"b2", "b3"}


def test_search_finds_in_texts_that_were_indexed_then(upgraded: Upgraded) -> None:
    hits = upgraded.get("/v1/search", "bob", q="lindenstraße deposit")

    assert [hit["record_key"] for hit in hits["data"]] == ["m1"]
    assert hits["data"][0]["evidence_excerpts"]
    assert upgraded.search("lindenstraße deposit")["results"]


def test_a_feed_goes_back_to_the_beginning(upgraded: Upgraded) -> None:
    feed = upgraded.get("/v1/streams/messages/records", "alice", connection_id=PERSONAL,
                        changes_since="beginning", limit="100")  # fmt: skip

    assert {"m0", "m1", "m2", "m3", "m4"} == set(ids(feed))


def test_relations_that_came_later_reach_records_from_before(upgraded: Upgraded) -> None:
    threads = upgraded.get(
        "/v1/streams/threads/records", "alice", connection_id=PERSONAL, expand="messages"
    )

    [thread] = threads["data"]
    assert {each["id"] for each in thread["expanded"]["messages"]["data"]} == {"m1", "m2"}
