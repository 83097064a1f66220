"""What every test runs under."""

from collections.abc import Iterator

import pytest
from django.core.signals import request_finished, request_started
from django.db import close_old_connections


@pytest.fixture(autouse=True)
def _requests_keep_the_connection_of_the_test() -> Iterator[None]:
    """A request in the middle of a test would close the connection that holds its transaction.

    Django's own test client does the same; this covers every other way in.
    """
    for moment in (request_started, request_finished):
        moment.disconnect(close_old_connections)
    yield
    for moment in (request_started, request_finished):
        moment.connect(close_old_connections)
