"""Health warnings about background jobs."""

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone
from pytest_django import Settings

from evidence.models.events import Event
from evidence.write.erasure_orders import ErasureScope, create_erasure
from importers.runs import uploads
from operations import health
from tests.events.conftest import receiver
from tests.events.receiving import SUBSCRIPTIONS, Receiver, send_json
from tests.owners import OWNER_ID
from tests.world import World

__all__ = ["receiver"]

SINCE = timezone.now().replace(microsecond=0)
Left = Callable[[World, Receiver, Path], None]


def a_message(world: World, receiver: Receiver, _var: Path) -> None:
    send_json(world, "POST", SUBSCRIPTIONS, callback_url=receiver.url)
    Event.unscoped.update(due_at=SINCE)


def an_erasure(world: World, _receiver: Receiver, _var: Path) -> None:
    create_erasure(
        ErasureScope.STREAM,
        owner_id=world.owner_id,
        by="a test",
        now=SINCE,
        connection_id="cin_personal",
    )


def an_upload(_world: World, _receiver: Receiver, var: Path) -> None:
    upload = uploads.create_upload(
        uploads.root_of(var / "imports", OWNER_ID), name="mail.mbox", size=0
    )
    upload.save(phase="wanted")
    os.utime(upload.folder / "state.json", (SINCE.timestamp(), SINCE.timestamp()))


@pytest.mark.parametrize("seconds", [0, 1])
@pytest.mark.parametrize("left", [a_message, an_erasure, an_upload])
def test_job_delayed_for_an_hour_is_reported(
    world: World, receiver: Receiver, left: Left, seconds: int, tmp_path: Path, settings: Settings
) -> None:
    settings.PDPP_VAR = tmp_path
    left(world, receiver, tmp_path)

    said = health.background_warning(SINCE + health.STALLED_AFTER + timedelta(seconds=seconds))

    waits = f"A background job has been waiting since {SINCE:%Y-%m-%d %H:%M} UTC."
    assert said == (waits if seconds else None)
