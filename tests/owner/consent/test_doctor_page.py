"""The doctor as a button of the connect page: for the owner alone, and to this server alone."""

import httpx2
import pytest

from operations.doctor import Finding, Outcome, Side
from owner import connected_apps
from tests.owner.pages.browser import Browser

FINDING = Finding(
    step="challenge",
    outcome=Outcome.FAILS,
    tried="Ask /mcp without a token",
    seen="<script>",
    code="timeout",
    side=Side.NETWORK,
    change="Open the port.",
)

SKIPPED = Finding(step="tools", outcome=Outcome.SKIPPED, tried="List the tools", seen="Skipped")


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Where the doctor walked to, and as whom."""
    walked: list[tuple[str, str]] = []

    def diagnose(url: str, client: httpx2.Client, *, host: str) -> list[Finding]:
        walked.append((url, host))
        return [FINDING, SKIPPED]

    monkeypatch.setattr(connected_apps, "diagnose", diagnose)
    return walked


def test_connection_check_shows_the_failed_step_and_the_fix(
    alice: Browser, walked: list[tuple[str, str]]
) -> None:
    page = alice.open(alice.open("/connect").link("check the connection"))
    assert walked == []
    [form] = [
        each
        for each in page.forms
        if each.values("host") or not each.action.endswith(("/logout", "/search"))
    ]
    form.fill("host", "codex")

    told = alice.press(form)

    assert walked == [("http://127.0.0.1:8000", "codex")]
    assert "Ask /mcp without a token: fails" in told.text
    assert "Responsible: network. Open the port." in told.text
    assert "&lt;script&gt;" in told.html
    assert "List the tools" not in told.text, "it needs a token, which no form asks for"
