"""Who is asked, and who asks."""

from typing import TYPE_CHECKING

import pytest

from tests.owner.pages.browser import Browser
from tests.owners import sign_up

if TYPE_CHECKING:
    from tests.owner.consent.client import Asking
    from tests.world import World


@pytest.fixture
def alice(world: "World") -> Browser:
    """The owner, signed in, with the cast's records and grants there."""

    return Browser().sign_in(sign_up("alice"))


@pytest.fixture
def asking(world: "World") -> "Asking":
    """A client that has registered, and the owner at a browser."""
    from tests.owner.consent.client import Asking  # models can be imported once Django is set up

    return Asking.registered()
