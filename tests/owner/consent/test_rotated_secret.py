"""The installation's secret with a successor: what outlives it, what ends with it, what never may."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from evidence.erasure import erase_record
from evidence.events.messages import decrypt_secret, encrypt_secret
from evidence.ledger.checkpoints import sign_entries
from evidence.ledger.verification import verify
from evidence.models.events import Subscription
from operations import key_file
from owner import second_factor
from owner.accounts import setup
from tests.ledger.test_whole_or_not import tamper
from tests.owners import set_up_link, sign_up
from tests.world import NOW, PERSONAL, RECORDS, World

MAIL = "/v1/streams/messages/records"


@pytest.fixture
def var(settings: Any, tmp_path: Path) -> Path:
    """An installation whose secret is in its file."""
    (tmp_path / "keys.json").write_text(json.dumps({"secret_key": settings.SECRET_KEY}))
    settings.PDPP_VAR, settings.PDPP_SECRET_KEY = tmp_path, ""
    return tmp_path


@pytest.fixture
def keys(settings: Any, var: Path) -> Any:
    """``manage.py keys …``, and the restart that it asks for."""

    def keys(*arguments: str) -> None:
        call_command("keys", *arguments)
        settings.SECRET_KEY = json.loads((var / "keys.json").read_text())["secret_key"]
        settings.SECRET_KEY_FALLBACKS = key_file.previous_secrets(var, given=[])
        settings.PDPP_ROTATED_KEYS = key_file.rotated_keys(var)

    return keys


@pytest.fixture
def used(world: World) -> World:
    """A ledger with a signature, and a record that was erased."""
    world.get(MAIL, "bob")
    world.get(MAIL, "charlie")
    assert sign_entries(world.owner_id, now=timezone.now())
    erase_record(PERSONAL, stream="messages", record_key="m1", owner_id=world.owner_id, by="a test",
                 now=NOW)  # fmt: skip
    return world


def test_what_was_made_before_stays_good_until_the_secret_is_retired(
    used: World, keys: Any, settings: Any
) -> None:
    before = settings.SECRET_KEY
    cursor = used.get(MAIL, "bob", limit=1).body["next_cursor"]
    keys("rotate", "secret")

    assert before != settings.SECRET_KEY
    assert used.get(MAIL, "bob", limit=1, cursor=cursor).status == 200
    assert used.get(MAIL, "alice", connection_id=PERSONAL).status == 200

    keys("retire", "secret")
    assert before not in settings.SECRET_KEY_FALLBACKS
    assert used.get(MAIL, "bob", limit=1, cursor=cursor).status == 401
    assert used.get(MAIL, "alice", connection_id=PERSONAL).status == 401
    with pytest.raises(CommandError, match="no previous key"):
        keys("retire", "secret")


def test_a_browser_stays_signed_in_and_recovery_codes_and_links_go_on_meanwhile(
    world: World, keys: Any
) -> None:
    owner, browser = sign_up("alice"), Client()
    browser.force_login(owner)
    first, second, *_ = second_factor.renew_recovery_codes(owner)
    link = set_up_link()
    keys("rotate", "secret")

    assert browser.get("/admin/", follow=True).status_code == 200
    assert browser.session.get("_auth_user_id") == str(owner.pk)
    assert second_factor.verify_code(owner, first)
    assert not second_factor.verify_code(owner, first)
    assert setup.find_link(link, now=timezone.now()) is not None

    keys("retire", "secret")
    assert not second_factor.verify_code(owner, second)
    assert setup.find_link(link, now=timezone.now()) is None


def test_the_ledger_is_whole_over_the_end_of_the_secret(used: World, keys: Any) -> None:
    keys("rotate", "secret")
    assert verify(used.owner_id).problems == []
    used.get(MAIL, "bob")
    assert sign_entries(used.owner_id, now=timezone.now())

    keys("retire", "secret")
    assert verify(used.owner_id).problems == []


def test_a_forged_entry_is_not_signed_when_the_secret_ends(used: World, keys: Any) -> None:
    used.get(MAIL, "bob")
    tamper("UPDATE evidence_disclosure SET seal = 'forged' WHERE seq IS NULL")
    keys("rotate", "secret")
    keys("retire", "secret")
    problems = [each.message for each in verify(used.owner_id).problems]
    assert problems
    assert all(each.endswith("was changed, or added by somebody else.") for each in problems)


def test_what_was_erased_stays_away_and_what_did_not_change_is_not_new(
    used: World, keys: Any
) -> None:
    keys("rotate", "secret")
    keys("retire", "secret")
    keys("rotate", "secret")
    keys("retire", "secret")

    outcome = used.put(*RECORDS)
    assert (outcome.created, outcome.updated) == (0, 0)
    assert used.get(f"{MAIL}/m1", "dora", connection_id=PERSONAL).status in (401, 404)


def test_secrets_of_events_are_carried_over(world: World, keys: Any) -> None:
    kept = encrypt_secret("whsec_x", subscription_id="sub_1")
    Subscription.unscoped.create(subscription_id="sub_1", package=world.packages["dora"],
        callback_url="https://example.org/", secret=kept, old_secret=kept, created_at=NOW,
        old_secret_until=NOW + timedelta(days=1), updated_at=NOW)  # fmt: skip
    Subscription.unscoped.create(subscription_id="sub_2", package=world.packages["dora"],
        callback_url="https://example.org/", secret=kept, created_at=NOW, updated_at=NOW)  # fmt: skip
    keys("rotate", "secret")
    assert decrypt_secret(kept, subscription_id="sub_1") == "whsec_x"

    keys("retire", "secret")
    row, unreadable = Subscription.unscoped.order_by("pk")
    assert decrypt_secret(bytes(row.secret), subscription_id="sub_1") == "whsec_x"
    assert decrypt_secret(bytes(row.old_secret or b""), subscription_id="sub_1") == "whsec_x"
    assert bytes(unreadable.secret) == kept


def test_a_secret_of_the_environment_is_not_followed_by_another_unprepared(
    used: World, var: Path, settings: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = settings.SECRET_KEY, "another-secret-that-the-operator-has-made"
    (var / "keys.json").unlink()
    settings.PDPP_SECRET_KEY = first
    with pytest.raises(ImproperlyConfigured, match=r"keys rotate secret"):
        key_file.previous_secrets(var, given=[first])

    call_command("keys", "rotate", "secret")
    told = capsys.readouterr().out
    assert "PDPP_SECRET_KEY_FALLBACKS" in told
    assert first not in told
    settings.PDPP_SECRET_KEY = settings.SECRET_KEY = second
    settings.PDPP_SECRET_KEY_FALLBACKS = [first]
    settings.SECRET_KEY_FALLBACKS = key_file.previous_secrets(var, given=[first])
    settings.PDPP_ROTATED_KEYS = key_file.rotated_keys(var)
    assert used.get(MAIL, "bob").status == 200

    call_command("keys", "retire", "secret")
    assert "remove PDPP_SECRET_KEY_FALLBACKS" in capsys.readouterr().out
    settings.SECRET_KEY_FALLBACKS = []
    assert used.get(MAIL, "bob").status == 401
    assert verify(used.owner_id).problems == []
    assert used.put(*RECORDS).created == 0
    assert "secret_key" not in json.loads((var / "keys.json").read_text())
