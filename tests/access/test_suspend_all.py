"""After a restore, no app reads anything until the owner resumes it."""

import pytest
from django.utils import timezone

from evidence.access import grant_lifecycle
from evidence.access.grants import revoke_grant
from evidence.models.grants import Grant
from tests.world import World

MESSAGES = "/v1/streams/messages/records"


def test_suspend_all_pauses_grants_and_revokes_owner_tokens(world: World) -> None:
    revoke_grant(world.grants["charlie"][0].pk, now=timezone.now())

    assert grant_lifecycle.suspend_all(now=timezone.now()) == (4, 1)

    for who in ("bob", "dora"):
        assert world.get(MESSAGES, who).error["code"] == "grant_paused"
    assert world.get(MESSAGES, "charlie").error["code"] == "grant_revoked"
    assert world.get(MESSAGES, "alice").status == 401
    assert grant_lifecycle.suspend_all(now=timezone.now()) == (0, 0)


def test_suspend_all_is_atomic(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grant_lifecycle, "AccessToken", None)
    with pytest.raises(AttributeError):
        grant_lifecycle.suspend_all(now=timezone.now())
    assert not Grant.unscoped.exclude(paused_at=None).exists()
