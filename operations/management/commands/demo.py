"""``manage.py demo load`` and ``manage.py demo remove``."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.utils import timezone
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from typing_extensions import override

from demo import life
from operations import demo_data


class Command(BaseCommand):
    """The demo life of one fictional person."""

    help = "Load the demo life, or remove it with everything that was granted over it."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("action", choices=["load", "remove"])

    @override
    def handle(self, *args: Any, action: str, **options: Any) -> None:
        if action == "load":
            self._load()
        else:
            removed = demo_data.remove(now=timezone.now())
            self.stdout.write(f"Removed {removed} demo connections with all their records.")

    def _load(self) -> None:
        console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
            bar = progress.add_task("Loading the demo life", total=life.COUNT)
            outcome = demo_data.load(
                now=timezone.now(),
                on_progress=lambda so_far: progress.update(bar, completed=so_far.lines),
            )
        self.stdout.write(f"Loaded {outcome.accepted:,} records of the demo life.")
