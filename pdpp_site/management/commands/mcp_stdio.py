"""``manage.py mcp_stdio``: the MCP surface over standard input and output, for one token.

Exit codes, as in sysexits.h: 77, an owner's credential is in reach and an agent must not have it;
78, there is no token that works.
"""

import os
from collections.abc import Mapping
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from typing_extensions import override

from cli import errors
from cli.credentials import refuse_owners
from cli.errors import Failure
from mcp_adapter import stdio
from mcp_adapter.inprocess import InProcessRest
from mcp_adapter.rest import Refused
from pdpp_site import mcp_endpoints


class Command(BaseCommand):
    """Reads PDPP_ACCESS_TOKEN. Whatever is not the protocol goes to standard error."""

    help = "Serve MCP on standard input and output with the token in PDPP_ACCESS_TOKEN."
    requires_system_checks = []  # noqa: RUF012 - Django's own shape; nothing may be printed

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        refuse_owner_credentials(os.environ)
        bearer = os.environ.get("PDPP_ACCESS_TOKEN", "").strip()
        require_usable(bearer)
        # Every call asks again, so that a grant revoked in the meantime ends at once.
        stdio.serve(
            InProcessRest(),
            lambda: mcp_endpoints.authenticate(bearer),
            identity=mcp_endpoints.identity(),
        )


def refuse_owner_credentials(environment: Mapping[str, str]) -> None:
    """An agent's process inherits its environment, so the owner's own keys may not be in it."""
    try:
        refuse_owners(environment)
    except Failure as failure:
        raise CommandError(
            f"{failure.message} {failure.next_step}", returncode=failure.exit_code
        ) from None


def require_usable(bearer: str) -> None:
    """Better to fail at the start than on the first question."""
    if not bearer:
        raise CommandError("Set PDPP_ACCESS_TOKEN.", returncode=errors.NOT_CONNECTED)
    try:
        mcp_endpoints.authenticate(bearer)
    except Refused as refused:
        raise CommandError(
            f"PDPP_ACCESS_TOKEN does not work at {mcp_endpoints.RESOURCE}: {refused.error['message']}",
            returncode=errors.NOT_CONNECTED,
        ) from None
