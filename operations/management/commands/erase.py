"""``manage.py erase``: a record, a stream, a connection or everything, for good, with a receipt."""

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone
from typing_extensions import override

from evidence.erasure import erase_record, go_on, go_on_with_all
from evidence.errors import Refusal
from evidence.models.accounts import the_owner
from evidence.models.erasures import Erasure
from evidence.storing.connections import owned_row
from evidence.storing.erasure_orders import Of, order, receipts
from operations.erasure_text import before_erasing, counts, receipt_lines, what_stays

BY = "manage.py on the server"
SHOWN = 20
WHAT = {
    Of.RECORD: ("connection_id", "stream", "record_key"),
    Of.STREAM: ("connection_id", "stream"),
    Of.CONNECTION: ("connection_id",),
    Of.OWNER: (),
}
MEANINGS = {
    "connection_id": "The id of the connection, cin_….",
    "stream": "The name of the stream.",
    "record_key": "The record's id in its stream.",
}


class Command(BaseCommand):
    """A run that was stopped is completed by ``erase go-on``, or by the server."""

    help = "Erase a record, a stream, a connection or everything, for good; print the receipt."

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="WHAT")
        for of, names in WHAT.items():
            action = actions.add_parser(of.value, help=f"Erase {of.label.lower()}.")
            for name in names:
                action.add_argument(name, help=MEANINGS[name])
            action.add_argument(
                "--dry-run", action="store_true", help="Say what would go and what stays."
            )
            action.add_argument("--yes", action="store_true", help="Do not ask.")
            if of in {Of.RECORD, Of.STREAM}:
                action.add_argument(
                    "--no-tombstones",
                    action="store_true",
                    help="Tell nobody that it is gone, and keep not even its key.",
                )
        actions.add_parser("receipts", help="What was erased, latest first.")
        actions.add_parser("go-on", help="Complete what was interrupted.")

    @override
    def handle(self, *args: Any, action: str, **options: Any) -> None:
        now = timezone.now()
        owner_id = the_owner(now).owner_id
        if action == "receipts":
            self._print(receipts(owner_id, most=SHOWN))
        elif action == "go-on":
            self._print({each.erasure_id: each for each in go_on_with_all(now=now)}.values())
        else:
            self._erase(Of(action), owner_id, options)

    def _erase(self, of: Of, owner_id: str, options: Mapping[str, Any]) -> None:
        named = {name: options[name] for name in WHAT[of]}
        tombstones = not options.get("no_tombstones", False)
        try:
            if "connection_id" in named:
                owned_row(named["connection_id"], owner_id=owner_id)
            self._say(of, owner_id, named, tombstones=tombstones)
            if options["dry_run"]:
                self.stdout.write("Nothing was erased.")
                return
            self._confirm(of, asked=not options["yes"])
            for so_far in _steps(of, owner_id, named, tombstones=tombstones):
                self._show(so_far)
        except Refusal as refusal:
            raise CommandError(refusal.message) from refusal
        except KeyboardInterrupt:
            raise CommandError(
                "Stopped. What is gone is gone; 'erase go-on' completes it."
            ) from None

    def _say(self, of: Of, owner_id: str, named: Mapping[str, str], *, tombstones: bool) -> None:
        found = counts(before_erasing(of, owner_id=owner_id, **named))
        self.stdout.write(f"To be erased: {', '.join(found) or 'nothing that is there now'}.")
        for line in what_stays(of, tombstones=tombstones):
            self.stdout.write(f"  {line}")

    def _confirm(self, of: Of, *, asked: bool) -> None:
        if not asked:
            return
        if not sys.stdin.isatty():
            raise CommandError("Nobody is there to confirm it; say --yes.")
        if input(f"This cannot be undone. Type {of.value!r} to go on: ").strip() != of.value:
            raise CommandError("Nothing was erased.")

    def _show(self, so_far: Erasure) -> None:
        if so_far.finished_at is None:
            self.stderr.write(f"{', '.join(counts(so_far.removed))} so far")
        else:
            self._print([so_far])

    def _print(self, erasures: Any) -> None:
        lines = [line for each in erasures for line in receipt_lines(each)]
        self.stdout.write("\n".join(lines) or "Nothing was erased.")


def _steps(
    of: Of, owner_id: str, named: Mapping[str, str], *, tombstones: bool
) -> Iterator[Erasure]:
    now = timezone.now()
    if of == Of.RECORD:
        yield erase_record(**named, owner_id=owner_id, by=BY, now=now, tombstones=tombstones)
    else:
        made = order(
            of, owner_id=owner_id, by=BY, now=now, tombstones=tombstones,
            connection_id=named.get("connection_id", ""), stream=named.get("stream", ""),
        )  # fmt: skip
        yield from go_on(made, now=now)
