"""Form fields, validators and hidden fields that several owner pages share, and the owner's own addresses."""

import secrets
from collections.abc import Iterable
from datetime import datetime
from typing import Any, TypeVar

import orjson
from django import forms
from django.conf.locale import LANG_INFO
from django.core import signing
from django.db import transaction
from django.db.models import Model
from django.forms import BaseForm, ModelForm
from django.http import HttpRequest
from typing_extensions import override

from evidence.declarations.declaration import ACTOR_ID_ROLE, ACTOR_ROLE, ADDRESS_ROLE
from evidence.errors import InvalidRequest
from evidence.models.connections import Connection
from evidence.write.connections import validate_identities

Row = TypeVar("Row", bound=Model)


class PlainForm(ModelForm[Row]):
    """A form of the admin whose labels end without a colon, as on the other pages."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"label_suffix": "", **kwargs})


def set_choices(form: BaseForm, name: str, choices: Iterable[tuple[str, str]]) -> None:
    """Set the choices of a ChoiceField. Raises TypeError for another field."""
    field = form.fields[name]
    if not isinstance(field, forms.ChoiceField):
        raise TypeError(f"{name} is not a choice field")
    field.choices = list(choices)


def validate_printable(name: str) -> str:
    """Return `name`. Raises ValidationError if it contains invisible characters."""
    if not name.isprintable():
        raise forms.ValidationError("Use visible characters only.")
    return name


LANGUAGE_CODES = (
    "ar ca cs da de el en es et eu fa fi fr ga hi hu id it ja ko lt ne nl pl pt ro ru sr sv ta tr"
)
LANGUAGE_NAMES = dict(sorted(
    {"nb": "Norwegian", "zh": "Chinese"}.items()
    | {code: str(LANG_INFO[code]["name"]) for code in LANGUAGE_CODES.split()}.items(),
    key=lambda each: each[1],
))  # fmt: skip
"""The languages whose texts are analyzed, by name."""


def language_choices(codes: Iterable[str]) -> list[tuple[str, str]]:
    """Return all languages as choices, and the given codes even if they have no name here."""
    others = {code: code for code in codes if code not in LANGUAGE_NAMES}
    return list({**LANGUAGE_NAMES, **others}.items())


APPROVAL = "approval"
"""The hidden field with a signed id, so that a form that is submitted twice takes effect once."""
_signer = signing.Signer(salt="pdpp/give-access")


def new_approval() -> str:
    """Return the value of the hidden field for a page."""
    return _signer.sign(secrets.token_urlsafe(16))


def read_approval(request: HttpRequest) -> str | None:
    """Return the id that the form carries; None without one that `new_approval` has signed."""
    try:
        return _signer.unsign(request.POST.get(APPROVAL, ""))
    except signing.BadSignature:
        return None


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
