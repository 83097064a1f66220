"""``manage.py reindex``: make search text anew where languages or the analyser have changed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn
from typing_extensions import override

from evidence.errors import Refusal
from evidence.storing.connections import connection_ids
from evidence.storing.reindex import make_pending, pending, records_of, reindex
from evidence.storing.writer import failures_told


class Command(BaseCommand):
    """A run that was stopped is completed by another, or by the server."""

    help = (
        "Index records anew whose search text is of other languages or of an earlier analyser."
        " The server does the same by itself in the background; searches go on meanwhile."
    )

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--connection", metavar="ID", help="Only this connection.")
        parser.add_argument(
            "--all", action="store_true", help="Also what is up to date, from the beginning."
        )

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        chosen = self._chosen(options["connection"], everything=options["all"])
        if not chosen:
            self.stdout.write("Every search index is up to date.")
            return
        try:
            with failures_told(), _progress(records_of(chosen)) as advance:
                done = sum(map(advance, reindex(chosen)))
        except Refusal as refusal:
            raise CommandError(f"{refusal.message} Run it again for the rest.") from refusal
        except KeyboardInterrupt:
            raise CommandError("Stopped. Run it again for the rest.") from None
        self.stdout.write(f"{done:,} records of {len(chosen)} connections are indexed.")

    def _chosen(self, connection_id: str | None, *, everything: bool) -> list[str]:
        known = connection_ids()
        if connection_id is not None and connection_id not in known:
            raise CommandError(f"There is no connection {connection_id}.")
        named = known if connection_id is None else {connection_id}
        if everything:
            make_pending(named)
        return [each for each in pending() if each in named]


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], int]]:
    """Takes how many are done more, and gives it back."""
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=total)

        def advance(count: int) -> int:
            progress.advance(task, count)
            return count

        yield advance
