"""``manage.py reindex``: rebuild search text after a change of language or analyzer, and people."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn
from typing_extensions import override

from evidence.errors import ApiException
from evidence.write.connections import connection_ids
from evidence.write.reindex import count_records, mark_outdated, outdated_connections, reindex
from evidence.write.writer import storage_errors
from owner.records import people_index


class Command(BaseCommand):
    """Run it again, or start the server, to complete an interrupted run."""

    help = (
        "Rebuild search text after a change of languages or analyzer, and the people in new records."
        " The server does the same in the background; searches continue to work."
    )

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--connection", metavar="ID", help="Only this connection.")
        parser.add_argument(
            "--all", action="store_true", help="Rebuild up-to-date search text and people too."
        )

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        outdated = self._select_connections(options["connection"], rebuild_all=options["all"])
        try:
            with storage_errors():
                self._reindex(outdated)
                people = sum(people_index.derive_people())
        except ApiException as error:
            raise CommandError(f"{error.message} Run again to complete it.") from error
        except KeyboardInterrupt:
            raise CommandError("Stopped. Run again to complete it.") from None
        if people:
            self.stdout.write(f"Collected the people of {people:,} records.")

    def _reindex(self, outdated: list[str]) -> None:
        if not outdated:
            self.stdout.write("All search text is up to date.")
            return
        with _progress(count_records(outdated)) as advance:
            records = sum(map(advance, reindex(outdated)))
        self.stdout.write(f"Reindexed {records:,} records of {len(outdated)} connections.")

    def _select_connections(self, connection_id: str | None, *, rebuild_all: bool) -> list[str]:
        existing = connection_ids()
        if connection_id is not None and connection_id not in existing:
            raise CommandError(f"No connection {connection_id}.")
        selected = existing if connection_id is None else {connection_id}
        if rebuild_all:
            mark_outdated(selected)
        return [
            connection_id for connection_id in outdated_connections() if connection_id in selected
        ]


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], int]]:
    """Yield a function that advances a progress bar by a count and returns the count."""
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=total)

        def advance(count: int) -> int:
            progress.advance(task, count)
            return count

        yield advance
