"""``manage.py prune``."""

import json
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
import time_machine
from django.core.management import CommandError, call_command
from django.utils import timezone

from evidence.models.events import Bookmark
from evidence.models.records import Blob, BlobChunk, RecordChange
from evidence.write.blobs import put_blob
from evidence.write.ingest import ingest_lines
from evidence.write.ndjson import NdjsonLine
from tests.world import NOW, PERSONAL, Answer, World, mail

LIST = "/v1/streams/messages/records"


def prune(*arguments: str) -> str:
    said = StringIO()
    call_command("prune", *arguments, stdout=said)
    return said.getvalue()


def put(world: World, data: dict[str, Any]) -> None:
    """Store a record of the personal mailbox at a given time."""
    line = {"connection_id": PERSONAL, "stream": "messages", "key": data["id"], "data": data}
    ingest_lines(
        [NdjsonLine(1, json.dumps(line).encode())], owner_id=world.owner_id, now=timezone.now()
    )


def asked(world: World, since: str, who: str = "bob") -> Answer:
    return world.get(LIST, who, changes_since=since)


def test_bookmark_expires_with_its_changes(world: World) -> None:
    with time_machine.travel(NOW):
        old = asked(world, "beginning").body["next_changes_since"]
    with time_machine.travel(NOW + timedelta(days=20)):
        young = asked(world, old).body["next_changes_since"]
        put(world, mail("n1", "2026-05-01T00:00:00Z"))
    with time_machine.travel(NOW + timedelta(days=40)):
        assert asked(world, old).ids == asked(world, young).ids == ["n1"]
        prune("--keep-days", "30")
        assert asked(world, young).ids == ["n1"]
        expired = asked(world, old)
        assert (expired.status, expired.error["code"]) == (410, "cursor_expired")
        assert expired.error["next_step"].endswith(f"GET {LIST}?changes_since=beginning")
        assert asked(world, "beginning").status == 200


def test_only_old_changes_are_deleted(world: World) -> None:
    with time_machine.travel(NOW + timedelta(days=40)):
        put(world, mail("n1", "2026-05-01T00:00:00Z"))
        prune("--keep-days", "30")
    assert [each.record_key for each in RecordChange.unscoped.all()] == ["n1"]


def test_change_recorded_late_is_not_missed(world: World) -> None:
    """A long import stamps its changes with its start time."""
    with time_machine.travel(NOW + timedelta(days=5)):
        since = asked(world, "beginning").body["next_changes_since"]
        world.put((PERSONAL, "messages", mail("n1", "2026-05-01T00:00:00Z")))
    with time_machine.travel(NOW + timedelta(days=35)):
        prune("--keep-days", "30")
        assert asked(world, since).status == 410


def test_hidden_changes_do_not_affect_bookmark_expiry(world: World) -> None:
    """Otherwise an expiry would reveal hidden changes."""
    with time_machine.travel(NOW):
        since = asked(world, "beginning").body["next_changes_since"]
    with time_machine.travel(NOW + timedelta(days=40)):
        prune("--keep-days", "30")
        assert asked(world, since).status == 410


def test_counts_are_printed_and_second_run_deletes_nothing(world: World) -> None:
    changes = RecordChange.unscoped.count()
    assert changes
    with time_machine.travel(NOW + timedelta(days=100)):
        assert f"Deleted {changes} changes" in prune()
        assert "Deleted 0 changes and 0 bookmarks" in prune()


def test_unused_bookmarks_are_deleted(world: World) -> None:
    Bookmark.unscoped.create(handle=b"1", owner_id=world.owner_id, content=b"", used_at=NOW)
    with time_machine.travel(NOW + timedelta(days=89)):
        prune()
        assert Bookmark.unscoped.count() == 1
    with time_machine.travel(NOW + timedelta(days=91)):
        assert "1 bookmarks" in prune()
    assert Bookmark.unscoped.count() == 0


def test_unreferenced_blobs_are_deleted_after_a_day(world: World) -> None:
    for key, blob_id in (("f1", "blb_named"), ("f2", "blb_other"), ("f3", "blb_alone")):
        put_blob(
            PERSONAL, stream="messages", record_key=key, media_type="text/plain",
            chunks=[b"bytes"], now=timezone.now(), blob_id=blob_id,
        )  # fmt: skip
    world.put((PERSONAL, "messages", mail("f1", None, blob_ref={"blob_id": "blb_named"})))
    world.put((PERSONAL, "messages", mail("f2", None, blob_ref={"blob_id": "blb_named"})))
    prune()
    assert Blob.unscoped.count() == 3
    with time_machine.travel(timezone.now() + timedelta(days=2)):
        assert "2 unreferenced blobs" in prune()
    assert [each.blob_id for each in Blob.unscoped.all()] == ["blb_named"]
    assert [each.blob_id for each in BlobChunk.unscoped.all()] == ["blb_named"]


@pytest.mark.parametrize("days", ["-1", "x", "1.5", "²", "999999"])
def test_invalid_days_are_refused(world: World, days: str) -> None:
    with pytest.raises(CommandError, match="number of days"):
        prune(f"--keep-days={days}")
