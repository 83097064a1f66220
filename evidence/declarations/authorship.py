"""Who wrote a record: the owner, somebody else, or nobody knows (design, section 7).

Only what the caller may see of a record is looked at, so the answer tells nothing else. A name can
be anybody's, so it may show that somebody else wrote, never that the owner did. An id or address is
compared with those of the owner; where the source also says which way a record went, it decides,
since an address at the top of a message is the sender's own word.
"""

from collections.abc import Collection, Mapping
from enum import StrEnum

from evidence.declarations.declaration import ACTOR_ID_ROLE, ACTOR_ROLE, DIRECTION_ROLE

OUTGOING = frozenset({"sent", "outgoing", "outbox", "draft", "drafts"})
"""The values by which a source says that its owner wrote a record; every other says the opposite."""


class Origin(StrEnum):
    """``UNKNOWN`` is to be taken for ``THIRD_PARTY``."""

    OWNER = "owner"
    THIRD_PARTY = "third_party"
    UNKNOWN = "unknown"


def origin(
    shown: Mapping[str, object], *, roles: Mapping[str, str], identities: Collection[str]
) -> Origin:
    """``shown`` are the granted fields, ``roles`` those that tell who wrote, ``identities`` how the
    source calls its owner, as ``known_as`` writes them."""
    said = [(role, _said(role, shown.get(name), identities)) for name, role in roles.items()]
    if any(verdict is False for _, verdict in said):
        return Origin.THIRD_PARTY
    decides = DIRECTION_ROLE if DIRECTION_ROLE in roles.values() else ACTOR_ID_ROLE
    deciding = [verdict for role, verdict in said if role == decides]
    return Origin.OWNER if deciding and all(deciding) else Origin.UNKNOWN


def known_as(identity: str) -> str:
    """How identities are compared."""
    return " ".join(identity.split()).casefold()


def _said(role: str, value: object, identities: Collection[str]) -> bool | None:
    """Whether the owner wrote, by one field; None where it does not say."""
    if not isinstance(value, str) or not value.strip():
        return None
    if role == DIRECTION_ROLE:
        return known_as(value) in OUTGOING
    if not identities:
        return None
    its_own = known_as(value) in identities
    return None if its_own and role == ACTOR_ROLE else its_own
