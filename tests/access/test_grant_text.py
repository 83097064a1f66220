"""Descriptions of grants and fields."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from evidence.access.grant_text import (
    describe_stream,
    field_detail,
    field_label,
    humanize,
    join_words,
)
from evidence.access.scope import Everything, Only, StreamTerms, TimeRange
from evidence.declarations.declaration import parse_declaration
from tests.world import ACCOUNT, MAIL

MESSAGES = parse_declaration(MAIL).streams["messages"]
TRANSACTIONS = parse_declaration(ACCOUNT).streams["transactions"]
LABELS = {"cin_a": "Home", "cin_b": "Work"}
NEW_YEAR = datetime(2025, 1, 1, tzinfo=UTC)


def terms(
    *,
    fields: set[str] | None = None,
    records: set[str] | None = None,
    time: TimeRange | None = None,
    connections: set[str] | None = None,
) -> StreamTerms:
    return StreamTerms(
        name="messages",
        connection_ids=frozenset(connections or {"cin_a"}),
        fields=Everything() if fields is None else Only(frozenset(fields)),
        filters=Everything(),
        views=Everything(),
        relations=Everything(),
        records=Everything() if records is None else Only(frozenset(records)),
        time=time,
    )


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        (terms(), "Messages: every field of all records, through “Home”."),
        (
            terms(fields={"subject", "id"}, connections={"cin_b", "cin_a"}),
            "Messages: Id and Subject of all records, through “Home” and “Work”.",
        ),
        (
            terms(time=TimeRange(NEW_YEAR, None)),
            "Messages: every field of all records received from 1 January 2025 on, through “Home”.",
        ),
        (
            terms(time=TimeRange(None, NEW_YEAR)),
            "Messages: every field of all records received up to 31 December 2024, through “Home”.",
        ),
        (
            terms(time=TimeRange(NEW_YEAR, datetime(2025, 3, 1, 12, tzinfo=UTC))),
            "Messages: every field of all records received from 1 January 2025 to"
            " 1 March 2025, through “Home”.",
        ),
        (
            terms(records={"m1"}, connections={"cin_gone"}),
            "Messages: every field of one single record, through “cin_gone”.",
        ),
        (
            terms(records=set(), fields=set()),
            "Messages: nothing of no single records, through “Home”.",
        ),
    ],
)
def test_stream_terms_are_described_in_a_sentence(what: StreamTerms, sentence: str) -> None:
    assert describe_stream(what, stream=MESSAGES, labels=LABELS).sentence == sentence


def test_single_records_are_listed_and_no_limit_is_none() -> None:
    some = describe_stream(terms(records={"b", "a"}), stream=MESSAGES, labels=LABELS)
    every = describe_stream(terms(), stream=MESSAGES, labels=LABELS)

    assert some.record_keys == ("a", "b")
    assert every.record_keys is None


def test_time_field_without_verb_uses_dated() -> None:
    words = describe_stream(
        terms(time=TimeRange(NEW_YEAR, None)), stream=TRANSACTIONS, labels=LABELS
    )

    assert "all records dated from 1 January 2025 on" in words.sentence


def test_undeclared_stream_is_described_by_its_name() -> None:
    words = describe_stream(terms(fields={"b", "a"}), stream=None, labels=LABELS)

    assert words.sentence == "messages: a and b of all records, through “Home”."


@pytest.mark.parametrize(
    ("name", "others", "label"),
    [
        ("id", (), "Id"),
        ("account_id", (), "Account"),
        ("account_id", ("account",), "Account id"),
        ("thread_id", (), "Conversation"),
        ("thread_id", ("conversation_id",), "Thread"),
    ],
)
def test_ids_are_called_by_what_they_lead_to(
    name: str, others: tuple[str, ...], label: str
) -> None:
    field = replace(MESSAGES.fields["thread_id"], name=name)

    assert field_label(field, (name, *others)) == label


def test_field_detail_describes_role_and_kind() -> None:
    assert field_detail(MESSAGES.fields["received_at"]) == "when it happened; date and time"
    assert field_detail(TRANSACTIONS.fields["amount"]) == "number"
    assert humanize("received_at") == "Received at"
    assert field_label(MESSAGES.fields["is_seen"], MESSAGES.fields) == "Seen"
    assert join_words(["a", "b", "c"]) == "a, b and c"


@pytest.mark.parametrize(
    ("of", "words"),
    [
        ({}, "text"),
        ({"types": ("number",)}, "number"),
        ({"format": "date-time"}, "date and time"),
        ({"format": "date"}, "date"),
        ({"types": ("boolean",)}, "yes or no"),
        ({"types": ("array",)}, "list"),
        ({"types": ("object",)}, "several values"),
        ({"types": ("string", "array")}, "anything"),
        ({"role": "primary-title"}, "the title; text"),
        ({"role": "actor"}, "who did it; text"),
        ({"role": "actor-id"}, "who did it; text"),
        ({"role": "direction"}, "sent or received; text"),
        ({"role": "secondary"}, "more about it; text"),
        ({"role": "of-its-own"}, "of its own; text"),
        ({"schema": {"description": "The first line."}}, "The first line; text"),
    ],
)
def test_kinds_and_roles_have_labels(of: dict[str, Any], words: str) -> None:
    plain: dict[str, Any] = {"types": ("string",), "format": None, "role": None, "schema": {}}

    assert field_detail(replace(MESSAGES.fields["subject"], **(plain | of))) == words
