"""``manage.py setup-link``: a new one-time link for the owner's account."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.urls import reverse
from django.utils import timezone
from typing_extensions import override

from operations import schema_version
from owner.accounts import setup


class Command(BaseCommand):
    """Prints the link. The one before it, if it is still open, ends.

    It is asked for as soon as the service is enabled, which may not have made its tables by then.
    """

    help = "Print a one-time link with which the owner sets a user name and password."

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        with schema_version.migrate_once():
            self.stdout.write(address(setup.create_link(timezone.now())))


def address(token: str) -> str:
    """Where the owner opens a set-up token."""
    return f"{settings.PDPP_PUBLIC_URL}{reverse('set-up', args=[token])}"
