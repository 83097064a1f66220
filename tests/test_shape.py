"""The shape of the code, where no linter looks."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = (
    "cli", "demo", "evidence", "importers", "mcp_adapter", "operations", "owner", "pdpp_site",
)  # fmt: skip
SOURCES = sorted(
    path
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
    if "migrations" not in path.parts
)

UNSCOPED = (
    "evidence/models/",
    "evidence/access/",
    "evidence/storing/",
    "evidence/ledger/",
    "evidence/reading/bookmarks.py",  # bookmarks too long to return inline
    "owner/",
    "evidence/erasure.py",  # import runs by connection
    "evidence/events/",  # subscriptions and what is on its way to them
    "importers/runs/store.py",  # runs, their receipts, and connections by name
    "operations/demo_data.py",  # which connections are the demo's
)
"""Where rows are fetched without a scope: under the wall, and where no personal row can be."""

PERSONAL_TABLES = re.compile(
    r"(?<!admin:)(?<!, \")evidence_(record|recordchange|searchtext|passage|blob|blobchunk)\b",
    re.IGNORECASE,
)
"""Not the names of pages: ``admin:evidence_record`` and ``view, "evidence_record"``."""
SQL = ("evidence/access/", "evidence/storing/", "evidence/models/", "demo/")

LONGEST_MODULE = 340
LONGEST_FUNCTION = 40


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_rows_without_a_scope_are_fetched_under_the_wall_only() -> None:
    elsewhere = [path for path in SOURCES if not name(path).startswith(UNSCOPED)]
    assert elsewhere
    assert [name(path) for path in elsewhere if ".unscoped" in path.read_text()] == []


def test_tables_of_personal_rows_are_named_under_the_wall_only() -> None:
    elsewhere = [path for path in SOURCES if not name(path).startswith(SQL)]
    assert elsewhere
    assert [name(path) for path in elsewhere if PERSONAL_TABLES.search(path.read_text())] == []


def test_modules_and_functions_stay_short() -> None:
    modules = {name(path): path.read_text() for path in SOURCES}
    assert [path for path, text in modules.items() if text.count("\n") > LONGEST_MODULE] == []
    assert [each for path, text in modules.items() for each in long_functions(path, text)] == []


def long_functions(path: str, text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if is_function and (node.end_lineno or 0) - node.lineno >= LONGEST_FUNCTION:
            yield f"{path}: {node.name}"


def test_no_model_has_a_manager_that_looks_harmless() -> None:
    from django.apps import apps

    for model in apps.get_app_config("evidence").get_models():
        assert not hasattr(model, "objects"), model
        assert model._default_manager.name == "unscoped", model
