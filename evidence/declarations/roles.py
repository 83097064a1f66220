"""What the fields of a record mean: who wrote it, its amounts of money, its searchable text.

Whether the owner or someone else wrote a record follows from its granted fields only, so an answer
reveals nothing about other fields. Anyone can use any name, so a name can show that someone else
wrote a record, but never that the owner did. An id or address is compared with those of the owner.
Where a source has a direction field, that field decides, because a message can carry a forged sender
address; in what the owner sent, a name that is not among the identities is only another spelling of
the owner's.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import StrEnum

from evidence.declarations.declaration import (
    ACTOR_ID_ROLE,
    ACTOR_ROLE,
    DIRECTION_ROLE,
    Field,
    StreamDeclaration,
)

OUTGOING = frozenset((
    "sent", "outgoing", "outbox", "draft", "drafts", "sent items", "sent mail", "sent messages",
    "gesendet", "gesendete elemente", "gesendete objekte", "entwürfe", "envoyés", "messages envoyés",
    "éléments envoyés", "brouillons", "enviado", "enviados", "elementos enviados", "itens enviados",
    "borradores", "inviata", "posta inviata", "bozze", "verzonden", "verzonden items", "concepten",
    "skickat", "skickade objekt", "sendt", "sendte elementer", "sendt post", "lähetetyt", "wysłane",
    "elementy wysłane", "odeslané", "odeslaná pošta", "odoslané", "elküldött", "elküldött elemek",
    "trimise", "poslano", "gönderilmiş postalar", "gönderilmiş öğeler", "απεσταλμένα", "отправленные",
    "надіслані", "изпратени", "送信済み", "送信済みメール", "送信済みアイテム", "下書き", "已发送",
    "已发邮件", "已发送邮件", "已傳送", "寄件備份", "보낸편지함", "보낸 편지함", "đã gửi", "terkirim",
))  # fmt: skip
"""Values of a direction field for records that the owner wrote, in the languages of mail programs."""
_PATH = re.compile(r"[/.]")


class Origin(StrEnum):
    """The author of a record. Clients treat ``UNKNOWN`` as ``THIRD_PARTY``."""

    OWNER = "owner"
    THIRD_PARTY = "third_party"
    UNKNOWN = "unknown"


def determine_origin(
    fields: Mapping[str, object], *, roles: Mapping[str, str], identities: Collection[str]
) -> Origin:
    """Return who wrote a record.

    ``fields`` are the granted fields, ``roles`` maps the names of authorship fields to their roles,
    and ``identities`` are the normalized identities of the owner.
    """
    verdicts = [
        (role, _is_by_owner(role, fields.get(name), identities)) for name, role in roles.items()
    ]
    has_direction = DIRECTION_ROLE in roles.values()
    if has_direction and any(verdict for _, verdict in verdicts):
        verdicts = [(role, verdict) for role, verdict in verdicts if role != ACTOR_ROLE]
    if any(verdict is False for _, verdict in verdicts):
        return Origin.THIRD_PARTY
    deciding_role = DIRECTION_ROLE if has_direction else ACTOR_ID_ROLE
    deciding = [verdict for role, verdict in verdicts if role == deciding_role]
    return Origin.OWNER if deciding and all(deciding) else Origin.UNKNOWN


def normalize_identity(identity: str) -> str:
    """Return an identity in the form in which identities are compared."""
    return " ".join(identity.split()).casefold()


def is_outgoing(direction: str) -> bool:
    """Return whether a direction, or the last part of the path of a folder, is the owner's writing."""
    return normalize_identity(_PATH.split(direction)[-1]) in OUTGOING


def _is_by_owner(role: str, value: object, identities: Collection[str]) -> bool | None:
    """Return whether the owner wrote the record, or None if this field does not tell."""
    if not isinstance(value, str) or not value.strip():
        return None
    if role == DIRECTION_ROLE:
        return is_outgoing(value)
    if not identities:
        return None
    is_owner = normalize_identity(value) in identities
    return None if is_owner and role == ACTOR_ROLE else is_owner


def field_text(value: object) -> str:
    """Return the text of a searchable field: a string, or the strings of a list as lines."""
    if isinstance(value, list):
        return "\n".join(item for item in value if isinstance(item, str))
    return value if isinstance(value, str) else ""


_CURRENCY = re.compile(r"[A-Z]{3}")
_DEFAULT_EXPONENT = 2
_EXPONENTS = dict.fromkeys(
    ("BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "VND", "VUV", "XAF",
     "XOF", "XPF"), 0,
) | dict.fromkeys(("BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"), 3)  # fmt: skip
_MAX_EXPONENT = 6
_MAX_AMOUNT = 10**18


@dataclass(frozen=True, slots=True)
class MoneyFormat:
    """How a number field declares money: `x_pdpp_money: {"currency_field": ..., "unit": "minor"}`.

    A minor unit is the smallest of the currency, such as a cent; the exponent says how many digits
    that are, and without one ISO 4217 does. With `"unit": "major"` the number is the amount itself.
    """

    currency_field: str
    is_minor: bool
    exponent: int | None

    def text(self, value: object, currency: object) -> str | None:
        """Return `-74.40 EUR`, or None if the values are no money."""
        if not isinstance(value, int | float) or isinstance(value, bool):
            return None
        if not isinstance(currency, str) or not _CURRENCY.fullmatch(currency):
            return None
        digits = (
            _EXPONENTS.get(currency, _DEFAULT_EXPONENT) if self.exponent is None else self.exponent
        )
        try:
            amount = Decimal(str(value))
        except InvalidOperation:
            return None
        if not abs(amount) < _MAX_AMOUNT:
            return None
        if self.is_minor:
            amount = amount.scaleb(-digits)
        exact = amount if -int(amount.as_tuple().exponent) > digits else round(amount, digits)
        return f"{exact:f} {currency}"


def money_format(field: Field) -> MoneyFormat | None:
    """Return how a field declares money, or None if it does not, or not validly."""
    declared = field.schema.get("x_pdpp_money")
    if field.kind != "number" or not isinstance(declared, Mapping):
        return None
    name, exponent = declared.get("currency_field"), declared.get("exponent")
    if not isinstance(name, str) or declared.get("unit") not in ("minor", "major"):
        return None
    if (
        not isinstance(exponent, int)
        or isinstance(exponent, bool)
        or not 0 <= exponent <= _MAX_EXPONENT
    ):
        exponent = None
    return MoneyFormat(name, declared["unit"] == "minor", exponent)


def currency_field(stream: StreamDeclaration, name: str) -> str | None:
    """Return the field with the currency of a money field, or None if this is no money."""
    field = stream.fields.get(name)
    declared = money_format(field) if field is not None else None
    return declared.currency_field if declared else None


def money_texts(
    stream: StreamDeclaration, data: Mapping[str, object], granted: Mapping[str, object]
) -> dict[str, str]:
    """Return the money of the fields in ``data``. Currencies come from all ``granted`` fields."""
    texts = {}
    for name, value in data.items() if stream.money_fields else ():
        declared = money_format(stream.fields[name]) if name in stream.money_fields else None
        text = declared.text(value, granted.get(declared.currency_field)) if declared else None
        if text is not None:
            texts[name] = text
    return texts
