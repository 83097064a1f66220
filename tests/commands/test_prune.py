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
from evidence.storing.blobs import put_blob
from evidence.storing.ingest import ingest_lines
from evidence.storing.ndjson import Line
from tests.world import NOW, PERSONAL, Answer, World, mail

LIST = "/v1/streams/messages/records"


def prune(*arguments: str) -> str:
    said = StringIO()
    call_command("prune", *arguments, stdout=said)
    return said.getvalue()


def put(world: World, data: dict[str, Any]) -> None:
    """A record of the personal mailbox, stored when the clock says."""
    line = {"connection_id": PERSONAL, "stream": "messages", "key": data["id"], "data": data}
    ingest_lines([Line(1, json.dumps(line).encode())], owner_id=world.owner_id, now=timezone.now())


def asked(world: World, since: str, who: str = "bob") -> Answer:
    return world.get(LIST, who, changes_since=since)


def test_a_bookmark_lives_as_long_as_changes_are_kept(world: World) -> None:
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


def test_old_changes_are_forgotten_and_younger_ones_are_not(world: World) -> None:
    with time_machine.travel(NOW + timedelta(days=40)):
        put(world, mail("n1", "2026-05-01T00:00:00Z"))
        prune("--keep-days", "30")
    assert [each.record_key for each in RecordChange.unscoped.all()] == ["n1"]


def test_what_was_recorded_late_under_an_early_time_is_not_missed(world: World) -> None:
    """A long import marks its changes with the time it began; the number gives it away."""
    with time_machine.travel(NOW + timedelta(days=5)):
        since = asked(world, "beginning").body["next_changes_since"]
        world.put((PERSONAL, "messages", mail("n1", "2026-05-01T00:00:00Z")))
    with time_machine.travel(NOW + timedelta(days=35)):
        prune("--keep-days", "30")
        assert asked(world, since).status == 410


def test_bookmarks_expire_alike_whether_anything_hidden_happened(world: World) -> None:
    """Else a client could tell from an expiry that something did."""
    with time_machine.travel(NOW):
        since = asked(world, "beginning").body["next_changes_since"]
    with time_machine.travel(NOW + timedelta(days=40)):
        prune("--keep-days", "30")
        assert asked(world, since).status == 410


def test_it_says_what_it_did_and_doing_it_again_does_nothing(world: World) -> None:
    changes = RecordChange.unscoped.count()
    assert changes
    with time_machine.travel(NOW + timedelta(days=100)):
        assert f"Forgot {changes} changes" in prune()
        assert "Forgot 0 changes and 0 bookmarks" in prune()


def test_stored_bookmarks_go_when_nobody_has_used_them(world: World) -> None:
    Bookmark.unscoped.create(handle=b"1", owner_id=world.owner_id, content=b"", used_at=NOW)
    with time_machine.travel(NOW + timedelta(days=89)):
        prune()
        assert Bookmark.unscoped.count() == 1
    with time_machine.travel(NOW + timedelta(days=91)):
        assert "1 bookmarks" in prune()
    assert Bookmark.unscoped.count() == 0


def test_blobs_that_no_record_names_go_after_a_day(world: World) -> None:
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
        assert "2 blobs" in prune()
    assert [each.blob_id for each in Blob.unscoped.all()] == ["blb_named"]
    assert [each.blob_id for each in BlobChunk.unscoped.all()] == ["blb_named"]


@pytest.mark.parametrize("days", ["-1", "x", "1.5", "²", "999999"])
def test_days_that_are_no_number_are_refused(world: World, days: str) -> None:
    with pytest.raises(CommandError, match="whole number of days"):
        prune(f"--keep-days={days}")
