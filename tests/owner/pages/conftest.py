"""Who opens the owner's pages."""

from typing import TYPE_CHECKING

import pytest

from tests.owner.pages.browser import Browser

if TYPE_CHECKING:
    from tests.world import World


@pytest.fixture
def alice(world: "World") -> Browser:
    """The owner, signed in, with the cast's records and grants there."""
    from django.contrib.auth.models import User

    return Browser().sign_in(User.objects.create_superuser("alice"))
