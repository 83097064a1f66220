"""The demo life in a database of its own, and a token over all of it."""

import contextlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import django

from operations.postgres.server import EmbeddedPostgres, url


@contextlib.contextmanager
def demo_life(kept_at: Path | None) -> Iterator[str]:
    """The bearer token; Django is set up inside. With `kept_at` it is loaded there once."""
    home = kept_at or Path(tempfile.mkdtemp(prefix="pdpp-relevance-"))
    server = EmbeddedPostgres(home / "pg", scratch=True)
    server.start()
    try:
        os.environ |= {
            "DATABASE_URL": url(home / "pg"),
            "PDPP_DATABASE_POOL": "0",
            "PDPP_TRIPWIRE_SHARE": "0",  # whoever is judged reads a lot
            "PDPP_VAR": str(home),
            "PDPP_SECRET_KEY": secrets.token_urlsafe(50),
        }
        django.setup()
        yield _token()
    finally:
        server.stop()
        if kept_at is None:
            shutil.rmtree(home, ignore_errors=True)


def _token() -> str:
    """Load the demo life unless it is there."""
    # These can be imported once Django is set up.
    from django.core.management import call_command
    from django.utils import timezone

    from operations import background_jobs, demo_data

    call_command("migrate", verbosity=0)
    if not demo_data.was_loaded():
        demo_data.load(now=timezone.now(), on_progress=lambda _: None)
    for _ in background_jobs.vectors():
        pass
    tokens = demo_data.tokens(timezone.now())
    if tokens is None:
        raise RuntimeError("The demo life was taken away.")
    return tokens.rest
