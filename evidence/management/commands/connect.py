"""``manage.py connect``: create a connection of a declared source and print its id."""

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone
from typing_extensions import override

from evidence.errors import ApiException
from evidence.management.owner_command import OwnerCommand
from evidence.models.owners import current_owner
from evidence.write.connections import create_connection


class Command(OwnerCommand):
    help = "Create a connection of a declared source and print its id."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("connector_key", metavar="CONNECTOR_KEY")
        parser.add_argument("--name", required=True, help="The connection's label.")
        parser.add_argument(
            "--language",
            action="append",
            default=[],
            help="A language of its texts, such as en. Repeat for several.",
        )
        parser.add_argument(
            "--identity",
            action="append",
            default=[],
            help="Your address, user id or name in the source, which identifies records that you"
            " wrote. Repeat for several.",
        )
        parser.add_argument("--id", help="The id that an export uses for it; random by default.")

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        now = timezone.now()
        try:
            connection_id = create_connection(
                options["connector_key"],
                display_name=options["name"],
                owner_id=current_owner(),
                languages=options["language"],
                identities=options["identity"],
                connection_id=options["id"],
                labelled_by_owner=True,
                now=now,
            )
        except ApiException as error:
            raise CommandError(error.message) from error
        self.stdout.write(connection_id)
