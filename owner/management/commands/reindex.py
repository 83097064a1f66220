"""``manage.py reindex``: rebuild search text after a change of language or analyzer, and people."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from django.core.management.base import CommandError, CommandParser
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn
from typing_extensions import override

from evidence.errors import ApiException
from evidence.management.owner_command import EveryOwnerCommand
from evidence.models.owners import acting_for, current_owner, in_turn
from evidence.write.connections import connection_ids
from evidence.write.reindex import count_records, mark_outdated, outdated_connections, reindex
from evidence.write.writer import storage_errors
from owner.records import people_index


class Command(EveryOwnerCommand):
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
        outdated = self._select_connections(options)
        try:
            with storage_errors():
                self._reindex(outdated)
                people = sum(in_turn(lambda: outdated, people_index.derive_people))
        except ApiException as error:
            raise CommandError(f"{error.message} Run again to complete it.") from error
        except KeyboardInterrupt:
            raise CommandError("Stopped. Run again to complete it.") from None
        if people:
            self.stdout.write(f"Collected the people of {people:,} records.")

    def _reindex(self, outdated: Mapping[str, list[str]]) -> None:
        """Reindex the outdated connections by owner."""
        number = sum(map(len, outdated.values()))
        if not number:
            self.stdout.write("All search text is up to date.")
            return
        total = sum(in_turn(lambda: outdated, lambda: [count_records(outdated[current_owner()])]))
        with _progress(total) as advance:
            steps = in_turn(lambda: outdated, lambda: reindex(outdated[current_owner()]))
            records = sum(map(advance, steps))
        self.stdout.write(f"Reindexed {records:,} records of {number} connections.")

    def _select_connections(self, options: Mapping[str, Any]) -> dict[str, list[str]]:
        """Return the outdated connections of each owner, among those that the options name."""
        connection_id, outdated = options["connection"], {}
        for owner_id in self.owner_ids(options):
            with acting_for(owner_id):
                existing = connection_ids()
                if connection_id is not None and connection_id not in existing:
                    continue
                selected = existing if connection_id is None else {connection_id}
                if options["all"]:
                    mark_outdated(selected)
                outdated[owner_id] = [pk for pk in outdated_connections() if pk in selected]
        if connection_id is not None and not outdated:
            raise CommandError(f"No connection {connection_id}.")
        return outdated


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
