"""Owner credentials in the environment are found."""

import pytest

from cli.credentials import find_owner_credential
from tests.scenarios import scenario


@scenario("C6")
@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({"PDPP_ACCESS_TOKEN": "pdpp_own_abc"}, "PDPP_ACCESS_TOKEN"),
        ({"WHATEVER": "Bearer pdpp_own_abc", "PATH": "/bin"}, "WHATEVER"),
        ({"PDPP_ACCESS_TOKEN": "pdpp_at_abc", "PATH": "/bin"}, None),
        ({}, None),
    ],
)
def test_owner_token_in_any_variable_is_found(
    environment: dict[str, str], name: str | None
) -> None:
    assert find_owner_credential(environment) == name
