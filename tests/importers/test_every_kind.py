"""Every kind of export has tests against damage."""

import re

from importers.registry import OWN_FOLDER, OWN_PACKAGE, load_importers
from tests.importers.imports import TORTURE


def test_every_kind_is_read_damaged() -> None:
    """A class of ``ImporterTests`` damages an export of the kind."""
    sources = (path.read_text() for path in TORTURE.parent.rglob("test_*.py"))
    tested = {
        name for text in sources for name in re.findall(r'importer_name = "([a-z0-9-]+)"', text)
    }
    assert tested == {each.name for each in load_importers(OWN_PACKAGE, OWN_FOLDER)}
