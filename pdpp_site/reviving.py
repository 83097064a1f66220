"""The embedded database is started again when it has died while the server runs."""

import contextlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg

from pdpp_site.embedded_postgres import EmbeddedPostgres, url
from pdpp_site.server_account import EmbeddedPostgresError

logger = logging.getLogger(__name__)

PAUSE_SECONDS = 5.0
ANSWER_SECONDS = 5


def reviving(home: Path) -> Callable[[], Iterator[None]]:
    """A job of ``pdpp_site.background``: looks once, and starts what does not run."""

    def database() -> Iterator[None]:
        if not _answers(home):
            _start(home)
        yield

    return database


def _answers(home: Path) -> bool:
    with contextlib.suppress(psycopg.OperationalError):
        psycopg.connect(url(home), connect_timeout=ANSWER_SECONDS).close()
        return True
    return False


def _start(home: Path) -> None:
    server = EmbeddedPostgres(home)
    try:
        server.start()
    except EmbeddedPostgresError:
        # The words of the error end with the database's own log, which is there to be read.
        logger.error("The embedded database does not start. %s", home / "data/server.log")  # noqa: TRY400
    else:
        # This use of it ends here; that of the process goes on, and so does the server.
        server.stop()
        logger.error("The embedded database had died and was started again.")
