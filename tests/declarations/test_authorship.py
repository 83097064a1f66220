"""Who wrote a record: what each role can say, and that the safe answer is given where none can."""

import pytest

from evidence.declarations.authorship import known_as, origin

ALICE = frozenset({"alice@example.org", "u1", "alice"})
MAIL = {"from_name": "actor", "from_email": "actor-id", "folder": "direction"}
CHAT = {"author": "actor", "author_id": "actor-id"}
NAMED = {"organizer": "actor"}


@pytest.mark.parametrize(
    ("roles", "shown", "wrote"),
    [
        (CHAT, {"author_id": "u1"}, "owner"),
        (CHAT, {"author_id": " U1 "}, "owner"),
        (CHAT, {"author_id": "u2"}, "third_party"),
        # A name is anybody's.
        (CHAT, {"author": "Alice"}, "unknown"),
        (CHAT, {"author": "Alice", "author_id": "u2"}, "third_party"),
        (CHAT, {"author": "Mallory", "author_id": "u1"}, "third_party"),
        (NAMED, {"organizer": "alice"}, "unknown"),
        (NAMED, {"organizer": "Mallory"}, "third_party"),
        # Nor does an address prove anything where the source says which way a record went.
        (MAIL, {"from_email": "alice@example.org", "folder": "inbox"}, "third_party"),
        (MAIL, {"from_email": "alice@example.org", "folder": "sent"}, "owner"),
        (MAIL, {"from_email": "eva@example.org", "folder": "sent"}, "third_party"),
        (MAIL, {"from_email": "alice@example.org"}, "unknown"),
        (MAIL, {"folder": "sent"}, "owner"),
        (MAIL, {"folder": "spam"}, "third_party"),
        # Nothing to go by.
        (CHAT, {}, "unknown"),
        (CHAT, {"author_id": None}, "unknown"),
        (CHAT, {"author_id": "  "}, "unknown"),
        (CHAT, {"author_id": ["u1"]}, "unknown"),
        ({}, {"author_id": "u1"}, "unknown"),
    ],
)
def test_who_wrote_a_record(roles: dict[str, str], shown: dict[str, object], wrote: str) -> None:
    assert origin(shown, roles=roles, identities=ALICE) == wrote


def test_without_identities_nobody_is_taken_for_the_owner_or_for_another() -> None:
    assert origin({"author_id": "u1"}, roles=CHAT, identities=()) == "unknown"


def test_every_id_has_to_be_the_owners() -> None:
    both = {"sender": "actor-id", "on_behalf_of": "actor-id"}

    assert origin({"sender": "u1", "on_behalf_of": "u2"}, roles=both, identities=ALICE) == (
        "third_party"
    )
    assert origin({"sender": "u1"}, roles=both, identities=ALICE) == "unknown"


def test_identities_are_compared_without_case_and_spaces() -> None:
    assert known_as("  Alice   Liddell ") == "alice liddell"
