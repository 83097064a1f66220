"""Load the demo data into a separate database and issue a token for all of it."""

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
def demo_database(home_to_keep: Path | None) -> Iterator[str]:
    """Set up Django and yield a REST token. `home_to_keep` keeps the database for the next run."""
    home = home_to_keep or Path(tempfile.mkdtemp(prefix="pdpp-relevance-"))
    server = EmbeddedPostgres(home / "pg", scratch=True)
    server.start()
    try:
        os.environ |= {
            "DATABASE_URL": url(home / "pg"),
            "PDPP_DATABASE_POOL": "0",
            "PDPP_TRIPWIRE_SHARE": "0",  # the benchmark reads almost everything
            "PDPP_VAR": str(home),
            "PDPP_SECRET_KEY": secrets.token_urlsafe(50),
        }
        django.setup()
        yield _token()
    finally:
        server.stop()
        if home_to_keep is None:
            shutil.rmtree(home, ignore_errors=True)


def _token() -> str:
    """Load the demo data if needed, and return the REST token."""
    # These imports need django.setup().
    from django.core.management import call_command
    from django.utils import timezone

    from evidence.models.owners import acting_for, get_or_create_owner
    from operations import background_jobs, demo_data

    call_command("migrate", verbosity=0)
    with acting_for(get_or_create_owner(timezone.now()).owner_id):
        if not demo_data.is_demo_loaded():
            demo_data.load_demo(now=timezone.now(), on_progress=lambda _: None)
        for _ in background_jobs.vectors():
            pass
        tokens = demo_data.create_demo_tokens(timezone.now())
    if tokens is None:
        raise RuntimeError("The demo data was removed.")
    return tokens.rest
