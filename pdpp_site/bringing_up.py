"""What one process does while others that start with it wait."""

import contextlib
from collections.abc import Iterator

from django.core.management import call_command

from pdpp_site import health, turns


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """The tables are of this version, and nobody else is starting."""
    with turns.alone("starting"):
        if health.unready() is not None:
            call_command("migrate", verbosity=0, interactive=False)
        yield
