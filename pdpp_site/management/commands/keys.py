"""``manage.py keys``: which keys there are, and new ones in their place."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from typing_extensions import override

from evidence.ledger.checkpoints import public_key
from pdpp_site import rotating

SECRET = "secret"  # noqa: S105 - its name
LIST = "{name:8} {what}; {state}."
RESTART = "Restart the server now: until then it goes on with the keys it has."
EVERYWHERE = "Then put {path} where the other servers of this database have theirs."
OVERLAP = "What was made before stays good until you say: manage.py keys retire {name}"
SIGNED = "What was signed before is checked by the public key so far, which is kept."


class Command(BaseCommand):
    """Asks no database. Prints no key."""

    help = "List the installation's keys, give one of them a successor, or end what came before it."
    requires_system_checks = []  # noqa: RUF012 - Django's own shape; they ask the database

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        actions.add_parser("list", help="Name them, and say what each is for.")
        rotate = actions.add_parser("rotate", help="Make a new key.")
        rotate.add_argument("name", choices=list(rotating.NAMES))
        retire = actions.add_parser("retire", help="End what was made with earlier keys.")
        retire.add_argument("name", choices=["tokens", "cursors"])

    @override
    def handle(self, *args: Any, action: str, name: str = "", **options: Any) -> None:
        if action == "list":
            self._list()
            return
        if action == "retire":
            self._retire(name)
        elif name == "signing":
            rotating.rotate_signing(settings.PDPP_VAR, public_key=public_key())
            self.stdout.write(SIGNED)
        else:
            rotating.rotate(settings.PDPP_VAR, name)
            self.stdout.write(OVERLAP.format(name=name))
        self.stdout.write(RESTART)
        if not settings.EMBEDDED:
            self.stdout.write(EVERYWHERE.format(path=settings.PDPP_VAR / rotating.FILE))

    def _list(self) -> None:
        place = "PDPP_SECRET_KEY" if settings.PDPP_SECRET_KEY else settings.PDPP_VAR / rotating.FILE
        everything = "keys all that has no key of its own below"
        self.stdout.write(LIST.format(name=SECRET, what=everything, state=f"in {place}"))
        known = rotating.rotated(settings.PDPP_VAR)
        for name, what in rotating.NAMES.items():
            self.stdout.write(LIST.format(name=name, what=what, state=_state(known, name)))

    def _retire(self, name: str) -> None:
        try:
            rotating.retire(settings.PDPP_VAR, name)
        except rotating.NothingToRetireError:
            raise CommandError("There is no earlier key in use.") from None
        self.stdout.write(f"After the restart the {name} from before the last rotation are over.")


def _state(known: dict[str, list[str]], name: str) -> str:
    if name not in known:
        return "never rotated, of the secret"
    earlier = len(known[rotating.VERIFYING] if name == "signing" else known[name]) - (
        name != "signing"
    )
    return f"a key of its own, {earlier} earlier still known"
