"""`manage.py keys`: list, rotate and retire secret keys."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError
from django.utils import timezone
from typing_extensions import override

from evidence.events.messages import reencrypt_secrets
from evidence.ledger.checkpoints import public_key, sign_entries
from evidence.models.owners import Owner, acting_for
from importers.sources import account_store
from operations import key_file
from operations.backup import schedule
from operations.backup.restore import describe_database_error
from operations.notifications import store as notifications
from owner import second_factor

SECRET = key_file.SECRET
LIST = "{name:8} {what}; {state}."
RESTART = "Restart the server now; until then it uses the previous keys."
COPY_TO_SERVERS = "Then copy {path} to the other servers of this database."
PREVIOUS_VALID = "Previous keys remain valid until you run: manage.py keys retire {name}"
SIGNING_ROTATED = "The previous public key is kept to verify earlier signatures."
ROTATION_STEPS = (
    "Now set PDPP_SECRET_KEY to a new secret, and add the previous one at the start of the"
    " comma-separated PDPP_SECRET_KEY_FALLBACKS. Create a secret with:"
    " python3 -c 'import secrets; print(secrets.token_urlsafe(50))'"
)
REMOVE_FALLBACKS = "Now remove PDPP_SECRET_KEY_FALLBACKS."
REENCRYPT = (
    reencrypt_secrets,
    account_store.reencrypt,
    notifications.reencrypt,
    schedule.cancel_drills,
)
"""Functions that encrypt stored values of an owner again with the current secret."""


class Command(BaseCommand):
    """Uses the database only to retire the secret. Prints no key."""

    help = "List, rotate or retire the secret keys of this installation."
    requires_system_checks = []  # noqa: RUF012 - Django's own shape; the checks use the database

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        actions.add_parser("list", help="List the keys and their purposes.")
        rotate = actions.add_parser("rotate", help="Create a new key.")
        rotate.add_argument("name", choices=[SECRET, *key_file.KEY_PURPOSES])
        retire = actions.add_parser("retire", help="Invalidate previous keys.")
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
            key_file.rotate_signing_key(settings.PDPP_VAR, public_key=public_key())
            self.stdout.write(SIGNING_ROTATED)
        else:
            key_file.rotate_key(settings.PDPP_VAR, name)
            self.stdout.write(PREVIOUS_VALID.format(name=name))
        self.stdout.write(RESTART)
        if not settings.EMBEDDED:
            path = settings.PDPP_VAR / key_file.ROTATED_KEYS_FILE
            self.stdout.write(COPY_TO_SERVERS.format(path=path))

    def _list(self) -> None:
        location = (
            "PDPP_SECRET_KEY"
            if settings.PDPP_SECRET_KEY
            else settings.PDPP_VAR / key_file.ROTATED_KEYS_FILE
        )
        purpose = "derives every key that was not rotated separately"
        state = f"in {location}, previous keys: {len(settings.SECRET_KEY_FALLBACKS)}"
        self.stdout.write(LIST.format(name=SECRET, what=purpose, state=state))
        known = key_file.rotated_keys(settings.PDPP_VAR)
        for name, what in key_file.KEY_PURPOSES.items():
            self.stdout.write(LIST.format(name=name, what=what, state=_state(known, name)))

    def _rotate_secret(self) -> None:
        key_file.rotate_secret(
            settings.PDPP_VAR,
            current_secret=settings.SECRET_KEY,
            public_key=public_key(),
            creates_secret=not settings.PDPP_SECRET_KEY,
        )
        if settings.PDPP_SECRET_KEY:
            self.stdout.write(ROTATION_STEPS)
        self.stdout.write(PREVIOUS_VALID.format(name=SECRET))

    def _retire_secret(self) -> None:
        if not settings.SECRET_KEY_FALLBACKS:
            raise key_file.NoPreviousKeyError
        second_factor.reencrypt()
        for owner_id in Owner.unscoped.values_list("owner_id", flat=True):
            with acting_for(owner_id):
                sign_entries(owner_id, now=timezone.now())  # their seals end with the secret
                for reencrypt in REENCRYPT:
                    reencrypt()
        key_file.retire_secrets(settings.PDPP_VAR)
        if settings.PDPP_SECRET_KEY_FALLBACKS:
            self.stdout.write(REMOVE_FALLBACKS)

    def _retire(self, name: str) -> None:
        try:
            if name == SECRET:
                self._retire_secret()
            else:
                key_file.retire_keys(settings.PDPP_VAR, name)
        except key_file.NoPreviousKeyError:
            raise CommandError("There is no previous key.") from None
        except DatabaseError as error:
            text = f"Nothing was retired, for {describe_database_error(error)}."
            raise CommandError(text) from error
        self.stdout.write(f"After the restart, previous {name} keys are invalid.")


def _state(known: dict[str, list[str]], name: str) -> str:
    if name not in known:
        return "never rotated, derived from the secret"
    previous = len(known[key_file.VERIFYING] if name == "signing" else known[name]) - (
        name != "signing"
    )
    return f"own key, previous keys: {previous}"
