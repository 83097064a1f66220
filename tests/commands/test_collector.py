"""``manage.py collector`` adds, lists and revokes tokens of programs that store records."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from tests.world import WORK, World


def run(*arguments: str) -> str:
    said = StringIO()
    call_command("collector", *arguments, stdout=said, stderr=StringIO())
    return said.getvalue().strip()


def test_a_token_is_printed_once_and_ends_when_it_is_revoked(world: World) -> None:
    world.tokens["new"] = run("add", "Gmail", "--connection", WORK)
    assert world.tokens["new"].startswith("pdpp_col_")
    assert "never used" in run("list")

    assert world.get("/v1/state/mail", "new").status == 200

    [row] = run("list").splitlines()
    assert "Gmail" in row
    assert WORK in row
    assert "never used" not in row
    assert world.tokens["new"] not in row
    assert run("revoke", row.split()[0]) == "Revoked."
    assert world.get("/v1/state/mail", "new").status == 401
    with pytest.raises(CommandError, match="No collector"):
        run("revoke", row.split()[0])


@pytest.mark.parametrize("arguments", [("Gmail", "cin_none"), (" ", WORK)])
def test_wrong_names_are_refused(world: World, arguments: tuple[str, str]) -> None:
    name, connection_id = arguments
    with pytest.raises(CommandError):
        run("add", name, "--connection", connection_id)
    assert run("list") == ""
