"""Commands that act for one owner, whom ``--owner`` names where there are several, or for each."""

from collections.abc import Mapping
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import Q
from django.utils import timezone
from typing_extensions import override

from evidence.models.owners import (
    Owner,
    SeveralOwnersError,
    acting_for,
    get_or_create_owner,
    present_owners,
)


class OwnerCommand(BaseCommand):
    """A command for the records of one owner."""

    @override
    def create_parser(self, prog_name: str, subcommand: str, **options: Any) -> CommandParser:
        parser = super().create_parser(prog_name, subcommand, **options)
        add_owner_argument(parser)
        return parser

    @override
    def execute(self, *args: Any, **options: Any) -> str | None:
        with acting_for(named_owner(options.get("owner")).owner_id):
            return super().execute(*args, **options)


class EveryOwnerCommand(BaseCommand):
    """A command that does its work for each owner in turn, or for the one whom ``--owner`` names."""

    @override
    def create_parser(self, prog_name: str, subcommand: str, **options: Any) -> CommandParser:
        parser = super().create_parser(prog_name, subcommand, **options)
        parser.add_argument(
            "--owner", metavar="NAME", help="The user name or id of an owner. Default: every owner."
        )
        return parser

    def owner_ids(self, options: Mapping[str, Any]) -> list[str]:
        """Return the owners to act for, the first one first. Raises ``CommandError``."""
        if options["owner"] is not None:
            return [named_owner(options["owner"]).owner_id]
        rows = Owner.unscoped.order_by("created_at", "owner_id")
        return list(rows.values_list("owner_id", flat=True))


def add_owner_argument(parser: CommandParser) -> None:
    parser.add_argument(
        "--owner",
        metavar="NAME",
        help="The user name or id of the owner, where the installation has several.",
    )


def named_owner(name: str | None) -> Owner:
    """Return the owner of a name or id, or the only one. Raises ``CommandError``."""
    if name is None:
        try:
            return get_or_create_owner(timezone.now())
        except SeveralOwnersError:
            raise CommandError(
                f"This installation has several owners. Name one with --owner: {_names()}."
            ) from None
    found = present_owners().filter(Q(owner_id=name) | Q(user__username__iexact=name)).first()
    if found is None:
        raise CommandError(f"No owner is called {name}. There are: {_names()}.")
    return found


def _names() -> str:
    owners = present_owners().select_related("user")[:20]
    return ", ".join(f"{owner.user} ({owner.pk})" if owner.user else owner.pk for owner in owners)
