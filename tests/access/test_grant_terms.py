"""The owner's choices become frozen terms; stored terms parse to equal terms."""

from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from evidence.access.grant_terms import (
    StreamRequest,
    parse_draft_terms,
    parse_terms,
    resolve_terms,
    serialize_terms,
)
from evidence.access.scope import Everything, FrozenRelation, Only, StreamTerms, TimeRange
from evidence.declarations.declaration import parse_declaration
from evidence.errors import InvalidRequest, StreamNotDeclared, UnknownField
from tests.world import MAIL as DECLARATION

SINCE, UNTIL = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 5, 1, tzinfo=UTC)
MAIL = StreamTerms(
    name="messages",
    connection_ids=frozenset({"cin_a", "cin_b"}),
    fields=Only(frozenset({"id", "subject"})),
    filters=Only(frozenset({"id"})),
    views=Only(frozenset({"list"})),
    relations=(FrozenRelation("thread", "threads", "thread_id", "one", 1, 10),),
    records=Only(frozenset({"m1"})),
    time=TimeRange(SINCE, UNTIL),
)


@pytest.mark.parametrize(
    "terms",
    [
        MAIL,
        replace(MAIL, records=Everything(), time=None),
        replace(MAIL, time=TimeRange(SINCE, None)),
        replace(MAIL, time=TimeRange(None, UNTIL)),
    ],
)
def test_terms_round_trip(terms: StreamTerms) -> None:
    document = serialize_terms([terms], time_fields={"messages": "received_at"})

    assert parse_draft_terms(orjson.dumps(document)) == (terms,)


def test_serialized_terms_have_the_stored_form() -> None:
    assert serialize_terms([MAIL], time_fields={"messages": "received_at"}) == [
        {
            "name": "messages",
            "instance_ids": ["cin_a", "cin_b"],
            "fields": ["id", "subject"],
            "filters": ["id"],
            "views": ["list"],
            "relations": [
                {
                    "name": "thread",
                    "stream": "threads",
                    "foreign_key": "thread_id",
                    "cardinality": "one",
                    "default_limit": 1,
                    "max_limit": 10,
                }
            ],
            "resources": ["m1"],
            "time_constraint": {
                "field": "received_at",
                "since": "2026-01-01T00:00:00+00:00",
                "until": "2026-05-01T00:00:00+00:00",
            },
        }
    ]


def test_stored_terms_never_filter_by_a_hidden_field() -> None:
    [document] = serialize_terms([MAIL], time_fields={})
    stored = orjson.dumps([document | {"filters": ["id", "body_text"]}]).decode()
    assert parse_terms(stored) == (MAIL,)


@pytest.mark.parametrize(
    "member", ["name", "instance_ids", "fields", "filters", "views", "relations"]
)
def test_stored_terms_without_a_member_are_unusable(member: str) -> None:
    [document] = serialize_terms([MAIL], time_fields={})
    del document[member]
    with pytest.raises(KeyError, match=member):
        parse_draft_terms(orjson.dumps([document]))


@pytest.mark.parametrize("part", ["fields", "filters", "views", "relations"])
def test_unrestricted_terms_cannot_be_serialized(part: str) -> None:
    with pytest.raises(TypeError, match="a grant names its"):
        serialize_terms([replace(MAIL, **{part: Everything()})], time_fields={})


def resolve(*, selectable: bool = True, **choices: Any) -> StreamTerms:
    """Resolve a request for messages, whose two fields of unclear type no filter may use."""
    document = deepcopy(DECLARATION)
    messages = document["streams"][0]
    messages["schema"]["properties"] |= {
        "extra": {"type": "object"},
        "mixed": {"type": ["string", "integer"]},
    }
    messages["selection"] = {"fields": selectable, "resources": selectable}
    declared = parse_declaration(document).streams
    request = StreamRequest(**{"name": "messages"} | choices)
    return resolve_terms(request, streams=declared, connection_ids=frozenset({"cin_a", "cin_b"}))


EVERY_FIELD = {*DECLARATION["streams"][0]["schema"]["properties"], "extra", "mixed"}


def test_request_without_choices_grants_the_whole_stream() -> None:
    assert resolve() == StreamTerms(
        name="messages",
        connection_ids=frozenset({"cin_a", "cin_b"}),
        fields=Only(frozenset(EVERY_FIELD)),
        filters=Only(frozenset(EVERY_FIELD - {"extra", "mixed"})),
        views=Only(frozenset({"envelope", "sizes"})),
        relations=(FrozenRelation("thread", "threads", "thread_id", "has_one", 10, 50),),
        records=Everything(),
        time=None,
    )


def test_choices_restrict_the_terms() -> None:
    terms = resolve(
        connection_ids=["cin_b", "cin_c"],
        fields=["subject", "received_at", "extra"],
        resources=["m1"],
        since=SINCE,
        until=UNTIL,
    )

    assert terms.connection_ids == {"cin_b"}
    assert terms.fields == Only(frozenset({"id", "subject", "received_at", "extra"}))
    assert terms.filters == Only(frozenset({"id", "subject", "received_at"}))
    assert terms.views == Only(frozenset({"envelope"}))
    assert terms.records == Only(frozenset({"m1"}))
    assert terms.time == TimeRange(SINCE, UNTIL)
    assert resolve(since=SINCE).time == TimeRange(SINCE, None)
    assert resolve(until=UNTIL).time == TimeRange(None, UNTIL)
    assert resolve(connection_ids=[], fields=[], resources=[]).connection_ids == frozenset()
    assert resolve(resources=[]).records == Only(frozenset())


@pytest.mark.parametrize(
    ("choices", "kind", "param", "message"),
    [
        ({"name": "x"}, StreamNotDeclared, "streams", "no stream 'x'; it has: messages, threads."),
        ({"fields": ["x", "y"]}, UnknownField, "fields", "no field 'x'; it has: id, thread_id, s"),
        (
            {"fields": ["id"], "selectable": False},
            InvalidRequest,
            "fields",
            "'messages' does not allow choosing fields",
        ),
        (
            {"resources": [], "selectable": False},
            InvalidRequest,
            "resources",
            "'messages' does not allow granting single records",
        ),
        (
            {"name": "threads", "since": SINCE},
            InvalidRequest,
            "since",
            "'threads' has no time field",
        ),
        ({"since": SINCE, "until": SINCE}, InvalidRequest, "until", "ends before it starts"),
    ],
)
def test_choices_beyond_the_declaration_are_refused(
    choices: dict[str, Any], kind: type[Exception], param: str, message: str
) -> None:
    with pytest.raises(kind, match=message) as refused:
        resolve(**choices)
    assert getattr(refused.value, "param", None) == param


def test_all_fields_may_be_chosen_where_none_may_be_left_out() -> None:
    assert resolve(fields=[*EVERY_FIELD], selectable=False) == resolve()
