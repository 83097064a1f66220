"""The page Storage: bytes by source, estimated from a sample of bounded size."""

import os
import re

from django.db import connection
from django.test.utils import CaptureQueriesContext

from evidence.models.owners import Owner
from evidence.write import disk_usage
from evidence.write.blobs import put_blob
from tests.owner.pages.browser import Browser
from tests.world import BANK, NOW, PERSONAL, WORK, World, mail


def test_every_connection_has_records_and_only_files_that_are_its_own(world: World) -> None:
    put_blob(PERSONAL, stream="messages", record_key="m1", media_type="image/png",
             chunks=[os.urandom(500_000)], now=NOW)  # fmt: skip

    usage = disk_usage.disk_usage()

    assert usage.files[PERSONAL] > 500_000
    assert BANK not in usage.files
    assert {PERSONAL, WORK, BANK} <= usage.records.keys()
    assert usage.total > 500_000


def test_share_follows_the_bytes_and_not_the_number_of_records(world: World) -> None:
    world.put((WORK, "messages", mail("long", None, body_text=os.urandom(40_000).hex())))

    sizes = disk_usage.disk_usage().records

    assert sizes[WORK] > sizes[PERSONAL]


def test_records_whose_text_is_not_indexed_yet_have_a_size(world: World) -> None:
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM evidence_searchtext WHERE connection_id = %s", [BANK])

    assert disk_usage.disk_usage().index[BANK] == 0


def test_number_of_statements_does_not_grow_with_the_records(world: World) -> None:
    with CaptureQueriesContext(connection) as queries:
        disk_usage.disk_usage()

    assert len(queries) <= 6


def test_page_lists_sources_with_their_connections(world: World, alice: Browser) -> None:
    alice.http.defaults["HTTP_ACCEPT"] = "text/html"
    page = alice.open("/storage")

    assert re.search(r"Your records and files take about [\d.,]+\s\w+, estimated", page.text)
    assert re.search(r"Mail about [\d.,]+\s\w+ (Personal|Work) mail Records", page.text)


def test_page_says_when_the_limit_is_reached(world: World, alice: Browser) -> None:
    Owner.unscoped.update(disk_limit_bytes=1024)

    text = alice.open("/storage").text.replace("\xa0", " ")

    assert "of 1.0 KB that you may use" in text
    assert "Nothing new is stored until you erase something" in text
