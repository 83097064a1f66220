"""The server is killed in the middle of everything, and another takes its place."""

import signal

import pytest

from tests.faults.load import Load, hold_to_account
from tests.pdpp_site.installation import installed, running
from tests.pdpp_site.living import cast_in


@pytest.mark.slow
def test_nothing_is_lost_and_nothing_unrecorded_when_the_server_is_killed_under_load() -> None:
    """The short form of the next test, which make test-all includes."""
    with installed() as installation:
        with running(installation) as server:
            cast = cast_in(installation)
            load = Load(cast, "a")
            with load.going_on():
                load.progress()
                server.process.kill()
                server.process.wait()
        with running(installation):
            again = Load(cast, "b")
            with again.going_on():
                again.progress()
            hold_to_account(cast, load, again)


@pytest.mark.faults
def test_the_same_ten_times_over_and_while_it_stops_in_order() -> None:
    loads = []
    with installed() as installation:
        with running(installation):
            cast = cast_in(installation)
        for number in range(10):
            with running(installation) as server:
                load = Load(cast, f"round{number}", body="y" * 20_000)
                loads.append(load)
                with load.going_on():
                    load.progress(more=1 + number % 3)
                    how = signal.SIGTERM if number % 5 == 4 else signal.SIGKILL
                    server.process.send_signal(how)
                    server.process.wait(60)
        with running(installation):
            hold_to_account(cast, *loads)
