"""``manage.py demo``: load or remove the demo data."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.utils import timezone
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from typing_extensions import override

from demo import life
from operations import demo_data


class Command(BaseCommand):
    help = "Load the demo data of a fictional person, or remove it and revoke all access to it."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("action", choices=["load", "remove"])

    @override
    def handle(self, *args: Any, action: str, **options: Any) -> None:
        if action == "load":
            self._load()
        else:
            removed = demo_data.remove_demo(now=timezone.now())
            self.stdout.write(f"Removed {removed} demo connections and all their records.")

    def _load(self) -> None:
        console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
            bar = progress.add_task("Loading the demo data", total=life.RECORD_COUNT)
            result = demo_data.load_demo(
                now=timezone.now(),
                on_progress=lambda progress_result: progress.update(
                    bar, completed=progress_result.lines
                ),
            )
        self.stdout.write(f"Loaded {result.accepted:,} records of demo data.")
