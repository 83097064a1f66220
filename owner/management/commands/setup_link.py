"""``manage.py setup-link``: a new one-time link for the owner's account."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.utils import timezone
from typing_extensions import override

from evidence.management.owner_command import add_owner_argument, named_owner
from operations import health
from owner.accounts import setup


class Command(BaseCommand):
    """Prints the link. The owner's one before it, if it is still open, ends.

    It is asked for as soon as the service is enabled, which may not have made its tables by then.
    """

    help = "Print a one-time link with which an owner sets a user name and password."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        add_owner_argument(parser)

    @override
    def handle(self, *args: Any, owner: str | None, **options: Any) -> None:
        with health.migrate_once():
            link = setup.create_link(named_owner(owner), now=timezone.now())
        self.stdout.write(setup.link_url(link))
