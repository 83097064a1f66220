"""``manage.py distribute``: place the rows of owners on the nodes of a Citus cluster."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from typing_extensions import override

from operations import distribution


class Command(BaseCommand):
    help = (
        "Place each owner's rows on one node of a Citus cluster. Stop the servers first. Repeating it"
        " changes nothing; undistribute undoes it (docs/scale.md)."
    )

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="Print the plan only.")
        parser.add_argument(
            "--shards",
            type=int,
            default=32,
            metavar="N",
            help="Shards per table, at least one for each node that you will ever have (32).",
        )

    @override
    def handle(self, *args: Any, dry_run: bool, shards: int, **options: Any) -> None:
        if not 1 <= shards <= 1024:
            raise CommandError(f"--shards takes 1 to 1024; got {shards}.")
        try:
            distribution.check_cluster()
        except distribution.ClusterError as error:
            raise CommandError(str(error)) from error
        for placement in distribution.placements():
            how = (
                "a copy on each node" if placement.is_everywhere else "rows by owner, on the nodes"
            )
            step = "unchanged" if placement.is_placed else "will be placed"
            self.stdout.write(f"{placement.table}: {how}; {step}.")
        self.stdout.write("All other tables: on the coordinator; unchanged.")
        if dry_run:
            self.stdout.write("Nothing was changed (--dry-run).")
            return
        distribution.distribute(shards=shards)
        self.stdout.write("Distributed. Start the servers.")
