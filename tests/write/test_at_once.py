"""Concurrent equal operations succeed and have one effect."""

import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from typing import Any

import pytest
from django.db import connection

from evidence.models import owners
from evidence.models.connections import Connection
from evidence.write.declaration_store import current_declaration
from importers.registry import installed_importers
from importers.runs.store import ensure_connection, find_target
from tests.access.test_narrowed_meanwhile import overtake
from tests.world import MAIL, NOW, World


def described(text: str) -> dict[str, Any]:
    document = deepcopy(MAIL)
    document["streams"][0]["description"] = text
    return document


def test_concurrent_declarations_leave_the_later_one(
    committed: World,
) -> None:
    first, second = described("First."), described("Second.")
    overtake(lambda: committed.declare(first), lambda: committed.declare(second))
    assert current_declaration("mail", owner_id=committed.owner_id) == second


def test_concurrent_new_declarations_create_one_source(committed: World) -> None:
    document = described("New.") | {
        "connector_id": "https://registry.example/new",
        "connector_key": "new",
    }
    overtake(lambda: committed.declare(document), lambda: committed.declare(document))
    assert current_declaration("new", owner_id=committed.owner_id) == document


def test_concurrent_imports_create_one_connection(committed: World) -> None:
    wanted = find_target(installed_importers()[0], name="Everything", owner_id=committed.owner_id)
    overtake(lambda: ensure_connection(wanted, now=NOW), lambda: ensure_connection(wanted, now=NOW))
    assert Connection.unscoped.filter(display_name="Everything").count() == 1


def test_processes_that_start_together_create_one_owner(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = owners.create_owner

    def create_slowly(*args: Any, **columns: Any) -> owners.Owner:
        time.sleep(0.3)
        return create(*args, **columns)

    monkeypatch.setattr(owners, "create_owner", create_slowly)
    monkeypatch.setattr(owners, "new_owner_id", lambda: secrets.token_hex(4))

    def start(_number: int) -> str:
        try:
            return owners.first_owner(NOW).owner_id
        finally:
            connection.close()

    with ThreadPoolExecutor(3) as pool:
        first = set(pool.map(start, range(3)))
    assert first == {*owners.Owner.unscoped.values_list("owner_id", flat=True)}
    assert len(first) == 1
