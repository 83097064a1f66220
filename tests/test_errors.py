"""Every error has a code, a default message and the members that help a client to recover."""

import pytest

from evidence import errors, limits
from evidence.errors import (
    AmbiguousConnection,
    AmbiguousSchemaDetail,
    ApiException,
    Code,
    InvalidSort,
)

ERROR_CLASSES = sorted(
    (
        value
        for value in vars(errors).values()
        if isinstance(value, type)
        and issubclass(value, ApiException)
        and not value.__name__.startswith("_")
    ),
    key=lambda error_class: error_class.__name__,
)


@pytest.mark.parametrize("error_class", ERROR_CLASSES)
def test_default_message_is_one_sentence(error_class: type[ApiException]) -> None:
    message = error_class.default_message()

    assert message.endswith(".")
    assert message[0].isupper()
    assert isinstance(error_class.code, Code)


def test_error_codes_are_unique() -> None:
    codes = [error_class.code for error_class in ERROR_CLASSES]

    assert len(set(codes)) == len(codes)


def test_message_overrides_the_default_message() -> None:
    assert str(InvalidSort()) == "The stream does not support this sort order."
    error = InvalidSort(message="Sort by sent_at.", param="sort", next_step="Read /v1/schema.")

    assert (str(error), error.message) == ("Sort by sent_at.",) * 2
    assert (error.code, error.param) == ("invalid_sort", "sort")
    assert error.extra == {"next_step": "Read /v1/schema."}


def test_ambiguity_lists_candidates_and_the_parameter_to_retry_with() -> None:
    candidates = [{"connection_id": "cin_a", "display_name": "Work"}, {"connection_id": "cin_b"}]
    error = AmbiguousConnection(candidates, discovery_hint="Call schema.")

    assert (error.code, error.param) == ("ambiguous_connection", "connection_id")
    assert error.extra == {
        "retry_with": "connection_id",
        "available_connections": candidates,
        "available_connection_count": 2,
        "available_connections_truncated": False,
        "available_connections_omitted": 0,
        "discovery_hint": "Call schema.",
    }


def test_long_list_of_candidates_is_truncated_and_counted() -> None:
    candidates = [{"connection_id": f"cin_{number}"} for number in range(limits.CANDIDATES_MAX + 3)]
    error = AmbiguousSchemaDetail(candidates)

    assert error.extra["available_connections"] == candidates[: limits.CANDIDATES_MAX]
    assert error.extra["available_connection_count"] == limits.CANDIDATES_MAX + 3
    assert error.extra["available_connections_truncated"] is True
    assert error.extra["available_connections_omitted"] == 3
