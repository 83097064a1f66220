"""``manage.py declare``: validate source declarations and make them current."""

from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone
from rich.console import Console
from typing_extensions import override

from evidence.errors import ConnectorInvalid
from evidence.management.owner_command import OwnerCommand
from evidence.models.owners import current_owner
from evidence.write.declaration_store import PublishedDeclaration, declare


class Command(OwnerCommand):
    """Publishes every valid file, and lists every error of the others."""

    help = "Validate source declarations (JSON) and make them current."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("files", nargs="+", type=Path, metavar="FILE")

    @override
    def handle(self, *args: Any, files: list[Path], **options: Any) -> None:
        rejected = [str(file) for file in files if not self._declare(file)]
        if rejected:
            raise CommandError(f"Not declared: {', '.join(rejected)}")

    def _declare(self, file: Path) -> bool:
        now = timezone.now()
        try:
            document = file.read_bytes()
            with Console(stderr=True).status("Declaring") as status:
                published = declare(
                    document,
                    owner_id=current_owner(),
                    now=now,
                    on_progress=lambda done: status.update(f"{done:,} records recomputed"),
                )
        except OSError as error:
            self.stderr.write(f"{file}: {error.strerror}")
        except ConnectorInvalid as error:
            self._write_errors(file, error)
        else:
            self.stdout.write(_describe(published))
            return True
        return False

    def _write_errors(self, file: Path, error: ConnectorInvalid) -> None:
        errors = error.extra.get("faults")
        for entry in errors if isinstance(errors, list) else []:
            self.stderr.write(f"{file}: {entry['path']}: {entry['code']}: {entry['message']}")


def _describe(published: PublishedDeclaration) -> str:
    name = f"{published.connector_key} {published.version}"
    if not published.changed:
        return f"{name}: already declared"
    return f"{name}: declared (revision {published.revision})"
