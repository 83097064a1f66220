"""``manage.py erase``: erase data for good and print the receipt."""

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone
from typing_extensions import override

from evidence.erasure import erase_record, run_erasure, run_pending_erasures
from evidence.errors import ApiException
from evidence.management.owner_command import OwnerCommand
from evidence.models.connections import Erasure
from evidence.models.owners import current_owner, is_last_administrator
from evidence.write.connections import get_connection
from evidence.write.erasure_orders import ErasureScope, create_erasure, list_receipts
from operations.erasure_text import count_rows, describe_kept, format_counts, receipt_lines

BY = "manage.py on the server"
MAX_RECEIPTS = 20
LAST_ADMINISTRATOR = (
    "This is the last administrator. Make another owner administrator first, on the page Owners."
)
SCOPE_ARGUMENTS = {
    ErasureScope.RECORD: ("connection_id", "stream", "record_key"),
    ErasureScope.STREAM: ("connection_id", "stream"),
    ErasureScope.CONNECTION: ("connection_id",),
    ErasureScope.OWNER: (),
}
ARGUMENT_HELP = {
    "connection_id": "Connection id, cin_….",
    "stream": "Stream name.",
    "record_key": "Record id.",
}


class Command(OwnerCommand):
    """``erase go-on`` or the server completes an interrupted erasure."""

    help = "Erase a record, a stream, a connection or everything, for good; print the receipt."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="WHAT")
        for of, names in SCOPE_ARGUMENTS.items():
            action = actions.add_parser(of.value, help=f"Erase {of.label.lower()}.")
            for name in names:
                action.add_argument(name, help=ARGUMENT_HELP[name])
            action.add_argument(
                "--dry-run", action="store_true", help="Show what would be erased and kept."
            )
            action.add_argument("--yes", action="store_true", help="Do not ask for confirmation.")
            if of in {ErasureScope.RECORD, ErasureScope.STREAM}:
                action.add_argument(
                    "--no-tombstones",
                    action="store_true",
                    help="Do not notify clients, and delete the record's key as well.",
                )
        actions.add_parser("receipts", help="List receipts, newest first.")
        actions.add_parser("go-on", help="Complete interrupted erasures.")

    @override
    def handle(self, *args: Any, action: str, **options: Any) -> None:
        now = timezone.now()
        owner_id = current_owner()
        if action == "receipts":
            self._print(list_receipts(owner_id, most=MAX_RECEIPTS))
        elif action == "go-on":
            self._print(
                {erasure.erasure_id: erasure for erasure in run_pending_erasures(now=now)}.values()
            )
        else:
            self._erase(ErasureScope(action), owner_id, options)

    def _erase(self, of: ErasureScope, owner_id: str, options: Mapping[str, Any]) -> None:
        target = {name: options[name] for name in SCOPE_ARGUMENTS[of]}
        tombstones = not options.get("no_tombstones", False)
        if of == ErasureScope.OWNER and is_last_administrator(owner_id):
            raise CommandError(LAST_ADMINISTRATOR)
        try:
            if "connection_id" in target:
                get_connection(target["connection_id"], owner_id=owner_id)
            self._describe(of, owner_id, target, tombstones=tombstones)
            if options["dry_run"]:
                self.stdout.write("Nothing was erased.")
                return
            self._confirm(of, ask=not options["yes"])
            for erasure in _steps(of, owner_id, target, tombstones=tombstones):
                self._show(erasure)
        except ApiException as error:
            raise CommandError(error.message) from error
        except KeyboardInterrupt:
            raise CommandError(
                "Stopped; erased data is gone. Run manage.py erase go-on to complete it."
            ) from None

    def _describe(
        self, of: ErasureScope, owner_id: str, target: Mapping[str, str], *, tombstones: bool
    ) -> None:
        rows = format_counts(count_rows(of, owner_id=owner_id, **target))
        self.stdout.write(f"To be erased: {', '.join(rows) or 'nothing'}.")
        for line in describe_kept(of, tombstones=tombstones):
            self.stdout.write(f"  {line}")

    def _confirm(self, of: ErasureScope, *, ask: bool) -> None:
        if not ask:
            return
        if not sys.stdin.isatty():
            raise CommandError("Cannot ask for confirmation here; pass --yes.")
        if input(f"This cannot be undone. Type {of.value!r} to continue: ").strip() != of.value:
            raise CommandError("Nothing was erased.")

    def _show(self, erasure: Erasure) -> None:
        if erasure.finished_at is None:
            self.stderr.write(f"{', '.join(format_counts(erasure.removed))} so far")
        else:
            self._print([erasure])

    def _print(self, erasures: Any) -> None:
        lines = [line for erasure in erasures for line in receipt_lines(erasure)]
        self.stdout.write("\n".join(lines) or "Nothing was erased.")


def _steps(
    of: ErasureScope, owner_id: str, target: Mapping[str, str], *, tombstones: bool
) -> Iterator[Erasure]:
    now = timezone.now()
    if of == ErasureScope.RECORD:
        yield erase_record(**target, owner_id=owner_id, by=BY, now=now, tombstones=tombstones)
    else:
        order = create_erasure(
            of, owner_id=owner_id, by=BY, now=now, tombstones=tombstones,
            connection_id=target.get("connection_id", ""), stream=target.get("stream", ""),
        )  # fmt: skip
        yield from run_erasure(order, now=now)
