"""``manage.py owner-token``: a bearer for the owner's own programs, over ``/v1``."""

from datetime import timedelta
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone
from typing_extensions import override

from evidence.access.grant_text import format_day
from evidence.access.tokens import create_owner_token
from evidence.management.argument_types import days
from evidence.management.owner_command import OwnerCommand
from evidence.models.owners import current_owner

DAYS = 90


class Command(OwnerCommand):
    """The bearer alone goes to standard output, so that it can be put where it is needed."""

    help = "Print a token that reads and writes everything at /v1. It is shown once."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--days", type=days, default=DAYS, help="How long it works (default: %(default)s)."
        )

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        now = timezone.now()
        ends = now + timedelta(days=options["days"])
        owner_id = current_owner()
        self.stdout.write(create_owner_token(owner_id=owner_id, now=now, expires_at=ends))
        self.stderr.write(
            f"It reads and writes everything at /v1 until {format_day(ends)}. Never give it to an agent:"
            " make a grant for one, with  manage.py grant."
        )
