"""`manage.py mcp_stdio`: serve MCP over standard input and output for one token.

Exit codes as in sysexits.h: 77 if the environment has an owner's credential, which an agent must not
have; 78 without a valid token.
"""

import os
from collections.abc import Mapping
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from typing_extensions import override

from cli import errors
from cli.credentials import reject_owner_environment
from cli.errors import CliError
from mcp_adapter import stdio
from mcp_adapter.inprocess import InProcessRest
from mcp_adapter.rest import TokenRejected
from pdpp_site import asgi_app


class Command(BaseCommand):
    """Reads PDPP_MCP_TOKEN. Standard output carries only the protocol."""

    help = "Serve MCP on standard input and output with the token in PDPP_MCP_TOKEN."
    requires_system_checks = []  # noqa: RUF012 - Django's own shape; nothing may be printed

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        reject_owner_credentials(os.environ)
        bearer = os.environ.get("PDPP_MCP_TOKEN", "").strip()
        require_valid_token(bearer)
        # Each call authenticates again, so that revoking the grant applies to the next call.
        stdio.serve(
            InProcessRest(),
            lambda: asgi_app.authenticate(bearer),
            server_info=asgi_app.server_info(),
        )


def reject_owner_credentials(environment: Mapping[str, str]) -> None:
    """Fail if the environment, which the agent inherits, has an owner's credential."""
    try:
        reject_owner_environment(environment)
    except CliError as error:
        raise CommandError(
            f"{error.message} {error.next_step}", returncode=error.exit_code
        ) from None


def require_valid_token(bearer: str) -> None:
    """Fail at startup if the token is missing or invalid; a paused grant may be resumed later."""
    if not bearer:
        raise CommandError("Set PDPP_MCP_TOKEN.", returncode=errors.NOT_CONNECTED)
    try:
        asgi_app.authenticate(bearer)
    except TokenRejected as error:
        if error.error["code"] == "grant_paused":
            return
        raise CommandError(
            f"PDPP_MCP_TOKEN does not work at {asgi_app.RESOURCE}: {error.error['message']}",
            returncode=errors.NOT_CONNECTED,
        ) from None
