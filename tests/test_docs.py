"""Every setting, command and error code is documented, and nothing documented is missing."""

import ast
import re
import tomllib
from itertools import chain
from pathlib import Path

import pytest

from demo import life
from evidence.errors import Code
from pdpp_site.command_line import GROUPS
from tests.pdpp_site.test_settings import CODE, documented, named_in_code, read_in_settings

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
MAX_WORDS = 15_000
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.glob("*.md"), *ROOT.glob("[bd]e*/**/*.md")])
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(#[^)\s]+)?\)")


def adapter_codes() -> set[str]:
    """Return the codes of the errors that the MCP adapter raises itself."""
    trees = [ast.parse(path.read_text()) for path in (ROOT / "mcp_adapter").rglob("*.py")]
    return {
        node.args[0].value
        for node in chain.from_iterable(map(ast.walk, trees))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "AdapterError"
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    }


def first_cells(page: str) -> list[str]:
    """Return the names in the first column of the tables of a page."""
    return re.findall(r"^\| `([\w-]+)` \|", (DOCS / page).read_text(), re.MULTILINE)


def anchors(path: Path) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {
        "#" + re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings
    }


def test_every_setting_is_documented() -> None:
    assert documented() == named_in_code()
    assert read_in_settings() <= documented()


def test_every_command_is_documented() -> None:
    assert sorted(first_cells("commands.md")) == sorted(chain.from_iterable(GROUPS.values()))


def test_every_error_code_is_documented() -> None:
    assert sorted(first_cells("errors.md")) == sorted({*Code, *adapter_codes()})


def test_every_kind_of_export_is_documented() -> None:
    manifests = (ROOT / "importers", ROOT / "extras/pdpp_importers_extra")
    listed = [tomllib.loads((each / "importers.toml").read_text()) for each in manifests]
    first_column = re.findall(r"^\| (`[^|]+) \|", (DOCS / "importing.md").read_text(), re.MULTILINE)

    kinds = {each["name"] for manifest in listed for each in manifest["importers"]}
    assert {name for cell in first_column for name in re.findall(r"`([\w-]+)`", cell)} == kinds


def test_story_of_the_readme_is_in_the_demo() -> None:
    text = (ROOT / "README.md").read_text()
    cited = re.findall(r"`(cin_demo_\w+)/(\w+):(\w+)`", text)
    records = {
        (each["connection_id"], each["stream"], each["key"]): each["data"]
        for each in life.records()
    }

    assert len(cited) == 3
    for record in cited:
        assert "DR-25-0193" in str(records[record]) or "loyer" in str(records[record]).lower()
    assert "186,40 €" in str(records[cited[0]])
    assert records[cited[1]]["amount"] == -186_40
    assert "€186.40" in text


def test_files_named_for_contributors_exist() -> None:
    named = re.findall(r"`([\w.-]+/[\w./-]*)`", (ROOT / "CONTRIBUTING.md").read_text())

    assert len(named) > 20
    assert [name for name in named if not (ROOT / name).exists() and "management" not in name] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_resolve(page: Path) -> None:
    for name, anchor in LINK.findall(page.read_text()):
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), name
        if anchor:
            assert anchor in anchors(target), f"{name}{anchor}"


def test_pages_that_the_code_names_exist() -> None:
    text = "".join(
        path.read_text()
        for name in (*CODE, "bench", "deploy", "tests")
        for path in (ROOT / name).rglob("*")
        if path.suffix in {".conf", ".example", ".html", ".py", ".service", ".toml", ".yaml"}
    )
    named = set(re.findall(r"\bdocs/[\w-]+\.md", text))

    assert len(named) > 5
    assert {name for name in named if not (ROOT / name).exists()} == set()


def test_every_page_is_linked_from_another() -> None:
    linked = {
        (page.parent / name).resolve()
        for page in PAGES
        for name, _ in LINK.findall(page.read_text())
    }

    assert {page.name for page in DOCS.glob("*.md") if page not in linked} == set()


def test_docs_are_short() -> None:
    # The statements of life-of-a-request are code; the tables of security.md are for reviewers.
    pages = [page for page in DOCS.glob("*.md") if page.name != "security.md"]
    prose = (page.read_text().partition("## Statements")[0] for page in pages)
    words = sum(len(text.split()) for text in prose)

    assert words <= MAX_WORDS, f"{words} words; shorten a page, or move figures to bench/RESULTS.md"
