"""``manage.py undistribute``: bring the rows of owners back from the nodes to the coordinator."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from typing_extensions import override

from operations import distribution


class Command(BaseCommand):
    help = "Bring all rows back to the coordinator, which needs the space. Stop the servers first."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="Print the plan only.")

    @override
    def handle(self, *args: Any, dry_run: bool, **options: Any) -> None:
        try:
            distribution.check_cluster()
        except distribution.ClusterError as error:
            raise CommandError(str(error)) from error
        for placement in distribution.placements():
            step = "back to the coordinator" if placement.is_placed else "unchanged"
            self.stdout.write(f"{placement.table}: {step}.")
        if dry_run:
            self.stdout.write("Nothing was changed (--dry-run).")
            return
        distribution.undistribute()
        self.stdout.write("All rows are on the coordinator.")
