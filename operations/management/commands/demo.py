"""``manage.py demo remove``: remove what ``manage.py seed`` loaded."""

from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone
from typing_extensions import override

from evidence.management.owner_command import OwnerCommand
from operations import demo_data


class Command(OwnerCommand):
    help = "Remove the demo data and generated records, and revoke all access to them."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("action", choices=["remove"])

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        removed = demo_data.remove_demo(now=timezone.now())
        self.stdout.write(f"Removed {removed} demo connections and all their records.")
