"""``manage.py seed``: load the demo data, a year of it, or generated records."""

from functools import partial
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from typing_extensions import override

from demo import life
from evidence.management import argument_types
from evidence.management.owner_command import OwnerCommand
from operations import demo_data


class Command(OwnerCommand):
    help = (
        "Load the demo data of a fictional person, a year of it, or generated records. "
        "Loading again changes nothing; demo remove takes everything away."
    )

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        what = parser.add_mutually_exclusive_group()
        what.add_argument(
            "--year", action="store_true", help="The last year of the demo data only."
        )
        what.add_argument(
            "--records",
            type=argument_types.count,
            metavar="N",
            help="N generated records of mail, chat and bank instead, without meaning.",
        )

    @override
    def handle(self, *args: Any, year: bool, records: int | None, **options: Any) -> None:
        if records:
            load, total = partial(demo_data.load_generated, records), records
        else:
            load = partial(demo_data.load_demo, last_year=year)
            total = sum(1 for _ in life.last_year()) if year else life.RECORD_COUNT
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as progress:
            bar = progress.add_task("Loading records", total=total)
            result = load(
                now=timezone.now(),
                on_progress=lambda loaded: progress.update(bar, completed=loaded.lines),
            )
        self.stdout.write(f"Loaded {result.accepted:,} records.")
