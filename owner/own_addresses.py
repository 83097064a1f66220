"""The owner's addresses: asked where mail or chats come in, so that their own messages are theirs."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import orjson
from django import forms
from django.db import transaction
from typing_extensions import override

from evidence.declarations.declaration import ACTOR_ID_ROLE, ACTOR_ROLE, ADDRESS_ROLE
from evidence.errors import InvalidRequest
from evidence.models.connections import Connection
from evidence.write.connections import validate_identities

FIELD = "own_addresses"


class OwnAddressesField(forms.CharField):
    """Addresses, numbers or names, one on each line, cleaned to a list."""

    widget = forms.Textarea(attrs={"rows": 2, "autocomplete": "off", "spellcheck": "false"})

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(
            label="Your addresses and numbers",
            required=False,
            help_text="One on each line. Messages that come from them are shown as yours.",
            **kwargs,
        )

    @override
    def clean(self, value: Any) -> list[str]:
        try:
            return validate_identities(super().clean(value).splitlines())
        except InvalidRequest as refusal:
            raise forms.ValidationError("Enter one short address on each line.") from refusal


def names_senders(declaration: bytes) -> bool:
    """Return whether a stream of a source has the address of the person who wrote a record."""
    for stream in orjson.loads(declaration)["streams"]:
        roles = {each.get("x_pdpp_role") for each in stream["schema"]["properties"].values()}
        if ACTOR_ROLE in roles and roles & {ACTOR_ID_ROLE, ADDRESS_ROLE}:
            return True
    return False


def known_addresses() -> list[str]:
    """Return the addresses that the owner entered for any connection. One query."""
    rows = Connection.unscoped.filter(demo=False).values_list("identities", flat=True)
    return sorted({each for identities in rows for each in identities})


@transaction.atomic
def add_addresses(connection_id: str, addresses: Iterable[str], *, now: datetime) -> None:
    """Add addresses to those that a connection has."""
    row = Connection.unscoped.select_for_update().get(pk=connection_id)
    row.identities = list(dict.fromkeys([*row.identities, *addresses]))
    row.updated_at = now
    row.save(update_fields=["identities", "updated_at"])
