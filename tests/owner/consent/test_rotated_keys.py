"""Keys with successors: what overlaps, what ends, and what is never shown."""

import json
import os
import stat
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.core.management import CommandError, call_command
from django.utils import timezone

from evidence.ledger.checkpoints import sign_entries, verifier_keys
from evidence.ledger.verification import verify
from operations import key_file
from tests.owner.consent.client import Asking
from tests.world import NOW, PERSONAL, World

MAIL = "/v1/streams/messages/records"


@pytest.fixture(autouse=True)
def var(settings: Any, tmp_path: Path) -> Path:
    """An installation whose secret is in its file."""
    (tmp_path / "keys.json").write_text(json.dumps({"secret_key": settings.SECRET_KEY}))
    settings.PDPP_VAR, settings.PDPP_ROTATED_KEYS = tmp_path, {}
    return tmp_path


@pytest.fixture
def keys(settings: Any, var: Path) -> Any:
    """``manage.py keys …``, and the restart that it asks for."""

    def keys(*arguments: str) -> None:
        call_command("keys", *arguments)
        settings.PDPP_ROTATED_KEYS = key_file.rotated_keys(var)

    return keys


def test_tokens_from_before_a_rotation_stay_good_until_they_are_retired(
    world: World, keys: Any
) -> None:
    keys("rotate", "tokens")
    assert world.get(MAIL, "bob").status == 200
    world.tokens["owner"] = _owner_token(world)
    assert world.get(MAIL, "owner", connection_id=PERSONAL).status == 200

    keys("rotate", "tokens")
    assert world.get(MAIL, "bob").status == 200
    assert world.get(MAIL, "owner", connection_id=PERSONAL).status == 200

    keys("retire", "tokens")
    assert world.get(MAIL, "bob").status == 401
    assert world.get(MAIL, "owner", connection_id=PERSONAL).status == 401
    world.tokens["owner"] = _owner_token(world)
    assert world.get(MAIL, "owner", connection_id=PERSONAL).status == 200


def _owner_token(world: World) -> str:
    from evidence.access.tokens import create_owner_token

    return create_owner_token(owner_id=world.owner_id, now=NOW)


def test_a_sign_in_outlives_a_rotation_and_ends_with_its_key(asking: Asking, keys: Any) -> None:
    first = asking.tokens()
    keys("rotate", "tokens")

    second = asking.refresh(first["refresh_token"]).json()
    assert second["access_token"]
    with time_machine.travel(timezone.now() + timedelta(seconds=11)):
        assert asking.refresh(first["refresh_token"]).json()["error"] == "invalid_grant"

    third = asking.tokens()
    keys("rotate", "tokens")
    keys("retire", "tokens")
    assert asking.refresh(third["refresh_token"]).json()["error"] == "invalid_grant"


def test_pages_go_on_over_a_rotation_of_cursors(world: World, keys: Any) -> None:
    first = world.get(MAIL, "bob", limit=1)
    cursor = first.body["next_cursor"]
    keys("rotate", "cursors")

    assert world.get(MAIL, "bob", limit=1, cursor=cursor).status == 200

    keys("retire", "cursors")
    assert world.get(MAIL, "bob", limit=1, cursor=cursor).error["code"] == "invalid_cursor"


def test_what_was_signed_before_is_still_proven(world: World, keys: Any, settings: Any) -> None:
    world.get(MAIL, "bob")
    assert sign_entries(world.owner_id, now=timezone.now())
    [before] = verifier_keys(world.owner_id)
    keys("rotate", "signing")
    world.get(MAIL, "bob")
    assert sign_entries(world.owner_id, now=timezone.now())

    today, earlier = verifier_keys(world.owner_id)
    assert (earlier, today != before) == (before, True)
    assert verify(world.owner_id).problems == []

    settings.PDPP_ROTATED_KEYS = {**settings.PDPP_ROTATED_KEYS, "verifying": []}
    [fault] = verify(world.owner_id).problems
    assert "not signed by this installation" in fault.message


def test_the_file_stays_private_and_keeps_the_secret(keys: Any, var: Path, settings: Any) -> None:
    before = os.umask(0)  # which would hide what mode was asked for
    try:
        for name in ("tokens", "cursors", "signing", "tokens"):
            keys("rotate", name)
    finally:
        os.umask(before)

    file = var / "keys.json"
    kept = json.loads(file.read_text())
    assert kept["secret_key"] == settings.SECRET_KEY
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in var.iterdir()] == ["keys.json"]
    assert len(set(kept["rotated"]["tokens"])) == 3


def test_no_key_is_ever_printed(
    keys: Any, var: Path, settings: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in key_file.KEY_PURPOSES:
        keys("rotate", name)
    keys("list")
    keys("retire", "tokens")

    told = capsys.readouterr().out
    assert settings.SECRET_KEY not in told
    for secrets in key_file.rotated_keys(var).values():
        assert not any(secret in told for secret in secrets if secret)
    for name in ("secret", *key_file.KEY_PURPOSES):
        assert f"\n{name}" in f"\n{told}"


def test_there_may_be_nothing_to_retire(keys: Any) -> None:
    with pytest.raises(CommandError, match="no previous key"):
        keys("retire", "tokens")
