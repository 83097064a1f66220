"""``manage.py owner-token``: create an owner token."""

import datetime as dt
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone

from evidence.models.grants import AccessToken
from tests.world import World


def test_token_reads_everything_over_rest(world: World) -> None:
    printed, said = StringIO(), StringIO()
    call_command("owner_token", "--days", "7", stdout=printed, stderr=said)

    token = printed.getvalue().strip()

    assert token.startswith("pdpp_own_")
    assert len(printed.getvalue().splitlines()) == 1
    assert token not in said.getvalue()
    assert world.get("/v1/streams/transactions/records", token).status == 200
    ends = AccessToken.unscoped.latest("created_at").expires_at
    assert ends is not None
    assert dt.timedelta(days=6) < ends - timezone.now() <= dt.timedelta(days=7)


def test_token_always_expires(world: World) -> None:
    for days in ("0", "-1", "x", "99999"):
        with pytest.raises(CommandError, match="--days"):
            call_command("owner_token", "--days", days)
