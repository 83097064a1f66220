"""Run the example receiver of docs/events.md."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evidence import limits
from evidence.events.event_scheduler import POLL_SECONDS
from operations import jobs
from tests.events.receiving import Receiver, create_active_subscription, deliver_round, send_json
from tests.events.test_changes import message_row
from tests.world import World

DOCS = (Path(__file__).parents[2] / "docs/events.md").read_text()


def documented_receiver() -> Callable[..., tuple[int, dict[str, Any]]]:
    [code] = re.findall(r"```python\n(.*?)```", DOCS, re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102 the text under test
    function: Callable[..., tuple[int, dict[str, Any]]] = names["receive"]
    return function


def test_documented_receiver_verifies_and_reads(
    world: World, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    path, secret = create_active_subscription(world, receiver)
    send_json(world, "POST", f"{path}/test-event")
    world.put(message_row())
    deliver_round()
    receive = documented_receiver()

    for message in receiver.received:
        status, body = receive(secret, message.headers, message.content)
        assert status == 200
        assert body["challenge"] == message.data.get("challenge")
        assert receive(secret, message.headers, message.content + b" ") == (401, {})

    [result] = receiver.changes
    assert capsys.readouterr().out == f"read messages from {result['changes_since']}\n"


def test_documented_numbers_match_limits() -> None:
    assert limits.EVENT_RETRIES == (30, 2 * 60, 10 * 60, 3_600, 6 * 3_600, 86_400)
    assert (limits.EVENT_TIMEOUT, limits.EVENT_JITTER) == (10, 1 / 5)
    assert (limits.EVENT_RETRY_AFTER, limits.EVENT_DEFERRED_MOST) == (60, 3 * 86_400)
    assert jobs.LEASE_SECONDS + jobs.PAUSE_SECONDS + POLL_SECONDS < 20
