"""``manage.py keep``: show or set how long records are kept."""

from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone
from typing_extensions import override

from evidence.errors import ApiException
from evidence.management.owner_command import OwnerCommand
from evidence.models.owners import current_owner
from evidence.write.connections import get_connection, list_connections
from evidence.write.retention import retention_periods, set_retention


class Command(OwnerCommand):
    help = "Show or set retention periods. Older records are erased hourly."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("connection_id", nargs="?", help="Connection id, cin_….")
        parser.add_argument("--stream", default="", help="Set the period of this stream only.")
        period = parser.add_mutually_exclusive_group()
        period.add_argument("--days", type=int, help="Erase records older than this.")
        period.add_argument("--for-good", action="store_true", help="Keep records forever.")

    @override
    def handle(self, *args: Any, connection_id: str | None, **options: Any) -> None:
        now = timezone.now()
        owner_id = current_owner()
        if connection_id is None and (options["days"] is not None or options["for_good"]):
            raise CommandError("Name a connection. Run manage.py keep to list them.")
        if connection_id is None:
            for row in list_connections(owner_id):
                self._print_periods(row.connection_id)
            return
        try:
            get_connection(connection_id, owner_id=owner_id)
            if options["days"] is not None or options["for_good"]:
                set_retention(
                    connection_id, days=options["days"], stream=options["stream"], now=now
                )
        except ApiException as error:
            raise CommandError(error.message) from error
        self._print_periods(connection_id)

    def _print_periods(self, connection_id: str) -> None:
        periods = retention_periods(connection_id)
        lines = [
            f"{stream or 'everything else' if len(periods) > 1 else stream or 'everything'}"
            f" {days:,} days"
            for stream, days in periods.items()
        ]
        self.stdout.write(f"{connection_id}: {', '.join(lines) or 'kept forever'}")
