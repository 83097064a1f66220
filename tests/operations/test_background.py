"""What background jobs do."""

from datetime import UTC, datetime, timedelta

import time_machine

from evidence.ledger.checkpoints import sign_all
from evidence.models.connections import EmbeddedStream
from evidence.models.ledger import Checkpoint
from operations import background_jobs
from tests.world import PERSONAL, World, mail


def test_vectors_job_embeds_missing_texts(embedded: World) -> None:
    EmbeddedStream.unscoped.all().delete()
    assert sum(background_jobs.vectors()) == 0
    assert EmbeddedStream.unscoped.count() > 0


def test_jobs_prune_and_sign_the_ledger(world: World) -> None:
    kept = {
        connection_id: world.get("/v1/streams/messages/records", connection_id=connection_id,
                                 changes_since="beginning").body["next_changes_since"]
        for connection_id in (PERSONAL,)
    }  # fmt: skip
    with time_machine.travel(datetime.now(UTC) + timedelta(days=200), tick=False):
        for _ in [*background_jobs.upkeep(), *sign_all()]:
            pass
        assert Checkpoint.unscoped.count() == 1
        world.put((PERSONAL, "messages", mail("m1", "2026-01-10T09:00:00Z", subject="Anew")))
        answer = world.get("/v1/streams/messages/records", connection_id=PERSONAL,
                           changes_since=kept[PERSONAL])  # fmt: skip
    assert answer.status == 410
