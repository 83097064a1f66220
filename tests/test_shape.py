"""The shape of the code, where no linter looks."""

import re
import tomllib
from pathlib import Path

import grimp
from importlinter.contracts.protected import ProtectedContract

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = (
    "cli", "demo", "evidence", "importers", "mcp_adapter", "operations", "owner", "pdpp_site",
)  # fmt: skip
PRODUCT = (
    "cli",
    "evidence",
    "extras",
    "importers",
    "mcp_adapter",
    "operations",
    "owner",
    "pdpp_site",
)
SOURCES = sorted(
    path
    for package in (*PACKAGES, "extras")
    for path in (ROOT / package).rglob("*.py")
    if "migrations" not in path.parts
)

UNSCOPED = (
    "evidence/models/",
    "evidence/management/owner_command.py",  # the directory of owners
    "pdpp_site/management/commands/keys.py",  # encrypts the secrets of every owner again
    "evidence/access/",
    "evidence/write/",
    "evidence/ledger/",
    "evidence/read/changes.py",  # bookmarks too long to return inline
    "owner/",
    "evidence/events/",  # subscriptions and what is on its way to them
    "importers/models.py",
    "importers/runs/",  # runs, their receipts, uploads, and connections by name
    "importers/sources/",  # accounts of live sources and their items
    "operations/backup/",  # plans and copies
    "operations/notifications/",  # notifications and their channels
    "operations/demo_data.py",  # which connections are the demo's
)
"""Where rows are fetched without a scope: under the wall, and where no personal row can be."""

PERSONAL_TABLES = re.compile(
    r"(?<!admin:)(?<!, \")evidence_(record|recordchange|searchtext|passage|blob|blobchunk)\b",
    re.IGNORECASE,
)
"""Not the names of pages: ``admin:evidence_record`` and ``view, "evidence_record"``."""
PEOPLE_TABLES = re.compile(r"\bpeople_(mention|personcount|personmerge|peopleprogress)\b")
SQL = (
    "evidence/access/",
    "evidence/write/",
    "evidence/models/",
    "evidence/management/owner_command.py",  # the directory of owners
    "pdpp_site/management/commands/keys.py",  # encrypts the secrets of every owner again
    "demo/",
    "operations/backup/table_copy.py",  # copies whole tables, sealed to the owner's key
)

BUDGETS = ROOT / "tests" / "budgets.toml"
SLACK = 100
"""Lines by which a budget may exceed its package, so that not every commit has to lower it."""


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


def test_an_import_contract_keeps_people_from_grants() -> None:
    """Identities that join sources are for the owner alone; see THREAT_MODEL.md, breach 1."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    [contract] = [each for each in contracts["contracts"] if "people" in each["name"]]
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    checker = ProtectedContract(contract["name"], {"root_packages": PACKAGES}, contract)
    assert checker.check(graph, verbose=False).kept

    for importer in ("evidence.api.envelopes", "evidence.search.lexical", "evidence.read.search",
                     "evidence.access.gate", "evidence.ledger.entries", "mcp_adapter.server",
                     "owner.grants.preview", "cli.main"):  # fmt: skip
        for imported in contract["protected_modules"]:
            graph.add_import(importer=importer, imported=imported)
            assert not checker.check(graph, verbose=False).kept, (importer, imported)
            graph.remove_import(importer=importer, imported=imported)


def test_tables_of_people_are_named_where_they_are_written_only() -> None:
    named = {name(path) for path in SOURCES if PEOPLE_TABLES.search(path.read_text())}
    assert named == {
        "operations/backup/table_copy.py",
        "owner/records/mentions.py",
    }


def test_lines_of_templates_can_be_read() -> None:
    found = [path for folder in PACKAGES for path in (ROOT / folder).rglob("templates/**/*.html")]
    assert found
    assert [
        f"{name(path)}:{number}"
        for path in found
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > 160
    ] == []


def test_packages_stay_within_their_budgets() -> None:
    budgets = tomllib.loads(BUDGETS.read_text())
    lines = {package: counted(package)[0] for package in budgets["lines"]}
    modules = sum(counted(package)[1] for package in PRODUCT) + 1  # manage.py
    too_large = {name: count for name, count in lines.items() if count > budgets["lines"][name]}
    too_generous = {
        name: count for name, count in lines.items() if count < budgets["lines"][name] - SLACK
    }
    assert set(budgets["lines"]) == {*PRODUCT, "tests"}
    assert too_large == {}, "remove lines, or raise the budget with a sentence why"
    assert too_generous == {}, "lower the budget to what was earned"
    assert budgets["modules"] - 5 <= modules <= budgets["modules"]


def counted(package: str) -> tuple[int, int]:
    """Return the lines and the modules of Python in a package, without migrations."""
    found = [path for path in (ROOT / package).rglob("*.py") if "migrations" not in path.parts]
    return sum(len(path.read_text().splitlines()) for path in found), len(found)


def test_no_model_has_a_manager_that_looks_harmless() -> None:
    from django.apps import apps
    from django_otp.models import Device

    ours = [app for app in apps.get_app_configs() if app.name.partition(".")[0] in PACKAGES]
    for model in (model for app in ours for model in app.get_models()):
        # django-otp finds its devices by that name.
        assert not hasattr(model, "objects") or issubclass(model, Device), model
        assert model._default_manager.name == "unscoped", model
