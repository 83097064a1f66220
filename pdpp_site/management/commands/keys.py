"""``manage.py keys``: which keys there are, and new ones in their place."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError
from typing_extensions import override

from evidence.events import signing_secrets as event_secrets
from evidence.ledger import checkpoints
from evidence.ledger.checkpoints import public_key
from operations import key_file
from operations.backup.restore import worded
from owner import second_factor

SECRET = key_file.SECRET
LIST = "{name:8} {what}; {state}."
RESTART = "Restart the server now: until then it goes on with the keys it has."
EVERYWHERE = "Then put {path} where the other servers of this database have theirs."
OVERLAP = "What was made before stays good until you say: manage.py keys retire {name}"
SIGNED = "What was signed before is checked by the public key so far, which is kept."
CHOOSE = (
    "Now make another PDPP_SECRET_KEY, and set PDPP_SECRET_KEY_FALLBACKS to the one so far, before"
    " those that stand there already, separated by commas. Make one with:"
    " python3 -c 'import secrets; print(secrets.token_urlsafe(50))'"
)
LEAVE_OUT = "Now leave out PDPP_SECRET_KEY_FALLBACKS."
SEAL_ANEW = (checkpoints.seal_anew, event_secrets.seal_anew, second_factor.seal_anew)
"""What is in the database and can be carried over to today's secret, by each."""


class Command(BaseCommand):
    """Asks no database, but to retire the secret. Prints no key."""

    help = "List the installation's keys, give one of them a successor, or end what came before it."
    requires_system_checks = []  # noqa: RUF012 - Django's own shape; they ask the database

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        actions.add_parser("list", help="Name them, and say what each is for.")
        rotate = actions.add_parser("rotate", help="Make a new key.")
        rotate.add_argument("name", choices=[SECRET, *key_file.NAMES])
        retire = actions.add_parser("retire", help="End what was made with earlier keys.")
        retire.add_argument("name", choices=[SECRET, "tokens", "cursors"])

    @override
    def handle(self, *args: Any, action: str, name: str = "", **options: Any) -> None:
        if action == "list":
            self._list()
            return
        if action == "retire":
            self._retire(name)
        elif name == SECRET:
            self._rotate_secret()
        elif name == "signing":
            key_file.rotate_signing(settings.PDPP_VAR, public_key=public_key())
            self.stdout.write(SIGNED)
        else:
            key_file.rotate(settings.PDPP_VAR, name)
            self.stdout.write(OVERLAP.format(name=name))
        self.stdout.write(RESTART)
        if not settings.EMBEDDED:
            self.stdout.write(
                EVERYWHERE.format(path=settings.PDPP_VAR / key_file.ROTATED_KEYS_FILE)
            )

    def _list(self) -> None:
        place = (
            "PDPP_SECRET_KEY"
            if settings.PDPP_SECRET_KEY
            else settings.PDPP_VAR / key_file.ROTATED_KEYS_FILE
        )
        everything = "keys all that has no key of its own below"
        state = f"in {place}, {len(settings.SECRET_KEY_FALLBACKS)} earlier still known"
        self.stdout.write(LIST.format(name=SECRET, what=everything, state=state))
        known = key_file.rotated(settings.PDPP_VAR)
        for name, what in key_file.NAMES.items():
            self.stdout.write(LIST.format(name=name, what=what, state=_state(known, name)))

    def _rotate_secret(self) -> None:
        key_file.rotate_secret(
            settings.PDPP_VAR,
            so_far=settings.SECRET_KEY,
            public_key=public_key(),
            is_ours=not settings.PDPP_SECRET_KEY,
        )
        if settings.PDPP_SECRET_KEY:
            self.stdout.write(CHOOSE)
        self.stdout.write(OVERLAP.format(name=SECRET))

    def _retire_secret(self) -> None:
        if not settings.SECRET_KEY_FALLBACKS:
            raise key_file.NothingToRetireError
        for seal_anew in SEAL_ANEW:
            seal_anew()
        key_file.retire_secret(settings.PDPP_VAR)
        if settings.PDPP_SECRET_KEY_FALLBACKS:
            self.stdout.write(LEAVE_OUT)

    def _retire(self, name: str) -> None:
        try:
            if name == SECRET:
                self._retire_secret()
            else:
                key_file.retire(settings.PDPP_VAR, name)
        except key_file.NothingToRetireError:
            raise CommandError("There is no earlier key in use.") from None
        except DatabaseError as error:
            raise CommandError(f"Nothing was retired. {worded(error)}") from error
        self.stdout.write(f"After the restart what earlier {name} keys have made is over.")


def _state(known: dict[str, list[str]], name: str) -> str:
    if name not in known:
        return "never rotated, of the secret"
    earlier = len(known[key_file.VERIFYING] if name == "signing" else known[name]) - (
        name != "signing"
    )
    return f"a key of its own, {earlier} earlier still known"
