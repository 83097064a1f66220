"""A refusal says what it is in a code and a sentence, and carries what helps."""

import pytest

from evidence import errors, limits
from evidence.errors import AmbiguousConnection, AmbiguousSchemaDetail, Code, InvalidSort, Refusal

KINDS = sorted(
    (
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type)
        and issubclass(kind, Refusal)
        and not kind.__name__.startswith("_")
    ),
    key=lambda kind: kind.__name__,
)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_says_one_sentence(kind: type[Refusal]) -> None:
    sentence = (kind.__doc__ or "").partition("\n")[0]

    assert sentence.endswith(".")
    assert sentence[0].isupper()
    assert isinstance(kind.code, Code)


def test_no_two_kinds_have_one_code() -> None:
    codes = [kind.code for kind in KINDS]

    assert len(set(codes)) == len(codes)


def test_the_sentence_is_the_message_unless_another_is_given() -> None:
    assert str(InvalidSort()) == "The stream cannot be sorted like that."
    worded = InvalidSort(message="Sort by sent_at.", param="sort", next_step="Read /v1/schema.")

    assert (str(worded), worded.message) == ("Sort by sent_at.",) * 2
    assert (worded.code, worded.param) == ("invalid_sort", "sort")
    assert worded.extra == {"next_step": "Read /v1/schema."}


def test_an_ambiguity_names_its_candidates_and_how_to_choose() -> None:
    candidates = [{"connection_id": "cin_a", "display_name": "Work"}, {"connection_id": "cin_b"}]
    refusal = AmbiguousConnection(candidates, discovery_hint="Call schema.")

    assert (refusal.code, refusal.param) == ("ambiguous_connection", "connection_id")
    assert refusal.extra == {
        "retry_with": "connection_id",
        "available_connections": candidates,
        "available_connection_count": 2,
        "available_connections_truncated": False,
        "available_connections_omitted": 0,
        "discovery_hint": "Call schema.",
    }


def test_an_ambiguity_of_many_names_the_first_and_counts_the_rest() -> None:
    many = [{"connection_id": f"cin_{number}"} for number in range(limits.CANDIDATES_MAX + 3)]
    refusal = AmbiguousSchemaDetail(many)

    assert refusal.extra["available_connections"] == many[: limits.CANDIDATES_MAX]
    assert refusal.extra["available_connection_count"] == limits.CANDIDATES_MAX + 3
    assert refusal.extra["available_connections_truncated"] is True
    assert refusal.extra["available_connections_omitted"] == 3
