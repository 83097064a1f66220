"""Identities of people: addresses, numbers, ids of a source, and bare names."""

import pytest

from owner.records.person_identities import (
    PersonName,
    describe_identity,
    normalize_phone,
    owner_identities,
    parse_person,
)

IN = "cin_x"


@pytest.mark.parametrize(
    ("text", "identity", "name"),
    [
        ("Eva@Example.ORG", "mail:eva@example.org", None),
        ("eva+bills@example.org", "mail:eva+bills@example.org", None),
        ("mailto:eva@example.org", "mail:eva@example.org", None),
        ("Eva Lang <eva@example.org>", "mail:eva@example.org", "Eva Lang"),
        ('"Lang, Eva" <EVA@example.org>', "mail:eva@example.org", "Lang, Eva"),
        ("tel:+49-170-1234567", "tel:+491701234567", None),
        ("Eva  Lang", "name:cin_x:eva lang", "Eva  Lang"),
        ("<b>", "id:cin_x:b", None),
        ("a@b@c", "name:cin_x:a@b@c", "a@b@c"),
    ],
)
def test_a_person_is_read_from_a_text(text: str, identity: str, name: str | None) -> None:
    assert parse_person(text, IN) == PersonName(identity, name)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("+49 (0)170 / 123-45.67", "+491701234567"),
        ("0049 170 1234567", "+491701234567"),
        ("0170 1234567", "01701234567"),
        ("(212) 555-0100", "2125550100"),
        ("+1 212 555 0100", "+12125550100"),
        ("80351110224678912", None),
        ("+12345", None),
        ("0", None),
        ("+" + "1" * 16, None),
        ("U0123", None),
        ("2026-01-01", None),
    ],
)
def test_numbers_are_international_or_as_written(text: str, number: str | None) -> None:
    assert normalize_phone(text) == number


def test_only_addresses_and_numbers_of_the_owner_count_everywhere() -> None:
    found = owner_identities(["alice", "alice@example.org", "+49 30 1234567"])
    assert found == {"mail:alice@example.org", "tel:+49301234567"}


@pytest.mark.parametrize(
    ("identity", "text"),
    [
        ("mail:eva@example.org", "eva@example.org"),
        ("id:cin_x:u:1", "u:1"),
        ("name:cin_x:eva", "eva"),
    ],
)
def test_an_identity_is_shown_as_it_is_written(identity: str, text: str) -> None:
    assert describe_identity(identity) == text
