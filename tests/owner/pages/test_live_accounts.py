"""Live accounts on the owner's pages: connect, look, sync now, pause, and remove the password."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client as HttpClient
from django.utils import timezone

from evidence.models.connections import Connection
from evidence.models.owners import Owner
from importers.authoring.https_server import HttpsServer, https_server
from importers.models import SourceAccount
from tests.importers.cutting_proxy import cutting_proxy
from tests.importers.dav_answers import DavAnswers
from tests.importers.dovecot import PASSWORD, Dovecot, message, messages, run_dovecot
from tests.importers.imports import records
from tests.importers.radicale_server import run_radicale
from tests.importers.syncing import connect_details, details_of, run_sync
from tests.operations.notification_receivers import add_channel, announce
from tests.owner.pages.browser import Browser
from tests.world import World

pytestmark = pytest.mark.slow

USER = "ida@mail.example"
CONNECT = "/accounts/connect/imap"


@pytest.fixture(scope="module")
def server() -> Iterator[Dovecot]:
    with run_dovecot() as dovecot:
        dovecot.append(USER, message(1), message(2))
        dovecot.append(USER, message(3), folder="Archive")
        yield dovecot


@pytest.fixture
def http(
    world: World, alice: Browser, server: Dovecot, monkeypatch: pytest.MonkeyPatch
) -> HttpClient:
    monkeypatch.setenv("SSL_CERT_FILE", str(server.authority))
    alice.http.defaults["HTTP_ACCEPT"] = "text/html"
    alice.http.handler.enforce_csrf_checks = False
    return alice.http


def entered(server: Dovecot, **values: str) -> dict[str, str]:
    return {
        "user": USER,
        "password": PASSWORD,
        "host": "localhost",
        "port": str(server.port),
        "allows_private": "on",
        **values,
    }


def draft(page: str) -> str:
    return page.split('name="draft" value="')[1].partition('"')[0]


def letters() -> list[str]:
    """The subjects of what the mailboxes brought."""
    subjects = [str(each.get("subject")) for each in records("messages")]
    return sorted(each for each in subjects if each.startswith("Letter"))


def connect(http: HttpClient, server: Dovecot, **chosen: object) -> SourceAccount:
    """Enter an account, choose the inbox, and return it."""
    user = str(chosen.pop("user", USER))
    page = http.post(CONNECT, entered(server, user=user)).content.decode()
    answers = {"draft": draft(page), "containers": ["INBOX"], "connection": "", **chosen}
    response = http.post(CONNECT, answers)
    account = SourceAccount.unscoped.get()
    assert response.headers["Location"] == f"/accounts/{account.pk}"
    return account


def test_owner_connects_a_mailbox_and_sees_what_came(http: HttpClient, server: Dovecot) -> None:
    page = http.post(CONNECT, entered(server)).content.decode()
    account = connect(http, server)
    run_sync(account.pk)

    shown = http.get(f"/accounts/{account.pk}").content.decode()

    assert "Inbox (2)" in page
    assert "Archive (1)" in page
    assert "2 new, 0 changed, 0 deleted" in shown
    assert "<bdi>Inbox</bdi>" in shown
    assert "Sync now" in shown
    assert PASSWORD not in page + shown
    assert USER in http.get("/accounts").content.decode()


def test_times_of_an_account_are_in_the_zone_of_the_owner(
    http: HttpClient, server: Dovecot
) -> None:
    account = connect(http, server)
    Owner.unscoped.update(time_zone="Asia/Tokyo")
    night = datetime(2030, 1, 1, 20, 0, tzinfo=UTC)
    problem = {"code": "unreachable", "detail": "", "since": night.isoformat()}
    SourceAccount.unscoped.update(due_at=night, problem=problem)

    page = http.get(f"/accounts/{account.pk}").content.decode()

    assert "<dt>Next</dt><dd>2 January 2030, 05:00</dd>" in page
    assert "Since 2 January 2030, 05:00." in page


def test_owner_is_asked_for_their_addresses(http: HttpClient, server: Dovecot) -> None:
    page = http.post(CONNECT, entered(server)).content.decode()
    account = connect(http, server, own_addresses=f"{USER}\nIda@Work.example")

    assert f"{USER}</textarea>" in page
    assert Connection.unscoped.get(pk=account.pk).identities == [USER, "ida@work.example"]


def test_wrong_password_is_said_at_once_and_nothing_is_created(
    http: HttpClient, server: Dovecot
) -> None:
    page = http.post(CONNECT, entered(server, password="wrong")).content.decode()

    assert "The password was refused. Create an app password" in page
    assert not SourceAccount.unscoped.exists()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"allows_private": ""}, "The server has a private address"),
        ({"host": ""}, "Enter the server."),
        ({"host": "", "user": "ida@hotmail.com"}, "Microsoft has no app passwords"),
        ({"port": "x"}, "port takes a number"),
    ],
)
def test_wrong_input_names_the_next_step(
    http: HttpClient, server: Dovecot, values: dict[str, str], said: str
) -> None:
    given = {name: text for name, text in entered(server, **values).items() if text}

    assert said in http.post(CONNECT, given).content.decode()


def test_changed_or_old_draft_is_refused(http: HttpClient, server: Dovecot) -> None:
    page = http.post(CONNECT, entered(server)).content.decode()
    sealed = draft(page)

    http.post(CONNECT, {"draft": sealed[:-8] + "AAAAAAA=", "containers": ["INBOX"]})

    assert not SourceAccount.unscoped.exists()


def test_account_is_paused_resumed_and_its_password_removed_and_replaced(
    http: HttpClient, server: Dovecot
) -> None:
    account = connect(http, server)
    address = f"/accounts/{account.pk}"
    SourceAccount.unscoped.update(due_at=timezone.now() + timedelta(hours=1))

    http.post(address, {"action": "pause"})
    assert Connection.unscoped.get(pk=account.pk).status == "paused"
    assert "Resume" in http.get(address).content.decode()
    http.post(address, {"action": "resume"})
    assert Connection.unscoped.get(pk=account.pk).status == "active"
    http.post(address, {"action": "forget"})
    assert SourceAccount.unscoped.get().credential is None
    assert "There is no password. Enter one to go on." in http.get("/").content.decode()
    http.post(address, {"action": "replace", "password": PASSWORD})
    assert run_sync(account.pk).created == 2


def test_home_page_shows_accounts_that_failed_or_are_stale(
    http: HttpClient, server: Dovecot
) -> None:
    account = connect(http, server)
    assert "was not read" not in http.get("/").content.decode()
    long_ago = timezone.now() - timedelta(days=3)
    SourceAccount.unscoped.update(created_at=long_ago)

    stale = http.get("/").content.decode()
    http.post(f"/accounts/{account.pk}", {"action": "replace", "password": "wrong"})
    run_sync(account.pk)
    failed = http.get("/").content.decode()

    assert f"{USER} was not read for 3 days." in stale
    assert "The password was refused. Since" in failed


@pytest.mark.parametrize("answer", ["keep", "delete"])
def test_owner_decides_about_many_deletions(
    http: HttpClient, server: Dovecot, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    monkeypatch.setattr("importers.sources.sync_batch.MAX_RECORDS", 1)
    user = f"{answer}@mail.example"
    server.append(user, *messages(range(1, 5)))
    account = connect(http, server, user=user, is_mirror="on")
    run_sync(account.pk)
    with server.client(user) as other:
        other.select()
        other.uid("STORE", "1:3", "+FLAGS", r"(\Deleted)")
        other.expunge()
    for _ in range(2):
        run_sync(account.pk)

    home, page, listed = (
        http.get(path).content.decode() for path in ("/", f"/accounts/{account.pk}", "/accounts")
    )
    through = page.split('name="through" value="')[1].partition('"')[0]
    http.post(f"/accounts/{account.pk}", {"action": answer, "through": through})
    deleted = [run_sync(account.pk).deleted for _ in range(2)]

    assert "no longer has 3 of 4 records of Inbox" in home
    assert "no longer has 3 of 4 records of Inbox" in page
    assert "no longer has 3 of 4 records of Inbox" in listed
    assert deleted == ([3, 0] if answer == "delete" else [0, 0])
    assert 'name="through"' not in http.get(f"/accounts/{account.pk}").content.decode()


def test_owner_changes_the_folders(http: HttpClient, server: Dovecot) -> None:
    user = "folders@mail.example"
    server.append(user, message(1), message(2))
    server.append(user, message(3), folder="Archive")
    account = connect(http, server, user=user)
    run_sync(account.pk)
    address = f"/accounts/{account.pk}/choices"

    page = http.get(address).content.decode()
    http.post(address, {"draft": draft(page), "containers": ["Archive"]})
    added = run_sync(account.pk)
    stored = letters()
    account.refresh_from_db()
    state = account.state["folders"]
    http.post(address, {"draft": draft(page), "containers": ["INBOX", "Archive"]})
    again = run_sync(account.pk)

    assert "Archive (1)" in page
    assert PASSWORD not in page
    assert added.created == 1
    assert stored == ["Letter 1", "Letter 2", "Letter 3"]
    assert list(state) == ["Archive"]
    assert (again.created, again.unchanged, again.deleted) == (0, 2, 0)
    assert letters() == stored


def test_folders_cannot_be_listed_without_the_password(http: HttpClient, server: Dovecot) -> None:
    account = connect(http, server)
    http.post(f"/accounts/{account.pk}", {"action": "forget"})

    page = http.get(f"/accounts/{account.pk}/choices", follow=True).content.decode()

    assert "Enter the password or sign in again first." in page


def test_account_waits_for_its_daily_limit(http: HttpClient, server: Dovecot) -> None:
    user = "much@mail.example"
    server.append(user, *(message(number, text="x" * 400_000) for number in range(1, 9)))
    account = connect(http, server, user=user, daily_megabytes="1")

    first, second = run_sync(account.pk), run_sync(account.pk)
    waiting = http.get(f"/accounts/{account.pk}").content.decode()
    stored = len(letters())
    SourceAccount.unscoped.update(traffic={"day": "2020-01-01", "bytes": 10**9})
    run_sync(account.pk)

    assert not first.is_complete
    assert (second.created, second.total) == (0, 0)
    assert 0 < stored < 8
    assert ": the limit of 1 MB a day is reached" in waiting
    assert stored < len(letters())


def test_owner_is_notified_once_about_an_account_that_needs_them(
    http: HttpClient, server: Dovecot
) -> None:
    add_channel()
    account = connect(http, server)
    run_sync(account.pk)
    before = announce()
    http.post(f"/accounts/{account.pk}", {"action": "replace", "password": "wrong"})

    for _ in range(2):
        run_sync(account.pk)
        texts = announce()

    assert before == []
    [text] = texts
    assert text.startswith("A live account of ")
    assert text.endswith(" does not sync. The password was refused.")
    assert USER not in text


def test_owner_connects_a_feed(http: HttpClient, monkeypatch: pytest.MonkeyPatch) -> None:
    feed = b'<rss version="2.0"><channel><title>Garden</title><item><title>a</title></item></channel></rss>'
    with https_server() as feeds:
        monkeypatch.setenv("SSL_CERT_FILE", str(feeds.authority))
        feeds.pages = {"/feed": (200, {}, feed)}
        values = {"url": feeds.url("/feed"), "user": "", "password": "", "allows_private": "on"}

        refused = http.post("/accounts/connect/feed", {**values, "url": "http://a.example"})
        chosen = http.post("/accounts/connect/feed", values)

    assert "address that begins with https://" in refused.content.decode()
    assert "Garden (1)" in chosen.content.decode()
    assert "Delete here" not in chosen.content.decode()


@pytest.fixture
def dav(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[DavAnswers, HttpsServer]]:
    """A calendar server whose calendars are on another one, with the same certificate."""
    answers = DavAnswers(ctag="1")
    with https_server() as started, cutting_proxy(started.port) as other:
        started.handler = answers.answer
        answers.home = f"https://localhost:{other.port}/home/"
        monkeypatch.setenv("SSL_CERT_FILE", str(started.authority))
        yield answers, started


def test_owner_confirms_another_server_before_it_gets_the_password(
    http: HttpClient, dav: tuple[DavAnswers, HttpsServer]
) -> None:
    answers, started = dav
    other = answers.home.split("/")[2]
    given = {"user": "ida", "password": PASSWORD, "url": f"localhost:{started.port}"}
    given |= {"allows_private": "on"}
    address = "/accounts/connect/caldav"

    asked = http.post(address, given).content.decode()
    chosen = http.post(address, {**given, "hosts": [other]}).content.decode()
    answer = {"draft": draft(chosen), "containers": [f"https://{other}/home/work/"]}
    http.post(address, answer | {"connection": ""})
    account = SourceAccount.unscoped.get()

    assert f"leads to another server, which got no password ({other})." in asked
    assert f'name="hosts" value="{other}"' in asked
    assert "<legend>Other servers that may get the password or link</legend>" in asked
    assert PASSWORD not in asked + chosen
    assert account.settings["hosts"] == [["localhost", int(other.partition(":")[2])]]
    assert (
        "<dt>Reads</dt><dd><bdi>Work</bdi></dd>"
        in http.get(f"/accounts/{account.pk}").content.decode()
    )


def test_owner_allows_a_server_to_which_the_account_moved(
    http: HttpClient, dav: tuple[DavAnswers, HttpsServer]
) -> None:
    answers, started = dav
    other = answers.home.split("/")[2]
    given = {"user": "ida", "password": PASSWORD, "url": f"localhost:{started.port}"}
    pk = connect_details(details_of("caldav", **given), folders=[f"https://{other}/home/work/"])
    run_sync(pk)
    page = http.get(f"/accounts/{pk}").content.decode()

    http.post(f"/accounts/{pk}", {"action": "allow", "host": "evil.example"})
    refused = SourceAccount.unscoped.get().settings.get("hosts")
    http.post(f"/accounts/{pk}", {"action": "allow", "host": other})
    run_sync(pk)

    assert f"Allow <bdi>{other}</bdi>" in page
    assert refused is None
    assert SourceAccount.unscoped.get().problem is None


def test_server_is_found_by_the_address_or_suggested(http: HttpClient) -> None:
    given = {"user": "ida@gmail.com", "password": PASSWORD, "url": ""}

    page = http.post("/accounts/connect/caldav", given).content.decode()

    assert "Connect the secret address of the calendar as a calendar feed." in page


def test_contacts_of_the_same_account_are_offered_after_its_calendars(
    http: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with run_radicale(users=1) as radicale:
        monkeypatch.setenv("SSL_CERT_FILE", str(radicale.authority))
        user = "ida0@mail.example"
        radicale.add_calendar(user, "home", "At home")
        radicale.add_address_book(user, "people", "People")
        given = {"user": user, "password": PASSWORD, "url": f"localhost:{radicale.port}"}
        page = http.post("/accounts/connect/caldav", {**given, "allows_private": "on"})
        chosen = {
            "draft": draft(page.content.decode()),
            "containers": [f"/{user.replace('@', '%40')}/home/"],
        }
        offered = http.post("/accounts/connect/caldav", chosen).content.decode()
        book = f"/{user.replace('@', '%40')}/people/"
        http.post("/accounts/connect/carddav", {"draft": draft(offered), "containers": [book]})

    assert "The account also has contacts" in offered
    assert "People" in offered
    assert 'action="/accounts/connect/carddav"' in offered
    assert PASSWORD not in offered
    assert sorted(SourceAccount.unscoped.values_list("source_name", flat=True)) == [
        "caldav",
        "carddav",
    ]
