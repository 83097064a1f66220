"""``manage.py doctor [--as HOST] [URL]``: which step of connecting an agent fails, and why."""

import json
import os
from dataclasses import asdict
from typing import Any

import httpx2
from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser
from typing_extensions import override

from evidence.management.argument_types import server
from operations.doctor import HOSTS, Finding, Outcome, diagnose

MARKS = {
    Outcome.WORKS: "ok  ",
    Outcome.WARNS: "warn",
    Outcome.FAILS: "FAIL",
    Outcome.SKIPPED: "--  ",
}
SECONDS = 15.0


class Command(BaseCommand):
    """Ends with 1 where a step fails. A token in PDPP_ACCESS_TOKEN lets it try the tools, too."""

    help = "Walk to the server as an agent's host does and say which step fails."
    requires_system_checks = []  # noqa: RUF012 - Django's own shape; it is about what is outside

    @override
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "url", nargs="?", type=server, default=settings.PDPP_PUBLIC_URL, metavar="URL"
        )
        parser.add_argument("--as", dest="host", default="", choices=sorted(HOSTS))
        parser.add_argument("--json", action="store_true", help="For programs.")

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        bearer = os.environ.get("PDPP_ACCESS_TOKEN", "").strip() or None
        with httpx2.Client(timeout=SECONDS) as client:
            findings = diagnose(options["url"], client, host=options["host"], bearer=bearer)
        if options["json"]:
            told = [asdict(finding) for finding in findings]
            self.stdout.write(json.dumps(told, ensure_ascii=False, indent=2))
        else:
            self.stdout.write(f"{options['url']}\n" + "\n".join(map(lines, findings)))
        if any(finding.outcome is Outcome.FAILS for finding in findings):
            raise SystemExit(1)


def lines(finding: Finding) -> str:
    """One finding for a person."""
    told = f"{MARKS[finding.outcome]}  {finding.tried}: {finding.seen}"
    if finding.side is None:
        return told
    return f"{told}\n      side: {finding.side}\n      change: {finding.change}"
