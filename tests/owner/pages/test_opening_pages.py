"""Opening a page writes what the ledger records of it, and nothing else."""

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from importers.core import sandbox
from tests.browser import owner_pages
from tests.importers.sandbox_thread import open_in_thread
from tests.owner.pages.browser import Browser
from tests.world import World

pytestmark = pytest.mark.slow

WRITES = re.compile(r'\b(?:INSERT INTO|(?<!FOR )(?<!DO )UPDATE|DELETE FROM)\s+"?(\w+)"?')
LEDGER = {"evidence_disclosure", "evidence_disclosedrecord", "evidence_watch"}


def test_opening_a_page_changes_nothing(
    world: World, alice: Browser, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.PDPP_VAR = tmp_path
    monkeypatch.setattr(sandbox, "open_session", open_in_thread)
    values = owner_pages.arrange(world, tmp_path) | {"account": "cin_none"}
    written = set()
    for address in owner_pages.PAGES:
        statements: list[str] = []
        with connection.execute_wrapper(partial(_note, statements)):
            alice.http.get(address.format(**values))
        found = {table for each in statements for table in WRITES.findall(each)}
        written |= {(address, table) for table in found - LEDGER}

    assert "\n".join(map(str, sorted(written))) == ""


def _note(statements: list[str], execute: Any, sql: Any, *rest: Any) -> Any:
    statements.append(str(sql))
    return execute(sql, *rest)
