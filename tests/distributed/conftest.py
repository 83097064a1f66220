"""Collect these tests only on a cluster (CITUS_BIN, tests.database), since CI allows no skips."""

import pytest

from tests.distributed.cluster import programs

collect_ignore_glob = ["test_*.py"] if programs() is None else []


def pytest_report_header(config: pytest.Config) -> str:
    return (
        "citus: none (CITUS_BIN is not set), so tests/distributed is not collected"
        if programs() is None
        else "citus: a cluster"
    )
