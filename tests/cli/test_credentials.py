"""Whose credential is used, where it is kept, and that it is never an owner's."""

import pytest

from cli.credentials import owner_credential
from tests.scenarios import scenario


@scenario("C6")
@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({"PDPP_ACCESS_TOKEN": "pdpp_own_abc"}, "PDPP_ACCESS_TOKEN"),
        ({"WHATEVER": "Bearer pdpp_own_abc", "PATH": "/bin"}, "WHATEVER"),
        ({"PDPP_ACCESS_TOKEN": "pdpp_at_abc", "PATH": "/bin"}, None),
        ({}, None),
    ],
)
def test_an_owner_token_anywhere_in_the_environment_is_noticed(
    environment: dict[str, str], found: str | None
) -> None:
    assert owner_credential(environment) == found
