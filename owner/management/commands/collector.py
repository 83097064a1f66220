"""``manage.py collector``: tokens of programs that store records and read none."""

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone
from typing_extensions import override

from evidence.access.tokens import create_collector, list_collectors, revoke_collector
from evidence.errors import ApiException
from evidence.management.owner_command import OwnerCommand
from owner.text import escape_invisible, format_time


class Command(OwnerCommand):
    """``add`` prints the token alone to standard output, so that it can be put where it is needed."""

    help = "Add, list or revoke tokens of programs that store records of some connections."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        adding = actions.add_parser("add", help="Print a token; it is shown once.")
        adding.add_argument("name", help="What the program is called in lists.")
        adding.add_argument(
            "--connection",
            action="append",
            required=True,
            metavar="ID",
            help="A connection that it may write to; repeatable.",
        )
        actions.add_parser("list", help="Show them with their connections and last use.")
        revoking = actions.add_parser("revoke", help="End a token now.")
        revoking.add_argument("id", help="As in the list.")

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        now = timezone.now()
        if options["action"] == "list":
            for row in list_collectors():
                used = format_time(row.used_at, never="never used")
                places = ", ".join(row.connection_ids)
                self.stdout.write(f"{row.pk}  {escape_invisible(row.name)}  {places}  {used}")
        elif options["action"] == "revoke":
            if not revoke_collector(options["id"], now=now):
                raise CommandError("No collector has this id.")
            self.stdout.write("Revoked.")
        else:
            try:
                token = create_collector(options["name"], options["connection"], now=now)
            except ApiException as error:
                raise CommandError(error.message) from error
            self.stdout.write(token)
            self.stderr.write(
                "It stores records, files and state of these connections at /v1, until you revoke it."
            )
