"""``manage.py sync``: live sources, their state, and a run at once."""

import getpass
import sys
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from typing_extensions import override

from evidence.errors import ApiException
from evidence.management.owner_command import OwnerCommand
from evidence.models.owners import current_owner
from importers.core.source import InstalledSource, SourceError
from importers.models import SourceAccount
from importers.registry import find_source, installed_sources
from importers.sources import accounts, status
from importers.sources.account_store import find_account, is_limit_reached, list_accounts
from importers.sources.runner import sync

NAMES = ", ".join(source.name for source in installed_sources())


class Command(OwnerCommand):
    """Exits with 1 if an account could not be read; the message says what to do."""

    help = "Show the accounts of live sources, sync them now, or connect one."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("names", nargs="*", metavar="NAME", help="Connections to sync now.")
        parser.add_argument("--all", action="store_true", help="Sync all accounts now.")
        parser.add_argument("--connect", metavar="SOURCE", help=f"Connect an account: {NAMES}.")
        parser.add_argument(
            "--set",
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help="A setting of the account, such as user=ida@example.org. May be repeated.",
        )
        parser.add_argument(
            "--folder",
            action="append",
            default=[],
            metavar="NAME",
            help="A folder to read; without it, the usual ones. May be repeated.",
        )
        parser.add_argument("--connection", metavar="ID", help="Add to this connection.")
        parser.add_argument(
            "--mirror", action="store_true", help="Delete what the account deletes."
        )
        parser.add_argument(
            "--daily-mb", type=int, metavar="N", help="Read at most about N megabytes a day."
        )
        parser.add_argument(
            "--private", action="store_true", help="Allow a server in your own network."
        )

    @override
    def handle(self, *args: Any, names: list[str], **options: Any) -> None:
        try:
            if options["connect"]:
                names = [self._connect(options)]
            found = self._find(names) if names else self._accounts()
            if names or options["all"]:
                self._sync(found)
        except ApiException as refusal:
            raise CommandError(refusal.message) from refusal
        except SourceError as error:
            raise CommandError(status.explain(error)) from error
        for account in found:
            current = find_account(account.connection_id, owner_id=current_owner())
            for line in status.status_lines(current or account, now=timezone.now()):
                self.stdout.write(line)
        if found:
            self.stdout.write(f"Times are in {timezone.get_current_timezone_name()}.")
        else:
            self.stdout.write(
                "No account is connected. Connect one with --connect, or on the pages."
            )

    def _accounts(self) -> list[SourceAccount]:
        return list(list_accounts(current_owner()))

    def _find(self, names: list[str]) -> list[SourceAccount]:
        known = self._accounts()
        found = [
            account
            for account in known
            if {account.connection_id, account.connection.display_name} & {*names}
        ]
        missing = {*names} - {
            text for each in found for text in (each.connection_id, each.connection.display_name)
        }
        if missing:
            raise CommandError(f"No account is named {', '.join(sorted(missing))}.")
        return found

    def _sync(self, found: list[SourceAccount]) -> None:
        problems = [problem for each in found if (problem := self._sync_one(each))]
        if problems:
            raise CommandError("\n".join(problems))

    def _sync_one(self, account: SourceAccount) -> str | None:
        """Read an account to its end. Returns what failed."""
        columns = (BarColumn(), TextColumn("{task.completed:,.0f} of {task.total:,.0f}"))
        with Progress(*columns, console=Console(stderr=True)) as progress:
            task = progress.add_task("", total=0)

            def on_progress(done: int, total: int) -> None:
                progress.update(task, completed=done, total=total)

            while True:
                report = sync(
                    account.connection_id, owner_id=current_owner(), on_progress=on_progress
                )
                current = find_account(account.connection_id, owner_id=current_owner())
                if report is None or current is None:
                    return "The account is paused, or another process reads it."
                is_waiting = is_limit_reached(current, now=timezone.now())
                if current.problem is not None or report.is_complete or is_waiting:
                    return status.problem_line(current)

    def _connect(self, options: dict[str, Any]) -> str:
        source = find_source(options["connect"])
        if source is None:
            raise CommandError(f"--connect takes one of {NAMES}.")
        values = dict(pair.partition("=")[::2] for pair in options["set"])
        if options["private"]:
            values["allows_private"] = "yes"
        values |= _ask_secrets(source, values)
        details = accounts.parse_details(source, values)
        containers = accounts.list_containers(details, now=timezone.now())
        usual = [each.name for each in containers if each.is_usual]
        names = {each.title: each.name for each in containers}
        names |= {each.name: each.name for each in containers}
        unknown = {*options["folder"]} - names.keys()
        if unknown:
            raise CommandError(
                f"--folder: there is no {', '.join(sorted(unknown))}."
                f" There are {', '.join(each.title for each in containers)}."
            )
        account = accounts.connect_account(
            details,
            containers=[names[each] for each in options["folder"]] or usual,
            found=containers,
            connection_id=options["connection"],
            is_mirror=options["mirror"],
            daily_megabytes=options["daily_mb"] or accounts.suggested_limit(details.settings),
            owner_id=current_owner(),
            now=timezone.now(),
        )
        return account.connection_id


def _ask_secrets(source: InstalledSource, values: dict[str, str]) -> dict[str, str]:
    """Read the secrets from the terminal, or as lines of standard input."""
    secrets = [each for each in source.fields if each.kind.is_secret]
    if any(each.name in values for each in secrets):
        raise CommandError("Secrets are not arguments: other programs can see these. Enter them.")
    is_terminal = sys.stdin.isatty()
    return {
        each.name: getpass.getpass(f"{each.label}: ")
        if is_terminal
        else sys.stdin.readline().strip()
        for each in secrets
    }
