"""``manage.py invite``: a one-time link with which somebody becomes another owner."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.utils import timezone
from typing_extensions import override

from owner.accounts import setup


class Command(BaseCommand):
    help = "Print a one-time link with which somebody becomes another owner of this server."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--name", metavar="NAME", default="", help="The user name that the link proposes."
        )

    @override
    def handle(self, *args: Any, name: str, **options: Any) -> None:
        link = setup.create_invitation(name=name, now=timezone.now())
        self.stdout.write(setup.link_url(link))
