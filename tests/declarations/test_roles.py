"""Each role can tell who origin a record; the default is unknown."""

import pytest

from evidence.declarations.declaration import determine_origin, normalize_identity

ALICE = frozenset({"alice@example.org", "u1", "alice"})
MAIL = {"from_name": "actor", "from_email": "actor-id", "folder": "direction"}
CHAT = {"author": "actor", "author_id": "actor-id"}
NAMED = {"organizer": "actor"}


@pytest.mark.parametrize(
    ("roles", "fields", "origin"),
    [
        (CHAT, {"author_id": "u1"}, "owner"),
        (CHAT, {"author_id": " U1 "}, "owner"),
        (CHAT, {"author_id": "u2"}, "third_party"),
        # Anyone can use any name.
        (CHAT, {"author": "Alice"}, "unknown"),
        (CHAT, {"author": "Alice", "author_id": "u2"}, "third_party"),
        (CHAT, {"author": "Mallory", "author_id": "u1"}, "third_party"),
        (NAMED, {"organizer": "alice"}, "unknown"),
        (NAMED, {"organizer": "Mallory"}, "third_party"),
        # The direction overrides a sender address.
        (MAIL, {"from_email": "alice@example.org", "folder": "inbox"}, "third_party"),
        (MAIL, {"from_email": "alice@example.org", "folder": "sent"}, "owner"),
        (MAIL, {"from_email": "eva@example.org", "folder": "sent"}, "third_party"),
        (MAIL, {"from_email": "alice@example.org"}, "unknown"),
        # The owner's own name need not be among the identities.
        (
            MAIL,
            {"from_name": "Alice L.", "from_email": "alice@example.org", "folder": "sent"},
            "owner",
        ),
        (MAIL, {"from_name": "Alice L.", "folder": "sent"}, "owner"),
        (MAIL, {"from_name": "Alice L.", "from_email": "alice@example.org"}, "unknown"),
        (
            MAIL,
            {"from_name": "Mallory", "from_email": "alice@example.org", "folder": "inbox"},
            "third_party",
        ),
        (MAIL, {"from_name": "Mallory"}, "third_party"),
        (MAIL, {"folder": "sent"}, "owner"),
        (MAIL, {"folder": "spam"}, "third_party"),
        (MAIL, {"folder": "[Gmail]/Gesendet"}, "owner"),
        (MAIL, {"folder": "INBOX.Sent Items"}, "owner"),
        (MAIL, {"folder": "Sent to the lawyer"}, "third_party"),
        # No usable field.
        (CHAT, {}, "unknown"),
        (CHAT, {"author_id": None}, "unknown"),
        (CHAT, {"author_id": "  "}, "unknown"),
        (CHAT, {"author_id": ["u1"]}, "unknown"),
        ({}, {"author_id": "u1"}, "unknown"),
    ],
)
def test_origin_of_a_record(roles: dict[str, str], fields: dict[str, object], origin: str) -> None:
    assert determine_origin(fields, roles=roles, identities=ALICE) == origin


def test_origin_is_unknown_without_identities() -> None:
    assert determine_origin({"author_id": "u1"}, roles=CHAT, identities=()) == "unknown"


def test_all_ids_must_be_the_owners() -> None:
    both = {"sender": "actor-id", "on_behalf_of": "actor-id"}

    assert determine_origin(
        {"sender": "u1", "on_behalf_of": "u2"}, roles=both, identities=ALICE
    ) == ("third_party")
    assert determine_origin({"sender": "u1"}, roles=both, identities=ALICE) == "unknown"


def test_identities_are_compared_ignoring_case_and_spaces() -> None:
    assert normalize_identity("  Alice   Liddell ") == "alice liddell"
