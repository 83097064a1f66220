"""Strangers cannot fill the server's memory or slow other clients down. The figures are printed."""

import sys

import pytest

from pdpp_site.connections import raise_file_limit
from tests.faults.floods import ATTACKS, Attack, Cost, Flood, asked_for, cost_of, memory, open_files
from tests.pdpp_site.installation import Installation, Running, installed, running
from tests.pdpp_site.living import Cast, cast_in

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="every address of 127.0.0.0/8 is local on Linux alone"
)
PATH = "/v1/streams/messages/records?connection_id=cin_personal&limit=5"
ALONE_MB, TOGETHER_MB, AT_ONCE = 10, 100, 64
SECONDS, SHORT_SECONDS = 120.0, 8.0
FLOOR_SECONDS, SHORT_FLOOR_SECONDS = 0.25, 2.0
"""Below this a ratio of times says nothing on a busy machine; a short test has few times."""
SHORT = ("a form of 49 MB with any bearer", "a header of 49 MB", "requests of 10 MB in a row")


def figure(text: str) -> None:
    print(f"\n{text}", end="")  # noqa: T201 - make faults shows it


def warm_up(cast: Cast, server: Running) -> None:
    """Let every thread of the server do some work, so that what it keeps is not counted."""
    for attack in ATTACKS[5:9]:
        cost_of(attack, port=cast.installation.port, pid=server.process.pid, at_once=32)


def hold_down(attack: Attack, installation: Installation, server: Running) -> tuple[Cost, Cost]:
    port, pid = installation.port, server.process.pid
    alone = cost_of(attack, port=port, pid=pid)
    together = cost_of(attack, port=port, pid=pid, at_once=AT_ONCE)
    figure(
        f"{attack.name}: {alone.memory:.1f} MB of memory and {alone.files:.1f} MB of files;"
        f" {AT_ONCE} at once {together.memory:.1f} and {together.files:.1f}"
    )
    assert installation.get("/healthz")[0] == 200
    return alone, together


def assert_bounded(alone: Cost, together: Cost) -> None:
    assert max(alone.memory, alone.files) <= ALONE_MB
    assert max(together.memory, together.files) <= TOGETHER_MB


def endure(cast: Cast, server: Running, *, seconds: float, floor: float) -> None:
    port, token, pid = cast.installation.port, cast.tokens["bob"], server.process.pid
    asked_for(2, port=port, token=token, path=PATH)
    quiet = asked_for(min(seconds / 2, 30), port=port, token=token, path=PATH)
    flood = Flood(port)
    with flood.going_on():
        asked_for(3, port=port, token=token, path=PATH)  # until all have dialled
        flooded = asked_for(seconds, port=port, token=token, path=PATH)
        files = open_files(pid)
    after = asked_for(min(seconds / 2, 30), port=port, token=token, path=PATH)
    figure(f"quiet before: {quiet}; after: {after}")
    figure(f"under {flood.slow} slow and {flood.idle} idle connections: {flooded}; {files} files")

    assert flooded.failed == 0
    # The machine may have become busier meanwhile.
    assert flooded.p99 <= max(2 * quiet.p99, 2 * after.p99, floor)


@pytest.mark.faults
def test_no_request_of_a_stranger_takes_much_memory() -> None:
    with installed() as installation, running(installation) as server:
        cast, began = cast_in(installation), memory(server.process.pid)
        warm_up(cast, server)
        costs = [hold_down(attack, installation, server) for attack in ATTACKS]
        figure(f"in all: from {began:.0f} MB of memory to {memory(server.process.pid):.0f} MB")
        for alone, together in costs:
            assert_bounded(alone, together)


@pytest.mark.faults
def test_slow_and_idle_connections_leave_other_clients_their_time() -> None:
    raise_file_limit()
    with installed() as installation, running(installation) as server:
        endure(cast_in(installation), server, seconds=SECONDS, floor=FLOOR_SECONDS)


@pytest.mark.slow
def test_a_short_flood_takes_neither_memory_nor_other_clients_time() -> None:
    """Without background jobs, whose memory would be counted: 0 to 31 MB in three runs, 0 without."""
    raise_file_limit()
    with installed() as installation, running(installation, PDPP_BACKGROUND="false") as server:
        cast = cast_in(installation)
        warm_up(cast, server)
        for attack in ATTACKS:
            if attack.name in SHORT:
                assert_bounded(*hold_down(attack, installation, server))
        endure(cast, server, seconds=SHORT_SECONDS, floor=SHORT_FLOOR_SECONDS)
