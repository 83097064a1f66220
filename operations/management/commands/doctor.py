"""``manage.py doctor``: check each step of connecting an agent and print the fix."""

import json
import os
from dataclasses import asdict
from typing import Any

import httpx2
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandParser
from typing_extensions import override

from evidence.management.argument_types import server_url
from evidence.search.embedding import configured_embedder
from operations.doctor import HOSTS, Finding, Outcome, Side, diagnose

OUTCOME_LABELS = {
    Outcome.WORKS: "ok  ",
    Outcome.WARNS: "warn",
    Outcome.FAILS: "FAIL",
    Outcome.SKIPPED: "--  ",
}
TIMEOUT_SECONDS = 15.0


class Command(BaseCommand):
    """Exits with status 1 if a step fails. PDPP_MCP_TOKEN also lets it check the tools."""

    help = "Check each step of connecting an agent, and print the fix for a failing one."
    requires_system_checks = []  # noqa: RUF012 - Django's own type; this command works over HTTP

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "url", nargs="?", type=server_url, default=settings.PDPP_PUBLIC_URL, metavar="URL"
        )
        parser.add_argument("--as", dest="host", default="", choices=sorted(HOSTS))
        parser.add_argument("--json", action="store_true", help="Print JSON.")

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        bearer = os.environ.get("PDPP_MCP_TOKEN", "").strip() or None
        with httpx2.Client(timeout=TIMEOUT_SECONDS) as client:
            findings = diagnose(options["url"], client, host=options["host"], bearer=bearer)
        if options["url"] == settings.PDPP_PUBLIC_URL:
            findings = [*_settings_problems(), *findings]
        if options["json"]:
            text = [asdict(finding) for finding in findings]
            self.stdout.write(json.dumps(text, ensure_ascii=False, indent=2))
        else:
            self.stdout.write(f"{options['url']}\n" + "\n".join(map(format_finding, findings)))
        if any(finding.outcome is Outcome.FAILS for finding in findings):
            raise SystemExit(1)


def _settings_problems() -> list[Finding]:
    """Return what stops the server of this machine from starting and no request can show."""
    try:
        configured_embedder()
    except ImproperlyConfigured as error:
        return [
            Finding(
                step="embedder",
                tried="Load the embedding model",
                outcome=Outcome.FAILS,
                seen=str(error),
                code="embedder_unusable",
                side=Side.SERVER,
                change="Correct PDPP_EMBEDDER, then start the server.",
            )
        ]
    return []


def format_finding(finding: Finding) -> str:
    """Format one finding as text."""
    text = f"{OUTCOME_LABELS[finding.outcome]}  {finding.tried}: {finding.seen}"
    if finding.side is None:
        return text
    return f"{text}\n      side: {finding.side}\n      change: {finding.change}"
