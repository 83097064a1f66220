"""Fixture: a local webhook receiver, allowed by the settings."""

from collections.abc import Iterator

import pytest
from pytest_django import Settings

from tests.events.receiving import Receiver, running_receiver


@pytest.fixture
def receiver(settings: Settings) -> Iterator[Receiver]:
    settings.PDPP_LOCAL_RECEIVERS = True
    with running_receiver() as listening:
        yield listening
