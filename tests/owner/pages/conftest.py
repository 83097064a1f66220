"""Who opens the owner's pages, and importers and sources that run in a thread."""

from typing import TYPE_CHECKING

import pytest

from importers.core import sandbox, source_process
from tests.importers.sandbox_thread import open_in_thread, start_in_thread
from tests.owner.pages.browser import Browser
from tests.owners import sign_up

if TYPE_CHECKING:
    from tests.world import World


@pytest.fixture(autouse=True)
def _in_thread(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.node.get_closest_marker("subprocess"):
        monkeypatch.setattr(sandbox, "open_session", open_in_thread)
        monkeypatch.setattr(source_process, "start_process", start_in_thread)


@pytest.fixture
def alice(world: "World") -> Browser:
    """The owner, signed in, with the cast's records and grants there."""

    return Browser().sign_in(sign_up("alice"))
