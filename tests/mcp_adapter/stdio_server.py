"""A stdio server process over a fake REST API.

Its handler prints, to test that such output stays out of the protocol.
"""

import os
import sys

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "pdpp_site.settings")
os.environ.setdefault("PDPP_SECRET_KEY", "of-no-use-in-memory" * 3)
django.setup()  # what the resource server in memory borrows from the real one needs it

# ruff: noqa: E402
from mcp_adapter import stdio
from mcp_adapter.rest import TokenRejected
from mcp_adapter.server import ServerInfo
from tests.mcp_adapter.fake_rest import FakeRest


class _Talkative(FakeRest):
    def get(self, *args, **options):  # type: ignore[no-untyped-def,override]
        """Print, then respond."""
        print("a handler printed this")  # noqa: T201 - the point of it
        return super().get(*args, **options)


def main() -> None:
    """Serve. With `revoked-after-one`, the second call is rejected."""
    calls = 0

    def authenticate() -> object:
        nonlocal calls
        calls += 1
        if calls > 1 and "revoked-after-one" in sys.argv:
            raise TokenRejected(403, {"type": "permission_error", "code": "grant_revoked",
                                "message": "The grant has been revoked."})  # fmt: skip
        return object()

    fake = _Talkative(records=[("cin_work", "messages", "m1", {"body": "a lease"})])
    stdio.serve(fake, authenticate, server_info=ServerInfo(public_url="https://records.example"))


if __name__ == "__main__":
    main()
