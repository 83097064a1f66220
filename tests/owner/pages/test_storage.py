"""The page Storage: bytes by source, estimated from a sample of bounded size."""

import os
import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from evidence.write.blobs import put_blob
from owner import storage_page
from tests.owner.pages.browser import Browser
from tests.world import BANK, NOW, PERSONAL, WORK, World, mail


@pytest.fixture(autouse=True)
def _whole_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read tables whole: in those of a test database, earlier tests left pages without rows."""
    monkeypatch.setattr(storage_page, "SAMPLED_PAGES", 1_000_000)


def test_sizes_add_up_to_the_database(world: World) -> None:
    put_blob(PERSONAL, stream="messages", record_key="m1", media_type="image/png",
             chunks=[os.urandom(500_000)], now=NOW)  # fmt: skip

    sizes = storage_page.storage_sizes()

    parts = [sum(part.values()) for part in (sizes.records, sizes.blobs, sizes.index)]
    assert all(parts)
    assert sum(parts) < sizes.total
    assert sizes.blobs[PERSONAL] > 500_000
    assert BANK not in sizes.blobs
    assert {PERSONAL, WORK, BANK} <= sizes.records.keys()


def test_share_follows_the_bytes_and_not_the_number_of_records(world: World) -> None:
    world.put((WORK, "messages", mail("long", None, body_text=os.urandom(40_000).hex())))

    sizes = storage_page.storage_sizes().records

    assert sizes[WORK] > sizes[PERSONAL]


def test_reads_each_table_once(world: World) -> None:
    with CaptureQueriesContext(
        connection,
    ) as queries:
        storage_page.storage_sizes()

    assert len(queries) <= 7
    sampled = [query["sql"] for query in queries if "TABLESAMPLE" in query["sql"]]
    assert len(sampled) == len(queries) - 1


def test_page_lists_sources_with_their_connections(world: World, alice: Browser) -> None:
    alice.http.defaults["HTTP_ACCEPT"] = "text/html"
    page = alice.open("/storage")

    assert re.search(r"The database takes [\d.,]+\s\w+\.", page.text)
    assert re.search(r"Mail about [\d.,]+\s\w+ (Personal|Work) mail Records", page.text)
    assert "Activity, grants and everything else" in page.text
    assert "estimates from a sample" in page.text
