"""Read the people of a record from the fields with a role, as identities that join sources.

An identity is ``mail:`` with an address, ``tel:`` with a number, ``id:`` with an id of one connection,
or ``name:`` with a name of one connection. Only addresses and numbers join connections by themselves.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import phonenumbers
from phonenumbers import PhoneNumberFormat, PhoneNumberType

from evidence.declarations.declaration import Origin, determine_origin, normalize_identity
from owner.records.record_roles import StreamRoles

MAX_PEOPLE = 100
"""Identities per record; a mail to more people is no conversation."""
MAX_CHARS = 254
_EMAIL = re.compile(r"[^\s@<>,;:\"()]+@[^\s@<>,;:\"()]+")
_NAMED = re.compile(r"\s*\"?(?P<name>[^<>]*?)\"?\s*<(?P<address>[^<>]+)>\s*")
_PHONE = re.compile(r"[+0(][\d\s()./-]*")
_SCHEME = re.compile(r"(?:mailto|tel):", re.IGNORECASE)
_MIN_DIGITS, _MAX_DIGITS = 7, 15
_GROUPED_DIGITS = re.compile(r"(?!\d{4}-\d\d-\d\d$)[0-9(][\d()]*(?:[ ./-]{1,3}[\d()]+)+")
"""A number as people write it. Digits without a separator can be the id of a source."""
_PERSONAL = frozenset((
    PhoneNumberType.FIXED_LINE, PhoneNumberType.MOBILE, PhoneNumberType.FIXED_LINE_OR_MOBILE,
    PhoneNumberType.PERSONAL_NUMBER, PhoneNumberType.VOIP,
))  # fmt: skip
"""Kinds of numbers that one person has; the others are services."""


@dataclass(frozen=True, slots=True)
class PersonName:
    """An identity with the name that a record gives it."""

    identity: str
    name: str | None


def people_of(
    roles: StreamRoles,
    data: Mapping[str, Any],
    *,
    connection_id: str,
    identities: Iterable[str],
    owner: frozenset[str],
    country: str = "",
) -> list[PersonName]:
    """Return the people of a record without the owner.

    ``identities`` are those of the owner in the connection, ``owner`` the owner's addresses and
    numbers everywhere. ``country`` completes numbers, as ``with_country`` does.
    """
    own = frozenset(identities)
    found: dict[str, PersonName] = {}
    for named, text in _named(roles, data, connection_id, own):
        person = replace(named, identity=with_country(named.identity, country))
        if person.identity in owner or normalize_identity(text) in own:
            continue
        known = found.setdefault(person.identity, person)
        if known.name is None and person.name is not None:
            found[person.identity] = person
    return _without_bare_names(list(found.values()))[:MAX_PEOPLE]


def author_of(roles: StreamRoles, data: Mapping[str, Any], connection_id: str) -> PersonName | None:
    """Return the actor of a record, by address or id if it has one."""
    name = _text(data.get(roles.actor or ""))
    addresses = [*_texts(data, (roles.actor_id or "",)), *_texts(data, roles.addresses)]
    if addresses:
        found = [parse_address(text, connection_id) for text in addresses]
        return PersonName(min(found, key=_rank), name if name and name not in addresses else None)
    return parse_person(name, connection_id) if name else None


def subject_of(
    roles: StreamRoles, data: Mapping[str, Any], connection_id: str
) -> PersonName | None:
    """Return whom a record is about or from: the person of a card, or else the actor."""
    if roles.is_contact_card:
        return next((person for person, _ in _card(roles, data, connection_id)), None)
    return author_of(roles, data, connection_id)


def parse_person(text: str, connection_id: str) -> PersonName:
    """Return the identity in a name, an address, a number or ``Name <address>``."""
    if named := _NAMED.fullmatch(text):
        identity = parse_address(named["address"], connection_id)
        return PersonName(identity, " ".join(named["name"].split()) or None)
    identity = parse_address(text, connection_id)
    if not identity.startswith("id:"):
        return PersonName(identity, None)
    return PersonName(f"name:{connection_id}:{_clip(normalize_identity(text))}", _clip(text))


def parse_address(text: str, connection_id: str) -> str:
    """Return the identity of an address, a number, or an id of the connection."""
    text = _SCHEME.sub("", " ".join(text.split()), count=1)
    if _EMAIL.fullmatch(text):
        return f"mail:{_clip(text.lower())}"
    if (number := normalize_phone(text)) is not None:
        return f"tel:{number}"
    return f"id:{connection_id}:{_clip(text)}"


def normalize_phone(text: str) -> str | None:
    """Return an international number as +491701234567, another one as its digits, or None.

    A number without a country is the same only where it is written without one.
    """
    if not _PHONE.fullmatch(text):
        return None
    digits = re.sub(r"\D", "", text.replace("(0)", "") if text.startswith(("+", "00")) else text)
    if text.startswith("+"):
        number = f"+{digits}"
    else:
        number = f"+{digits[2:]}" if digits.startswith("00") else digits
    return number if _MIN_DIGITS <= len(number.lstrip("+")) <= _MAX_DIGITS else None


def with_country(identity: str, country: str) -> str:
    """Return the identity with a number that was written without a country as an international one.

    Other identities remain: short codes, numbers of services, and those invalid in the country.
    """
    kind, _, text = identity.partition(":")
    if kind == "id":
        text = text.partition(":")[2]
    is_national = text.isdecimal() if kind == "tel" else bool(_GROUPED_DIGITS.fullmatch(text))
    if not country or kind not in ("tel", "id") or not is_national:
        return identity
    # Elsewhere a number within the country begins with 0, and others are no number of a person.
    if kind == "id" and phonenumbers.ndd_prefix_for_region(country, strip_non_digits=True) not in (
        None,
        "1",
    ):
        return identity
    try:
        number = phonenumbers.parse(text, country)
    except phonenumbers.NumberParseException:
        return identity
    is_valid = phonenumbers.is_valid_number_for_region(number, country)
    if not is_valid or phonenumbers.number_type(number) not in _PERSONAL:
        return identity
    return f"tel:{phonenumbers.format_number(number, PhoneNumberFormat.E164)}"


def owner_identities(identities: Iterable[str], country: str = "") -> frozenset[str]:
    """Return the owner's addresses and numbers as identities."""
    found = (with_country(parse_address(text, ""), country) for text in identities)
    return frozenset(identity for identity in found if not identity.startswith("id:"))


