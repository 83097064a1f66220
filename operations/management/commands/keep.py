"""``manage.py keep``: how long a connection's records are kept, or those of one stream of it."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone
from typing_extensions import override

from evidence.errors import Refusal
from evidence.models.accounts import the_owner
from evidence.storing.connections import owned, owned_row
from evidence.storing.retention import keep_for, kept_for


class Command(BaseCommand):
    """Without a period it says what holds. What is older is erased every hour, for good."""

    help = "Say how long records are kept, or set it: older ones are then erased every hour."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("connection_id", nargs="?", help="The id of the connection, cin_….")
        parser.add_argument(
            "--stream", default="", help="Only this stream, whatever the others are kept."
        )
        how_long = parser.add_mutually_exclusive_group()
        how_long.add_argument("--days", type=int, help="Erase what is older.")
        how_long.add_argument("--for-good", action="store_true", help="Erase nothing by age.")

    @override
    def handle(self, *args: Any, connection_id: str | None, **options: Any) -> None:
        now = timezone.now()
        owner_id = the_owner(now).owner_id
        if connection_id is None and (options["days"] is not None or options["for_good"]):
            raise CommandError("Of which connection? Without anything, keep lists them.")
        if connection_id is None:
            for row in owned(owner_id):
                self._say(row.connection_id)
            return
        try:
            owned_row(connection_id, owner_id=owner_id)
            if options["days"] is not None or options["for_good"]:
                keep_for(connection_id, days=options["days"], stream=options["stream"], now=now)
        except Refusal as refusal:
            raise CommandError(refusal.message) from refusal
        self._say(connection_id)

    def _say(self, connection_id: str) -> None:
        periods = kept_for(connection_id)
        said = [
            f"{stream or 'everything else' if len(periods) > 1 else stream or 'everything'}"
            f" {days:,} days"
            for stream, days in periods.items()
        ]
        self.stdout.write(f"{connection_id}: {', '.join(said) or 'kept for good'}")
