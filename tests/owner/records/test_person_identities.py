"""Identities of people: addresses, numbers, ids of a source, and bare names."""

import pytest

from owner.records.person_identities import (
    PersonName,
    describe_identity,
    normalize_phone,
    owner_identities,
    parse_address,
    parse_person,
    with_country,
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


@pytest.mark.parametrize(
    ("text", "country", "identity"),
    [
        ("0170 1234567", "DE", "tel:+491701234567"),
        ("(030) 123-4567", "DE", "tel:+49301234567"),
        ("079 123 45 67", "CH", "tel:+41791234567"),
        ("(212) 555-2368", "US", "tel:+12125552368"),
        ("212-555-2368", "US", "tel:+12125552368"),
        ("+49 170 1234567", "US", "tel:+491701234567"),
        ("0170 1234567", "", "tel:01701234567"),
        ("0170 1234567", "US", "tel:01701234567"),
        ("0800 1234567", "DE", "tel:08001234567"),
        ("0900 5 123456", "DE", "tel:09005123456"),
        ("110", "DE", "id:cin_x:110"),
        ("22 833", "DE", "id:cin_x:22 833"),
        ("2125552368", "US", "id:cin_x:2125552368"),
        ("2026-01-01", "DE", "id:cin_x:2026-01-01"),
        ("1234.5678", "US", "id:cin_x:1234.5678"),
        ("a@example.org", "DE", "mail:a@example.org"),
        ("2026-01-01", "DK", "id:cin_x:2026-01-01"),
        ("612 34 56 78", "ES", "tel:+34612345678"),
        ("0170 1234567", "XX", "tel:01701234567"),
    ],
)
def test_a_number_without_a_country_is_one_of_the_owners_country(
    text: str, country: str, identity: str
) -> None:
    assert with_country(parse_address(text, IN), country) == identity
