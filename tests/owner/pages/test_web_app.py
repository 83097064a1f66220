"""The owner's pages as an installed web app: manifest, icons, and nothing offline."""

import json
import re
import struct
from pathlib import Path
from urllib.parse import urljoin

import pytest
from django.contrib.staticfiles import finders
from django.http import HttpResponse
from django.template.loader import render_to_string
from django.test import Client as HttpClient
from django.test import RequestFactory

from owner.permissions import CONTENT_SECURITY_POLICY
from tests.owner.pages.browser import Browser, Page
from tests.world import World

MANIFEST = "/static/owner/manifest.json"
STYLES = Path(str(finders.find("owner/ui.css"))).parent
TEMPLATES = STYLES.parents[1] / "templates" / "owner"
LAYOUT = re.compile(r"([^{}]+)\{[^}]*display: (?:grid|flex)")
CELL = re.compile(r'<t[dh]\s[^>]*class="([^"]*)"')
EMPTY_HEAD = re.compile(r'class="cells[^>]*>\s*<thead>(?:(?!</thead>).)*<td', re.DOTALL)


def linked(alice: Browser, path: str) -> dict[str, list[str]]:
    """The addresses that a page links, by relation."""
    found: dict[str, list[str]] = {}
    for tag, given in alice.open(path).elements:
        if tag == "link":
            found.setdefault(str(given["rel"]), []).append(str(given["href"]))
    return found


@pytest.mark.parametrize("path", ["/", "/login", "/admin/", "/notifications", "/none"])
def test_each_page_links_manifest_and_icons(world: World, alice: Browser, path: str) -> None:
    alice.http.defaults["HTTP_ACCEPT"] = "text/html"
    links = linked(alice, path)

    assert links["manifest"] == [MANIFEST]
    for address in [*links["icon"], *links["apple-touch-icon"]]:
        assert finders.find(address.removeprefix("/static/")), address


def test_manifest_names_icons_of_their_size() -> None:
    manifest = json.loads(Path(str(finders.find("owner/manifest.json"))).read_text())

    assert (manifest["start_url"], manifest["scope"], manifest["display"]) == (
        "/", "/", "standalone",
    )  # fmt: skip
    for icon in manifest["icons"]:
        address = urljoin(MANIFEST, icon["src"]).removeprefix("/static/")
        content = Path(str(finders.find(address))).read_bytes()
        if icon["type"] == "image/png":
            width, height = struct.unpack(">II", content[16:24])
            assert f"{width}x{height}" == icon["sizes"]
        else:
            assert b"<script" not in content


def test_manifest_is_served_with_its_type(db: None) -> None:
    answer = HttpClient().get(MANIFEST)

    assert answer.status_code == 200
    assert answer["Content-Type"].startswith("application/json")
    answer.close()


def test_policy_allows_no_worker_and_no_other_origin() -> None:
    assert "manifest-src 'self'" in CONTENT_SECURITY_POLICY
    assert "worker-src" not in CONTENT_SECURITY_POLICY
    scripts = STYLES.glob("*.js")
    assert not [each for each in scripts if "serviceWorker" in each.read_text()]


def test_the_style_guide_is_for_those_who_work_on_the_pages(world: World, alice: Browser) -> None:
    """It is served in debug alone; so it is rendered here."""
    request = RequestFactory().get("/styleguide")
    page = Page("/styleguide", HttpResponse(render_to_string("owner/styleguide.html", {}, request)))

    assert alice.http.get("/styleguide").status_code == 404
    assert {"Buttons", "Form", "Table", "Chart"} <= set(page.text.split())
    styles = "".join(path.read_text() for path in STYLES.glob("*.css"))
    named = {each for _, given in page.elements for each in (given.get("class") or "").split()}
    assert [each for each in sorted(named) if f".{each}" not in styles] == []


def test_a_page_adds_little_to_the_components() -> None:
    lengths = {path.name: len(path.read_text().splitlines()) for path in STYLES.glob("*.css")}

    assert lengths.pop("ui.css") > max(lengths.values())
    assert {name: each for name, each in lengths.items() if each > 80} == {}


def test_cells_of_a_table_are_as_high_as_their_row() -> None:
    """A cell that is a grid or a flexible box is as high as its own content."""
    styles = "".join(path.read_text() for path in STYLES.glob("*.css"))
    rules = {each.strip() for found in LAYOUT.findall(styles) for each in found.split(",")}

    wrong = []
    for path in sorted(TEMPLATES.rglob("*.html")):
        text = path.read_text()
        names = {
            f".{name}" for given in CELL.findall(text) for name in re.findall(r"[\w-]+", given)
        }
        wrong += [(path.name, name) for name in names & rules]
        wrong += [(path.name, "no line below the head")] if EMPTY_HEAD.search(text) else []

    assert wrong == []
