"""Calendars and contacts are kept up to date over CalDAV and CardDAV, from a real server."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from evidence.models.connections import Connection
from importers.core.source import ProblemCode
from importers.models import SyncedItem
from importers.sources.accounts import list_containers
from tests.importers.cutting_proxy import CuttingProxy, cutting_proxy
from tests.importers.imports import one, records, run
from tests.importers.radicale_server import PASSWORD, Radicale, run_radicale
from tests.importers.syncing import account_of, connect_details, details_of, run_sync
from tests.importers.test_calendar_feed import calendar, event

pytestmark = pytest.mark.django_db

USERS = count()
WEEKLY = "RRULE:FREQ=WEEKLY;COUNT=3"


@pytest.fixture(scope="module")
def server() -> Iterator[Radicale]:
    with run_radicale(users=60) as radicale:
        yield radicale


@pytest.fixture
def proxy(server: Radicale) -> Iterator[CuttingProxy]:
    with cutting_proxy(server.port) as proxy:
        yield proxy


@pytest.fixture(autouse=True)
def _trusted(server: Radicale, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(server.authority))


@pytest.fixture
def user(server: Radicale) -> str:
    """An account for each test, with a calendar, a list of tasks and an address book."""
    name = f"ida{next(USERS)}@mail.example"
    server.add_calendar(name, "home", "At home")
    server.add_calendar(name, "tasks", "Tasks", component="VTODO")
    server.add_address_book(name, "people", "People")
    return name


def details(server: Radicale, user: str, source: str = "caldav", **values: str) -> Any:
    entered = {"user": user, "password": PASSWORD, "url": server.url()}
    return details_of(source, **entered | values)


def connect(server: Radicale, user: str, source: str = "caldav", **options: Any) -> str:
    values = {name: options.pop(name) for name in ("url", "password") if name in options}
    return connect_details(details(server, user, source, **values), **options)


def put(server: Radicale, user: str, *events: str, folder: str = "home") -> None:
    """Store events as another program does; ``UID`` is the name of the file."""
    for each in events:
        uid = each.partition("UID:")[2].partition("\r")[0]
        server.put(user, f"{folder}/{uid}.ics", calendar(each).decode())


def card(uid: str, name: str, *lines: str) -> str:
    more = "".join(f"{line}\r\n" for line in lines)
    return f"BEGIN:VCARD\r\nVERSION:3.0\r\nUID:{uid}\r\nFN:{name}\r\n{more}END:VCARD\r\n"


def titles() -> list[str]:
    return sorted(each["title"] for each in records("events"))


def test_calendars_are_found_and_read_with_their_recurring_events(
    server: Radicale, user: str
) -> None:
    server.add_calendar(user, "work", "At work")
    put(server, user, event("a", "Dinner"), event("b", "Course", WEEKLY))
    put(server, user, event("c", "Meeting"), folder="work")

    found = list_containers(details(server, user), now=timezone.now())
    report = run_sync(connect(server, user))

    assert sorted(each.title for each in found) == ["At home", "At work"]
    assert {(each["title"], each["calendar"]) for each in records("events")} == {
        ("Dinner", "At home"),
        ("Course", "At home"),
        ("Meeting", "At work"),
    }
    assert (report.created, report.is_complete) == (5, True)


@pytest.mark.slow
def test_contacts_are_found_and_follow_changes(server: Radicale, user: str) -> None:
    server.put(user, "people/a.vcf", card("a", "Bea", "EMAIL:bea@mail.example"))
    server.put(user, "people/b.vcf", card("b", "Carl"))
    pk = connect(server, user, "carddav")
    first = run_sync(pk)
    server.put(user, "people/a.vcf", card("a", "Bea Ray", "EMAIL:bea@mail.example"))
    server.put(user, "people/c.vcf", card("c", "Dora"))

    second, third = run_sync(pk), run_sync(pk)

    assert (first.created, second.created, second.updated) == (2, 1, 1)
    assert (third.created, third.updated, third.unchanged) == (0, 0, 0)
    assert sorted(each["name"] for each in records("contacts")) == ["Bea Ray", "Carl", "Dora"]


def test_changes_of_another_program_come_once(server: Radicale, user: str) -> None:
    put(server, user, event("a", "Dinner"), event("b", "Course", WEEKLY), event("c", "Talk"))
    pk = connect(server, user)
    run_sync(pk)
    put(server, user, event("b", "Course", "RRULE:FREQ=WEEKLY;COUNT=2"), event("d", "New"))
    put(server, user, event("a", "Supper"))

    second, third = run_sync(pk), run_sync(pk)

    assert (second.created, second.updated, second.deleted) == (1, 3, 1)
    assert (third.created, third.updated, third.unchanged) == (0, 0, 0)
    assert titles() == ["Course", "Course", "New", "Supper", "Talk"]


@pytest.mark.slow
@pytest.mark.parametrize("is_mirror", [False, True])
def test_deleted_entries_stay_unless_the_owner_chose_mirroring(
    server: Radicale, user: str, tmp_path: Path, is_mirror: bool
) -> None:
    imported = event("c", "Concert", "RRULE:FREQ=WEEKLY;COUNT=2")
    (tmp_path / "old.ics").write_bytes(calendar(imported))
    run(tmp_path / "old.ics")
    pk = Connection.unscoped.get().connection_id
    put(server, user, event("a", "Dinner"), event("b", "Course", WEEKLY), imported)
    connect(server, user, connection_id=pk, is_mirror=is_mirror)
    run_sync(pk)
    server.delete(user, "home/b.ics")
    server.delete(user, "home/c.ics")

    reports = [run_sync(pk) for _ in range(3)]

    kept = ["Concert"] * 2 + ["Dinner"]
    assert titles() == (kept if is_mirror else sorted([*kept, *["Course"] * 3]))
    assert [each.deleted for each in reports] == ([0, 3, 0] if is_mirror else [0, 0, 0])


@pytest.mark.slow
def test_entry_that_moves_to_another_calendar_follows(server: Radicale, user: str) -> None:
    server.add_calendar(user, "work", "At work")
    put(server, user, event("a", "Dinner", WEEKLY))
    pk = connect(server, user, is_mirror=True)
    run_sync(pk)
    server.delete(user, "home/a.ics")
    put(server, user, event("a", "Dinner", WEEKLY), folder="work")

    reports = [run_sync(pk) for _ in range(3)]

    assert [each.deleted for each in reports] == [0, 0, 0]
    assert [each["calendar"] for each in records("events")] == ["At work"] * 3


@pytest.mark.slow
@pytest.mark.parametrize("is_mirror", [False, True])
def test_forgotten_sync_token_loses_and_doubles_nothing(
    server: Radicale, user: str, is_mirror: bool
) -> None:
    put(server, user, event("a", "Dinner"), event("b", "Course", WEEKLY), event("c", "Talk"))
    pk = connect(server, user, is_mirror=is_mirror)
    run_sync(pk)
    put(server, user, event("a", "Supper"), event("d", "New"))
    server.delete(user, "home/c.ics")
    account = account_of(pk)
    for state in account.state["collections"].values():
        state["token"] = state["token"][:-8] + "0" * 8
    account.save(update_fields=["state"])

    reports = [run_sync(pk) for _ in range(2)]

    assert [(each.created, each.updated) for each in reports] == [(1, 1), (0, 0)]
    kept = ["Course"] * 3 + ["New", "Supper"]
    assert titles() == (kept if is_mirror else sorted([*kept, "Talk"]))
    assert account_of(pk).problem is None


@pytest.mark.slow
def test_imported_and_synced_calendar_has_no_duplicates(
    server: Radicale, user: str, tmp_path: Path
) -> None:
    events = (event("a", "Dinner"), event("b", "Course", WEEKLY, start="20260105"))
    (tmp_path / "At home.ics").write_bytes(calendar(*events).replace(b"X-WR-CALNAME:Team\r\n", b""))
    run(tmp_path / "At home.ics")
    imported = records("events")
    put(server, user, *events)
    pk = connect(server, user, connection_id=Connection.unscoped.get().connection_id)

    report = run_sync(pk)
    run(tmp_path / "At home.ics", connection=pk)

    assert (report.created, report.updated, report.deleted) == (0, 0, 0)
    assert records("events") == imported


@pytest.mark.slow
def test_imported_and_synced_contacts_have_no_duplicates(
    server: Radicale, user: str, tmp_path: Path
) -> None:
    cards = [card("a", "Bea"), card("b", "Carl")]
    (tmp_path / "all.vcf").write_text("".join(cards))
    run(tmp_path / "all.vcf")
    for uid, each in zip("ab", cards, strict=True):
        server.put(user, f"people/{uid}.vcf", each)
    pk = Connection.unscoped.get().connection_id

    report = run_sync(connect(server, user, "carddav", connection_id=pk))

    assert (report.created, report.updated) == (0, 0)
    assert len(records("contacts")) == 2


@pytest.mark.slow
def test_connection_cut_anywhere_loses_and_doubles_nothing(
    server: Radicale, user: str, proxy: CuttingProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cut comes later at each attempt, so that it falls into every step."""
    expected = [f"Event {number:03}" for number in range(120)]
    for number, title in enumerate(expected):
        put(server, user, event(f"e{number}", title))
    pk = connect(server, user, url=server.url(f"/{user}/home/", proxy.port))
    codes, stored = set(), 0
    for cut_after in range(1_000, 200_000, 9_000):
        proxy.cut_after = cut_after
        run_sync(pk)
        problem = account_of(pk).problem
        assert titles() == sorted(titles())
        assert len(titles()) >= stored
        stored = len(titles())
        assert SyncedItem.unscoped.filter(connection_id=pk).count() == stored
        if problem is None:
            break
        codes.add(problem["code"])

    assert codes == {ProblemCode.CONNECTION_LOST}
    assert titles() == expected
    assert run_sync(pk).created == 0


