"""A receiver on this machine, which the settings of these tests let events go to."""

from collections.abc import Iterator

import pytest
from pytest_django import Settings

from tests.events.receiving import Receiver, receiving


@pytest.fixture
def receiver(settings: Settings) -> Iterator[Receiver]:
    settings.PDPP_LOCAL_RECEIVERS = True
    with receiving() as listening:
        yield listening
