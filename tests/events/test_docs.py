"""The receiver that ``docs/events.md`` shows, run as it stands there."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evidence import limits
from evidence.events.tasks import SILENT_SECONDS
from operations import event_worker
from tests.events.receiving import Receiver, ask, subscribed, work
from tests.events.test_changes import new
from tests.world import World

DOCS = (Path(__file__).parents[2] / "docs/events.md").read_text()


def shown() -> Callable[..., tuple[int, dict[str, Any]]]:
    [code] = re.findall(r"```python\n(.*?)```", DOCS, re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102 the text under test
    function: Callable[..., tuple[int, dict[str, Any]]] = names["receive"]
    return function


def test_the_receiver_shown_verifies_and_reads(
    world: World, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    path, secret = subscribed(world, receiver)
    ask(world, "POST", f"{path}/test-event")
    world.put(new())
    work()
    receive = shown()

    for message in receiver.received:
        status, body = receive(secret, message.headers, message.content)
        assert status == 200
        assert body["challenge"] == message.data.get("challenge")
        assert receive(secret, message.headers, message.content + b" ") == (401, {})

    [told] = receiver.changes
    assert capsys.readouterr().out == f"read messages from {told['changes_since']}\n"


def test_the_numbers_are_those_that_hold() -> None:
    assert limits.EVENT_RETRIES == (30, 2 * 60, 10 * 60, 3_600, 6 * 3_600, 86_400)
    assert (limits.EVENT_TIMEOUT, limits.EVENT_JITTER) == (10, 1 / 5)
    assert (limits.EVENT_RETRY_AFTER, limits.EVENT_DEFERRED_MOST) == (60, 3 * 86_400)
    found = (
        SILENT_SECONDS
        + event_worker.LOST_SECONDS
        + event_worker.LOOK_SECONDS
        + event_worker.POLL_SECONDS
    )
    assert found < 20
    assert limits.EVENT_TIMEOUT + event_worker.HEARTBEAT_SECONDS < SILENT_SECONDS
