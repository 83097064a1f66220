"""``manage.py declare FILE…``: what sources hold, taken from their declarations."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone
from rich.console import Console
from typing_extensions import override

from evidence.errors import ConnectorInvalid
from evidence.models.accounts import the_owner
from evidence.storing.declaration_store import Accepted, declare


class Command(BaseCommand):
    """Takes each file that is valid, and names every fault of each that is not."""

    help = "Check source declarations (JSON) and make them current."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("files", nargs="+", type=Path, metavar="FILE")

    @override
    def handle(self, *args: Any, files: list[Path], **options: Any) -> None:
        refused = [str(file) for file in files if not self._declare(file)]
        if refused:
            raise CommandError(f"Not declared: {', '.join(refused)}")

    def _declare(self, file: Path) -> bool:
        now = timezone.now()
        try:
            document = file.read_bytes()
            with Console(stderr=True).status("Declaring") as status:
                accepted = declare(
                    document,
                    owner_id=the_owner(now).owner_id,
                    now=now,
                    on_progress=lambda done: status.update(f"{done:,} records derived anew"),
                )
        except OSError as error:
            self.stderr.write(f"{file}: {error.strerror}")
        except ConnectorInvalid as refusal:
            self._name_faults(file, refusal)
        else:
            self.stdout.write(_line(accepted))
            return True
        return False

    def _name_faults(self, file: Path, refusal: ConnectorInvalid) -> None:
        faults = refusal.extra.get("faults")
        for fault in faults if isinstance(faults, list) else []:
            self.stderr.write(f"{file}: {fault['path']}: {fault['code']}: {fault['message']}")


def _line(accepted: Accepted) -> str:
    name = f"{accepted.connector_key} {accepted.version}"
    if not accepted.changed:
        return f"{name}: already declared"
    return f"{name}: declared (revision {accepted.revision})"
