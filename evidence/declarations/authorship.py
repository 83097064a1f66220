"""Determine whether the owner or someone else wrote a record, from its granted fields only.

An answer therefore reveals nothing about other fields. Anyone can use any name, so a name can show
that someone else wrote a record, but never that the owner did. An id or address is compared with
those of the owner. Where a source has a direction field, that field decides, because a message can
carry a forged sender address; in what the owner sent, a name that is not among the identities is
only another spelling of the owner's.
"""

import re
from collections.abc import Collection, Mapping
from enum import StrEnum

from evidence.declarations.declaration import ACTOR_ID_ROLE, ACTOR_ROLE, DIRECTION_ROLE

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
