"""The shape of the code, where no linter looks."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("evidence", "mcp_adapter", "pdpp_site", "demo")
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
    "evidence/admin/",
    "evidence/consent/",
    "evidence/events/",  # subscriptions and what is on its way to them
    "evidence/importing/runs.py",  # runs, their receipts, and connections by name
    "evidence/management/granting.py",  # connections and clients by name
    "pdpp_site/demo_life.py",  # which connections are the demo's
    "pdpp_site/setup_links.py",  # the links themselves
)
"""Where rows are fetched without a scope: under the wall, and where no personal row can be."""

PERSONAL_TABLES = re.compile(
    r"(?<!admin:)evidence_(record|recordchange|searchtext|passage|blob|blobchunk)\b", re.IGNORECASE
)
"""Not the names of pages, which say ``admin:evidence_record``."""
SQL = ("evidence/access/", "evidence/storing/", "evidence/models/", "demo/")

LONGEST_MODULE = 300
LONGEST_FUNCTION = 40


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_rows_without_a_scope_are_fetched_under_the_wall_only(path: Path) -> None:
    if not name(path).startswith(UNSCOPED):
        assert ".unscoped" not in path.read_text()


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_tables_of_personal_rows_are_named_under_the_wall_only(path: Path) -> None:
    if not name(path).startswith(SQL):
        assert not PERSONAL_TABLES.search(path.read_text())


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_modules_and_functions_stay_short(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= LONGEST_MODULE
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno < LONGEST_FUNCTION, node.name


def test_no_model_has_a_manager_that_looks_harmless() -> None:
    from django.apps import apps

    for model in apps.get_app_config("evidence").get_models():
        assert not hasattr(model, "objects"), model
        assert model._default_manager.name == "unscoped", model
