"""A pytest plugin: a PostgreSQL for this run, thrown away at its end.

It must act before pytest-django reads the settings, so ``pyproject.toml`` loads it with ``-p``
and it wraps the hook in which that happens. The workers of pytest-xdist inherit the environment
of the first process and so share its server. With DATABASE_URL set there is nothing to start.
With CITUS_BIN set, it is a cluster of three servers, and every test runs on distributed tables.
"""

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from operations.postgres import server as embedded_postgres
from tests.distributed import cluster


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Iterator[None]:
    os.environ.setdefault("PDPP_SECRET_KEY", secrets.token_urlsafe(50))
    # One connection per test, in its transaction; the pool is tried where a process is.
    os.environ.setdefault("PDPP_DATABASE_POOL", "0")
    if "DATABASE_URL" not in os.environ:
        _start(early_config)
    return (yield)


def _start(config: pytest.Config) -> None:
    config.add_cleanup(lambda: os.environ.pop("DATABASE_URL", None))
    home = Path(tempfile.mkdtemp(prefix="pdpp-test-"))
    config.add_cleanup(lambda: shutil.rmtree(home, ignore_errors=True))
    if (binaries := cluster.programs()) is not None:
        nodes = cluster.Cluster(home, binaries)
        config.add_cleanup(nodes.stop)
        nodes.start()
        os.environ["DATABASE_URL"] = nodes.coordinator.url()
        return
    server = embedded_postgres.EmbeddedPostgres(home, scratch=True)
    server.start()
    config.add_cleanup(server.stop)
    os.environ["DATABASE_URL"] = embedded_postgres.url(home)
