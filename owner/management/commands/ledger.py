"""``manage.py ledger``: prove that the record of disclosures is whole, export it, look at it."""

from collections.abc import Callable, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any

import orjson
from django.core.management.base import CommandError, CommandParser
from django.utils import timezone
from typing_extensions import override

from evidence.ledger import verification
from evidence.ledger.checkpoints import sign_entries, verifier_keys
from evidence.ledger.disclosures import (
    DisclosureEntry,
    ReadingFilter,
    disclosures_to_clients,
    disclosures_to_owner,
    list_readings,
    read_disclosures,
    sum_by_client,
)
from evidence.ledger.verification import LedgerProblem, export_lines, verify
from evidence.management.argument_types import count
from evidence.management.owner_command import OwnerCommand
from evidence.models.owners import Owner, current_owner
from owner.activity.activity_page import Names
from owner.management.commands.grant import clients_of_name
from owner.text import escape_invisible, last_days, pluralize

OWNER = "owner"
SHOWN = 50
DAYS = 7


class Command(OwnerCommand):
    """``verify`` ends with status 1 where anything is wrong, so that a schedule can mind it."""

    help = "Prove that the record of disclosures is whole, export it, or show what a client saw."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        verifying = actions.add_parser("verify", help="Check every row, link and checkpoint.")
        verifying.add_argument(
            "--against", type=Path, metavar="FILE", help="Compare with an export or signed heads."
        )
        actions.add_parser("checkpoint", help="Sign new rows now, as the server does every minute.")
        actions.add_parser(
            "key", help="Print the public keys that check the signatures, today's first."
        )
        export = actions.add_parser("export", help="Print everything as JSON lines.")
        export.add_argument(
            "--to", type=Path, metavar="FILE", help="A new file, or a folder: one file a day."
        )
        export.add_argument("--heads", action="store_true", help="Only the signed heads.")
        show = actions.add_parser("show", help="What a client was shown, latest first.")
        show.add_argument("client", help=f"Its name or id, or {OWNER!r} for your own reads.")
        show.add_argument("--limit", type=count, default=SHOWN, help="How many (%(default)s).")
        totals = actions.add_parser("totals", help="How much each client read, as on the pages.")
        totals.add_argument(
            "--days", type=count, default=DAYS, help="Days, today included (%(default)s)."
        )

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        owner_id = current_owner()
        actions: Mapping[str, Callable[[str, Mapping[str, Any]], None]] = {
            "verify": self._verify,
            "checkpoint": self._checkpoint,
            "key": self._key,
            "export": self._export,
            "show": self._show,
            "totals": self._totals,
        }
        actions[options["action"]](owner_id, options)

    def _verify(self, owner_id: str, options: Mapping[str, Any]) -> None:
        report = verify(owner_id)
        if options["against"] is not None:
            try:
                verification.compare(options["against"], owner_id, report)
            except (verification.AnchorError, OSError) as error:
                raise CommandError(str(error)) from error
        for problem in [*report.problems, *report.warnings]:
            self.stderr.write(_problem_text(problem))
        unsigned = f", {report.unsigned} rows not signed yet" if report.unsigned else ""
        counted = f"{report.rows} rows in {report.chains} chains, {report.checkpoints} checkpoints{unsigned}"
        if report.problems:
            raise CommandError(f"The ledger is not whole: {counted} read.")
        self.stdout.write(f"The ledger is whole: {counted}.")

    def _checkpoint(self, owner_id: str, options: Mapping[str, Any]) -> None:
        made = sign_entries(owner_id, now=timezone.now())
        self.stdout.write(made.note if made is not None else "Nothing new to sign.")

    def _key(self, owner_id: str, options: Mapping[str, Any]) -> None:
        for line in verifier_keys(owner_id):
            self.stdout.write(line)

    def _export(self, owner_id: str, options: Mapping[str, Any]) -> None:
        now, target = timezone.now(), options["to"]
        rows = () if options["heads"] else export_lines(owner_id)
        lines = chain(rows, [verification.heads_line(owner_id, now=now)])
        if target is None:
            for line in lines:
                self.stdout.write(orjson.dumps(line).decode())
            return
        path = verification.file_in(target, owner_id, now=now) if target.is_dir() else target
        try:
            verification.write_lines(path, lines)
        except OSError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"Written: {path}")

    def _show(self, owner_id: str, options: Mapping[str, Any]) -> None:
        name = options["client"]
        rows = (
            disclosures_to_owner(owner_id)
            if name == OWNER
            else disclosures_to_clients(*_client_ids(name, owner_id))
        )
        shown = list(islice(read_disclosures(rows), options["limit"]))
        for each in shown:
            self.stdout.write(escape_invisible(_line(each)))
        if not shown:
            self.stdout.write("Nothing was shown.")

    def _totals(self, owner_id: str, options: Mapping[str, Any]) -> None:
        zone = Owner.unscoped.get(pk=owner_id).time_zone
        with timezone.override(zone):
            since, until = last_days(timezone.now(), options["days"])
            readings = list_readings(since=since, until=until, where=ReadingFilter())
        names = Names(owner_id)
        for client_id, total in sum_by_client(readings).items():
            amount = f"{pluralize(total.records, 'record')} in {pluralize(total.answers, 'answer')}"
            self.stdout.write(f"{escape_invisible(names.client(client_id))}: {amount}")
        if not readings:
            self.stdout.write("Nothing was shown.")


def _client_ids(name: str, owner_id: str) -> list[str]:
    client_ids = clients_of_name(name, owner_id=owner_id)
    if not client_ids:
        raise CommandError(f"No client is called {name!r}; manage.py grant --list names them.")
    return client_ids


def _problem_text(problem: LedgerProblem) -> str:
    if problem.seq is None:
        return problem.message
    return f"{problem.chain} row {problem.seq}: {problem.message}"


def _line(each: DisclosureEntry) -> str:
    what = "; ".join(
        f"{covered.connection_id}/{covered.stream}: {', '.join(covered.fields) or 'no fields'}"
        for covered in each.covered
    )
    return (
        f"{each.at:%Y-%m-%d %H:%M:%S} UTC  {each.route}  {each.record_count} records,"
        f" {each.size_bytes} bytes  {what or 'no records'}  [{each.request_id}]"
    )
