"""The page Backups: the key is shown once, the schedule is checked, and a drill takes the words."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from time_machine import Traveller

from evidence.models.connections import Connection
from evidence.models.owners import acting_for
from evidence.write.sealed_values import unseal
from operations.backup import schedule
from operations.backup.keys import FileKey, RecoveryKey, open_file_key
from operations.backup.models import BackupCopy, BackupPlan
from tests.owner.consent.test_second_factor import enrol
from tests.owner.pages.browser import Browser, Form, Page
from tests.owners import sign_up
from tests.world import World

pytestmark = pytest.mark.slow

KEY = RecoveryKey(b"0123456789abcdef")
PASSWORD = "correct horse battery"
CONFIRM = "/login/confirm?next=%2Fbackups%2Fkey"
MADE = datetime(2026, 11, 1, 3, tzinfo=UTC)


@pytest.fixture
def alice(world: World) -> Browser:
    user = sign_up("alice", password=PASSWORD)
    browser = Browser().sign_in(user)
    browser.http.defaults["HTTP_ACCEPT"] = "text/html"
    return browser


def form(page: Page) -> Form:
    """Return the last form of a page that has some."""
    return [each for each in page.forms if each.method == "POST"][-1]


def answer(alice: Browser, address: str, **values: str) -> Page:
    filled = form(alice.open(address))
    for name, value in values.items():
        filled.fill(name, value)
    return alice.press(filled)


def confirm(alice: Browser, code: str = PASSWORD) -> Page:
    return answer(alice, CONFIRM, code=code)


def plan(world: World) -> BackupPlan:
    return schedule.get_plan(world.owner_id)


def add_copy(world: World, **values: Any) -> BackupCopy:
    defaults = {
        "name": "pdpp-2026-11-01T030000Z.age", "folder": "/mnt/none", "made_at": MADE,
        "size_bytes": 5_000_000, "rows": 1234, "fingerprint": KEY.fingerprint,
        "sealed": FileKey.generate(KEY.recipient).sealed,
    }  # fmt: skip
    return BackupCopy.unscoped.create(owner_id=world.owner_id, **{**defaults, **values})


def finish_drill(copy: BackupCopy, problem: str, at: datetime) -> None:
    copy.drill_problem, copy.drilled_at = problem, at
    copy.save()


def shown_words(page: Page) -> list[str]:
    [block] = re.findall(r'<ol class="words">(.*?)</ol>', page.html, re.DOTALL)
    return re.findall(r"<li>(\w+)</li>", block)


@pytest.mark.parametrize("address", ["/backups", "/backups/key", "/backups/schedule", "/storage"])
def test_only_the_owner_opens_the_pages(world: World, address: str) -> None:
    assert Browser().http.get(address).status_code == 302


def test_words_are_shown_once_and_only_their_public_half_is_stored(
    world: World, alice: Browser
) -> None:
    assert "Create a recovery key" in alice.open("/backups").text

    assert "Have paper ready" in confirm(alice).text
    page = answer(alice, "/backups/key")

    words = shown_words(page)
    key = RecoveryKey.parse(" ".join(words))
    assert page.headers["Cache-Control"] == "private, no-store"
    assert plan(world).recipient == key.recipient
    assert key.fingerprint in page.text
    assert key.secret_line in page.text
    stored = repr(BackupPlan.unscoped.values_list())  # names of columns are words, too
    assert key.entropy.hex() not in stored
    assert key.secret_line not in stored
    assert " ".join(words[:2]) not in stored
    again = alice.open("/backups").html + alice.open("/backups/key").html
    assert " ".join(words) not in again
    assert "AGE-SECRET-KEY" not in again
    assert key.fingerprint in again


def test_key_needs_the_password_and_guesses_are_throttled(world: World, alice: Browser) -> None:
    assert "Confirm that it is you" in alice.open("/backups/key").text
    assert "Wrong password." in confirm(alice, "wrong").text
    for _ in range(20):
        refused = confirm(alice, "wrong")
    assert refused.status == 429
    assert "Confirm that it is you" in alice.open("/backups/key").text
    assert plan(world).recipient == ""


def test_key_needs_a_code_if_there_is_a_second_factor(
    world: World, time_machine: Traveller
) -> None:
    time_machine.move_to(MADE, tick=False)
    user = sign_up("alice", password=PASSWORD)
    browser, [code, *_] = enrol(user, time_machine)

    time_machine.move_to(MADE + timedelta(hours=1), tick=False)
    browser.post(CONFIRM, {"code": PASSWORD})
    refused = browser.post("/backups/key")
    browser.post(CONFIRM, {"code": code})
    shown = browser.post("/backups/key")

    assert refused["Location"] == CONFIRM
    assert shown.status_code == 200
    assert shown.content.decode().count("<li>") >= 12
    assert plan(world).recipient != ""


def test_another_key_replaces_the_first_for_later_backups(world: World, alice: Browser) -> None:
    schedule.save_key(world.owner_id, KEY.recipient, now=MADE)
    add_copy(world)

    confirm(alice)
    page = alice.open("/backups/key")
    assert "Earlier backups still need the earlier words" in page.text
    answer(alice, "/backups/key")

    assert plan(world).recipient not in {"", KEY.recipient}
    listed = alice.open("/backups").text
    assert f"Opens with recovery key {KEY.fingerprint}" in listed


def test_schedule_is_saved_and_shown(world: World, alice: Browser, tmp_path: Path) -> None:
    schedule.save_key(world.owner_id, KEY.recipient, now=MADE)

    page = answer(alice, "/backups/schedule", folder=f"{tmp_path}/", hour="3", daily="5")

    assert page.address == "/backups"
    assert "5 daily, 4 weekly, 12 monthly" in page.text
    assert str(tmp_path) in page.text
    saved = plan(world)
    assert saved.hour == 3
    assert saved.due_at is not None
    assert saved.due_at > timezone.now()
    page = alice.press(form(page))
    assert "Backup requested. This page shows when it is done." in page.text
    assert "starts in a moment" in page.text
    assert "The schedule makes the first one." not in page.text, "it is being made"
    assert any("data-follow" in given for _, given in page.elements)


@pytest.mark.parametrize(
    ("folder", "message"),
    [
        ("backups", "Enter the full path, beginning with /."),
        ("/mnt/none", "does not exist, or its disk is not mounted: /mnt/none. Connect the disk"),
        ("/etc/passwd", "does not exist, or its disk is not mounted: /etc/passwd"),
        ("/sys", "The server may not write into the folder for backups: /sys. Give its account"),
    ],
)
def test_unusable_folder_is_refused(
    world: World, alice: Browser, folder: str, message: str
) -> None:
    page = answer(alice, "/backups/schedule", folder=folder, hour="3")

    assert message in " ".join(page.errors)
    assert plan(world).folder == ""


def test_backup_needs_a_key_and_a_place(world: World, alice: Browser) -> None:
    schedule.save_key(world.owner_id, KEY.recipient, now=MADE)

    page = alice.press(form(alice.open("/backups")))

    assert "choose a folder first" in page.text
    assert plan(world).due_at is None


def test_folder_is_the_administrators_and_its_path_is_shown_to_nobody_else(
    world: World, alice: Browser, tmp_path: Path
) -> None:
    bruno = Browser().sign_in(sign_up("bruno", owner_id="bruno"))
    bruno.http.defaults["HTTP_ACCEPT"] = "text/html"
    with acting_for("bruno"):
        schedule.save_key("bruno", KEY.recipient, now=MADE)
    assert "Folder none" in bruno.open("/backups").text
    answer(alice, "/backups/schedule", folder=str(tmp_path), hour="3")

    page = bruno.open("/backups")

    assert "Folder the administrator's" in page.text
    assert str(tmp_path) not in page.html
    assert "Backup requested." in bruno.press(form(page)).text


def test_drill_takes_the_words_and_stores_none(world: World, alice: Browser) -> None:
    schedule.save_key(world.owner_id, KEY.recipient, now=MADE)
    copy = add_copy(world)
    words = KEY.words
    wrong = " ".join([*words[:3], "zoo", *words[4:]])
    other = " ".join(RecoveryKey(bytes(16)).words)

    first, second = (
        answer(alice, f"/backups/{copy.pk}/drill", words=said) for said in (wrong, other)
    )
    page = answer(alice, f"/backups/{copy.pk}/drill", words=" ".join(words))

    assert "Word 4, “zoo”, is wrong." in first.errors[0]
    assert "The backup needs another recovery key; these words are" in second.errors[0]
    assert "Drill requested. This page shows its result." in page.text
    assert "A drill is running." in page.text
    copy.refresh_from_db()
    key = unseal(copy.drill_key, purpose=schedule.DRILL_KEY, row_id=str(copy.pk)).decode()
    assert key == open_file_key(bytes(copy.sealed), KEY)
    assert alice.open("/backups/999999/drill").status == 404


def test_the_page_says_whose_records_a_backup_contains(world: World, alice: Browser) -> None:
    schedule.save_key(world.owner_id, KEY.recipient, now=MADE)
    alone = alice.open("/backups").text
    sign_up("bruno", owner_id="bruno")
    beside_another = alice.open("/backups").text

    assert "A backup holds everything: records, grants, activity and keys." in alone
    assert "On a new machine" in alone
    assert "A backup holds your records, grants and activity" in beside_another
    assert "On a new machine" not in beside_another


def test_copies_say_what_is_missing_and_what_a_drill_found(world: World, alice: Browser) -> None:
    schedule.save_key(world.owner_id, KEY.recipient, now=MADE)
    copy = add_copy(world)
    finish_drill(copy, "The file is damaged.", MADE)

    page = alice.open("/backups")

    assert "The last drill failed. The file is damaged." in page.text
    assert "This file is no longer in the folder" in page.text
    assert "Run a drill" not in page.text, "it would fail"
    assert "There is no backup yet" not in page.text + alice.open("/").text
    assert "Last successful drill never" in page.text
    finish_drill(copy, "", MADE + timedelta(hours=1))
    assert "Last successful drill 1 November 2026, 04:00 " in alice.open("/backups").text


def test_home_says_the_last_backup_and_drill_and_what_failed(world: World, alice: Browser) -> None:
    page = alice.open("/")
    assert "Last backup: never · Last successful drill: never" in page.text
    assert "There is no backup yet." in page.text

    Connection.unscoped.update(demo=True)
    assert "There is no backup yet." not in alice.open("/").text
    copy = add_copy(world)
    finish_drill(copy, "", MADE)
    schedule.save_key(world.owner_id, KEY.recipient, now=MADE)
    problem = {"code": "DiskFullError", "text": "The disk is full.", "at": MADE.isoformat()}
    BackupPlan.unscoped.update(problem=problem)

    page = alice.open("/")
    assert "1 November 2026, 03:00 · Last successful drill: 1 November 2026, 03:00" in page.text
    assert "The last backup failed. The disk is full. Backups" in page.text
