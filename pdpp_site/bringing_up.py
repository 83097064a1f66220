"""What one process does while others that start with it wait."""

import contextlib
from collections.abc import Iterator

from django.core.management import call_command

from evidence import advisory_locks
from pdpp_site import health


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """The tables are of this version, and nobody else is starting."""
    with advisory_locks.exclusive("starting"):
        if health.unready() is not None:
            call_command("migrate", verbosity=0, interactive=False)
        yield
