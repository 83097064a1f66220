"""What is printed at the start can be pasted as it stands."""

import shlex

import pytest

from operations.demo_data import DemoTokens
from pdpp_site.management.commands import run

URL = "http://127.0.0.1:8000"


def shown(
    capsys: pytest.CaptureFixture[str], *, set_up: str | None, tokens: DemoTokens | None
) -> str:
    run.show_banner(run.StartupInfo(url=URL, set_up=set_up, tokens=tokens), seconds=1.23)
    return capsys.readouterr().out


def test_it_has_the_addresses_the_link_and_a_line_for_every_client(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tokens = DemoTokens(rest="pdpp_at_" + "r" * 43, mcp="pdpp_at_" + "m" * 43)
    link = f"{URL}/set-up/{'s' * 43}/"

    lines = [line.strip() for line in shown(capsys, set_up=link, tokens=tokens).splitlines()]

    assert link in lines
    assert f"MCP    {URL}/mcp" in lines
    commands = {line.split()[0]: shlex.split(line) for line in lines if line}
    assert commands["claude"][-1] == f"Authorization: Bearer {tokens.mcp}"
    assert commands["export"][-1] == f"PDPP_MCP_TOKEN={tokens.mcp}"
    assert commands["codex"][-2:] == ["--bearer-token-env-var", "PDPP_MCP_TOKEN"]
    assert f"Authorization: Bearer {tokens.rest}" in commands["curl"]


def test_without_a_demo_and_with_an_account_it_is_the_addresses_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = shown(capsys, set_up=None, tokens=None)

    assert f"{URL}/admin/" in said
    assert "set-up" not in said
    assert "Bearer" not in said
