"""``manage.py connect CONNECTOR_KEY --name LABEL``: one mailbox, one workspace, one account."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone
from typing_extensions import override

from evidence.errors import Refusal
from evidence.models.accounts import the_owner
from evidence.storing.connections import connect


class Command(BaseCommand):
    """Prints the id of the new connection and nothing else."""

    help = "Make a connection of a declared source and print its id."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("connector_key", metavar="CONNECTOR_KEY")
        parser.add_argument("--name", required=True, help="The label that the owner will see.")
        parser.add_argument(
            "--language",
            action="append",
            default=[],
            help="A language of its texts, such as en; may be given several times.",
        )
        parser.add_argument(
            "--identity",
            action="append",
            default=[],
            help="How the source calls you: an address, a user id, a name; may be given several"
            " times. Records that you wrote are told from others' by it.",
        )
        parser.add_argument("--id", help="Its id, where an export names one; made up otherwise.")

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        now = timezone.now()
        try:
            connection_id = connect(
                options["connector_key"],
                display_name=options["name"],
                owner_id=the_owner(now).owner_id,
                languages=options["language"],
                identities=options["identity"],
                connection_id=options["id"],
                labelled_by_owner=True,
                now=now,
            )
        except Refusal as refusal:
            raise CommandError(refusal.message) from refusal
        self.stdout.write(connection_id)