def describe_identity(identity: str) -> str:
    """Return an identity as the owner writes it."""
    kind, _, text = identity.partition(":")
    return text if kind in ("mail", "tel") else text.partition(":")[2]


def _named(
    roles: StreamRoles, data: Mapping[str, Any], connection_id: str, own: frozenset[str]
) -> Iterator[tuple[PersonName, str]]:
    """Yield everybody in a record with the text that names them."""
    if roles.is_contact_card:
        yield from _card(roles, data, connection_id)
    elif determine_origin(data, roles=roles.stream.authorship, identities=own) != Origin.OWNER:
        author = author_of(roles, data, connection_id)
        if author is not None:
            names = (roles.actor_id or "", *roles.addresses, roles.actor or "")
            yield author, next(_texts(data, names))
    for text in _texts(data, roles.participants):
        yield parse_person(text, connection_id), text


def _card(
    roles: StreamRoles, data: Mapping[str, Any], connection_id: str
) -> Iterator[tuple[PersonName, str]]:
    name = _text(data.get(roles.title or ""))
    addresses = list(_texts(data, roles.addresses))
    for text in addresses:
        yield PersonName(parse_address(text, connection_id), name and _clip(name)), text
    if name and not addresses:
        yield parse_person(name, connection_id), name


def _without_bare_names(people: list[PersonName]) -> list[PersonName]:
    """Leave out names of people whose address the same record has."""
    addressed = {
        normalize_identity(each.name)
        for each in people
        if each.name and not each.identity.startswith("name:")
    }
    return [
        each
        for each in people
        if not each.identity.startswith("name:")
        or normalize_identity(each.name or "") not in addressed
    ]


def _rank(identity: str) -> int:
    """Return the order in which identities name a person: addresses, numbers, ids."""
    return ("mail", "tel", "id").index(identity.partition(":")[0])


def _texts(data: Mapping[str, Any], names: Iterable[str]) -> Iterator[str]:
    for name in names:
        value = data.get(name)
        values = value if isinstance(value, list) else [value]
        yield from filter(None, map(_text, values))


def _text(value: object) -> str | None:
    return value.strip() or None if isinstance(value, str) else None


def _clip(text: str) -> str:
    return text[:MAX_CHARS]
