"""The same thing done twice at once: once is enough, and neither breaks the other."""

from copy import deepcopy
from typing import Any

from evidence.models.connections import Connection
from evidence.storing.declaration_store import declaration
from importers.registry import KINDS
from importers.runs.store import made, target
from tests.access.test_narrowed_meanwhile import overtake
from tests.world import MAIL, NOW, World


def described(text: str) -> dict[str, Any]:
    document = deepcopy(MAIL)
    document["streams"][0]["description"] = text
    return document


def test_a_source_that_is_declared_twice_at_once_has_the_later_declaration(
    committed: World,
) -> None:
    first, second = described("First."), described("Second.")
    overtake(lambda: committed.declare(first), lambda: committed.declare(second))
    assert declaration("mail", owner_id=committed.owner_id) == second


def test_a_source_that_is_new_to_two_at_once_is_one(committed: World) -> None:
    document = described("New.") | {
        "connector_id": "https://registry.example/new",
        "connector_key": "new",
    }
    overtake(lambda: committed.declare(document), lambda: committed.declare(document))
    assert declaration("new", owner_id=committed.owner_id) == document


def test_two_imports_that_begin_at_once_make_one_connection(committed: World) -> None:
    wanted = target(KINDS[0], name="Everything", owner_id=committed.owner_id)
    overtake(lambda: made(wanted, now=NOW), lambda: made(wanted, now=NOW))
    assert Connection.unscoped.filter(display_name="Everything").count() == 1
