"""Collect these tests only on a cluster (CITUS_BIN, tests.database), since CI allows no skips."""

import pytest
from django.conf import settings

collect_ignore_glob = [] if settings.PDPP_DISTRIBUTED else ["test_*.py"]


def pytest_report_header(config: pytest.Config) -> str:
    return (
        "citus: a cluster"
        if settings.PDPP_DISTRIBUTED
        else "citus: none (CITUS_BIN is not set), so tests/distributed is not collected"
    )