@pytest.mark.slow
def test_wrong_password_names_the_side(server: Radicale, user: str) -> None:
    pk = connect(server, user, password="wrong", folders=[f"/{user}/home/"])

    run_sync(pk)

    problem = account_of(pk).problem
    assert problem is not None
    assert problem["code"] == ProblemCode.PASSWORD_REFUSED
    assert (account_of(pk).due_at - timezone.now()).total_seconds() > 4 * 3600


@pytest.mark.slow
def test_removed_calendar_is_named_and_the_others_are_read(server: Radicale, user: str) -> None:
    server.add_calendar(user, "work", "At work")
    put(server, user, event("a", "Dinner"))
    put(server, user, event("b", "Meeting"), folder="work")
    pk = connect(server, user, is_mirror=True)
    run_sync(pk)
    server.delete(user, "home/")
    put(server, user, event("c", "Talk"), folder="work")

    for _ in range(3):
        run_sync(pk)

    problem = account_of(pk).problem
    assert problem is not None
    assert (problem["code"], problem["detail"]) == (ProblemCode.CONTAINER_MISSING, f"/{user}/home/")
    assert titles() == ["Dinner", "Meeting", "Talk"]


@pytest.mark.slow
def test_renamed_calendar_renames_its_events(server: Radicale, user: str) -> None:
    put(server, user, event("a", "Dinner"))
    pk = connect(server, user)
    run_sync(pk)
    rename = (
        '<propertyupdate xmlns="DAV:"><set><prop><displayname>Family</displayname></prop></set>'
        "</propertyupdate>"
    )
    server.request(user, "PROPPATCH", "home/", rename)

    report = run_sync(pk)

    assert report.updated == 1
    assert one("events")["calendar"] == "Family"
