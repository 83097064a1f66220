"""Three owners in one installation, with the same labels, ids, apps and record keys, over HTTP."""

import re
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client as HttpClient
from django.utils import timezone

from evidence.access.tokens import create_collector, list_collectors
from evidence.erasure import run_erasure
from evidence.models import owners
from evidence.models.connections import Connection, Erasure
from evidence.models.grants import Package
from evidence.models.owners import Owner, acting_for
from evidence.write import disk_usage
from evidence.write.blobs import put_blob
from evidence.write.erasure_orders import unfinished_erasures
from owner.accounts import setup
from tests import world as cast
from tests.browser import owner_pages
from tests.owner.consent.client import Asking, answered, pressed, told
from tests.owner.pages.browser import Browser, Page
from tests.owners import OWNER_ID, owned_tables, sign_up
from tests.world import NOW, PERSONAL, WORK, World, mail

ALICE, BRUNO, CLEO = OWNER_ID, "bruno", "cleo"
PASSWORD = "correct horse battery"
GOOD = {"username": "dana", "password": PASSWORD, "again": PASSWORD}
V1 = "http://127.0.0.1:8000/v1"
NOWHERE = {
    "personal": "cin_nowhere", "person": "prs_nowhere", "client": "cli_nowhere", "ask": "nowhere",
    "grant": "grt_nowhere", "source": "999999", "token": "tok_nowhere", "backup": "999999",
    "erasure": "ers_nowhere", "upload": "0" * 32, "waiting": "wex_nowhere", "run": "run_nowhere",
    "account": "cin_nowhere",
}  # fmt: skip


@dataclass
class Household:
    """The worlds and signed-in browsers of the owners, by owner id."""

    worlds: dict[str, World]
    browsers: dict[str, Browser] = field(default_factory=dict)

    def open(self, owner_id: str, address: str) -> Page:
        return self.browsers[owner_id].open(address)


def secret(owner_id: str) -> str:
    """A word of the mail m1 that only this owner has."""
    return f"zebra{owner_id}"


@pytest.fixture
def household(world: World, monkeypatch: pytest.MonkeyPatch) -> Household:
    """Alice administers; Bruno has the same cast as she; Cleo was invited and has nothing yet."""
    found = Household({ALICE: world})
    for owner_id in (ALICE, BRUNO, CLEO):
        user = sign_up(owner_id if owner_id != ALICE else "alice", owner_id=owner_id)
        browser = found.browsers[owner_id] = Browser()
        browser.http.defaults["HTTP_ACCEPT"] = "text/html"
        browser.sign_in(user)
    monkeypatch.setattr(owners, "new_owner_id", lambda: "dana")
    with acting_for(BRUNO), monkeypatch.context() as patch:
        patch.setattr(cast, "get_or_create_owner", lambda now: Owner.unscoped.get(pk=BRUNO))
        found.worlds[BRUNO] = World.build()
    for owner_id, owned in found.worlds.items():
        with acting_for(owner_id):
            owned.put(
                (PERSONAL, "messages", mail("m1", "2026-01-10T09:00:00Z",
                    subject=secret(owner_id), from_name=secret(owner_id),
                    body_text=f"lease {secret(owner_id)}")),
                emitted_at="2026-10-02T00:00:00Z",
            )  # fmt: skip
    return found


# --- records and apps


def test_apps_read_the_records_of_their_owner_under_the_same_ids(household: Household) -> None:
    for owner_id, other in ((ALICE, BRUNO), (BRUNO, ALICE)):
        owned = household.worlds[owner_id]
        for who in ("bob", "dora", "alice"):
            read = owned.get("/v1/streams/messages/records/m1", who, connection_id=PERSONAL)
            found = owned.get("/v1/search", who, q=secret(owner_id))
            none = owned.get("/v1/search", who, q=secret(other))

            assert secret(owner_id) in str(read.body)
            assert len(found.body["data"]) == 1
            assert none.body["data"] == []
            assert secret(other) not in f"{read.body}{found.body}"


def test_a_token_with_the_id_of_another_owner_is_no_token(household: Household) -> None:
    token = household.worlds[ALICE].tokens["bob"]
    forged = token.replace(f"_{ALICE}_", f"_{BRUNO}_")

    assert forged != token
    assert household.worlds[ALICE].get("/v1/schema", forged).status == 401
    unknown = household.worlds[ALICE].get("/v1/schema", token.replace(f"_{ALICE}_", "_nobody_"))
    wrong = household.worlds[ALICE].get("/v1/schema", token[:-1] + "-")
    assert unknown.error | {"request_id": ""} == wrong.error | {"request_id": ""}


def test_each_owner_sees_what_apps_read_from_them(household: Household) -> None:
    household.worlds[ALICE].get("/v1/streams/messages/records", "bob")

    assert "1 answer" in household.open(ALICE, "/activity").text
    assert "1 answer" not in household.open(BRUNO, "/activity").text
    assert "Bob" not in household.open(CLEO, "/activity").text
    for name, shown in ((ALICE, True), (BRUNO, False)):
        answer = household.browsers[name].http.get("/activity/export.csv")
        assert (b"messages" in b"".join(answer)) is shown  # type: ignore[arg-type]


def test_search_people_and_days_show_the_own_records_alone(household: Household) -> None:
    for owner_id, other in ((ALICE, BRUNO), (BRUNO, ALICE)):
        for address in ("/search?q=lease", "/day/2026-01-10", f"/records/{PERSONAL}/messages/m1"):
            text = household.open(owner_id, address).text
            assert secret(owner_id) in text, address
            assert secret(other) not in text, address
    assert "zebra" not in household.open(CLEO, "/search?q=lease").text


# --- every page


@pytest.fixture
def values(household: Household, tmp_path: Path, settings: Any) -> dict[str, str]:
    """Ids of Alice's rows."""
    settings.PDPP_VAR = tmp_path
    return owner_pages.arrange(household.worlds[ALICE], tmp_path) | {"account": PERSONAL}


OTHER_ADDRESSES = (
    "/activity/export.json", "/owners/{owner}/remove",
    "/export/{personal}/messages", "/html/{personal}/messages?key=m1", "/files/{personal}/blb_1", "/ask/{ask}", "/set-up/x/",
)  # fmt: skip


@pytest.mark.parametrize("who", [CLEO, "administrator"])
@pytest.mark.parametrize("method", ["get", "post"])
def test_another_owners_ids_answer_as_if_they_never_existed(
    household: Household, values: dict[str, str], who: str, method: str
) -> None:
    viewer = household.browsers[CLEO].http
    viewer.handler.enforce_csrf_checks = False
    if who == "administrator":
        Owner.unscoped.filter(pk=CLEO).update(is_administrator=True)
    with acting_for(ALICE):
        put_blob(PERSONAL, stream="messages", record_key="m1", media_type="text/plain",
                 chunks=[b"zebra"], blob_id="blb_1", now=timezone.now())  # fmt: skip
    nowhere = {
        **NOWHERE,
        **{name: f"{value}x" for name, value in values.items() if name not in NOWHERE},
    }
    quoted = {f"quoted_{name}": value for name, value in NOWHERE.items()}
    unowned = {"owner": "nobody"} if who == CLEO else {"owner": "gone"}
    before = rows_of(ALICE)

    for pattern in (*owner_pages.PAGES, *OTHER_ADDRESSES):
        if not re.search(r"{\w+}|cin_", pattern):
            continue
        address = pattern.format_map(values | unowned)
        missing = pattern.replace("cin_bank", "cin_none").format_map(nowhere | quoted | unowned)
        answer, other = getattr(viewer, method)(address), getattr(viewer, method)(missing)
        text = content(answer)
        assert answer.status_code == other.status_code, address
        assert "zebra" not in text, address
        assert owner_pages.LONG not in text, address
    assert rows_of(ALICE) == before


@pytest.mark.parametrize("who", [CLEO, "administrator"])
def test_no_page_shows_anything_of_another_owner(
    household: Household, values: dict[str, str], who: str
) -> None:
    if who == "administrator":
        Owner.unscoped.filter(pk=CLEO).update(is_administrator=True)
    shown = ("zebra", owner_pages.LONG, "Personal mail", "Bob", "Acme", "Lindenstrasse", "run_1")

    for pattern in owner_pages.PAGES:
        if "{" in pattern:
            continue
        text = content(household.browsers[CLEO].http.get(pattern, follow=True))
        assert not [each for each in shown if each in text], pattern


def rows_of(owner_id: str) -> dict[str, list[Any]]:
    """Every row of an owner; also the texts of rows that a page must not change."""
    found = {}
    with connection.cursor() as cursor:
        for table in sorted(owned_tables() - {"evidence_passage"}):
            cursor.execute(
                f"SELECT t::text FROM {table} t WHERE owner_id = %s ORDER BY 1",  # noqa: S608 - ours
                [owner_id],
            )
            found[table] = cursor.fetchall()
    return found


def content(answer: Any) -> str:
    return (b"".join(answer) if answer.streaming else answer.content).decode(errors="replace")


# --- apps that several owners connect


def test_one_app_of_two_owners_has_two_packages(household: Household) -> None:
    asking = Asking()
    asking.client_id = asking.register().json()["client_id"]
    tokens = {}
    for owner_id in (ALICE, BRUNO):
        asking.owner = household.browsers[owner_id].http
        tokens[owner_id] = asking.exchange(asking.code(resource=V1), resource=V1).json()

    for owner_id, other in ((ALICE, BRUNO), (BRUNO, ALICE)):
        bearer = tokens[owner_id]["access_token"]
        hits = household.worlds[owner_id].get("/v1/search", bearer, q="lease").body
        assert secret(owner_id) in str(hits)
        assert secret(other) not in str(hits)
        with acting_for(owner_id):
            assert Package.unscoped.filter(client_id=asking.client_id).count() == 1
        assert household.open(owner_id, "/connected").text.count("Scribe") > 0
    assert "Scribe" not in household.open(CLEO, "/connected").text

    page = household.open(BRUNO, f"/connected/end?client={asking.client_id}")
    household.browsers[BRUNO].press(page.form)
    assert household.worlds[ALICE].get("/v1/schema", tokens[ALICE]["access_token"]).status == 200
    assert household.worlds[ALICE].get("/v1/schema", tokens[BRUNO]["access_token"]).status == 403
    assert asking.refresh(tokens[ALICE]["refresh_token"]).status_code == 200
    assert asking.refresh(tokens[BRUNO]["refresh_token"]).status_code == 400


@pytest.mark.parametrize("owner_id", [BRUNO, "nobody"])
def test_codes_and_tokens_with_another_owners_id_answer_like_wrong_ones(
    household: Household, owner_id: str
) -> None:
    asking = Asking()
    asking.client_id = asking.register().json()["client_id"]
    asking.owner = household.browsers[ALICE].http
    code = told(answered(asking.owner, asking.ask()))["code"]
    tokens = asking.tokens()
    refresh = tokens["refresh_token"]

    def of_other(value: str) -> str:
        return value.replace(f"_{ALICE}_", f"_{owner_id}_")

    for forged, wrong in (
        (asking.exchange(of_other(code)), asking.exchange(code[:-2])),
        (asking.refresh(of_other(refresh)), asking.refresh(refresh[:-2])),
    ):
        assert forged.status_code == wrong.status_code == 400
        assert forged.json() | {"request_id": ""} == wrong.json() | {"request_id": ""}
    assert asking.exchange(code).status_code == 200
    assert asking.refresh(refresh).status_code == 200


def test_a_device_reads_of_the_owner_who_typed_its_code(household: Household) -> None:
    from tests.owner.consent.test_device import poll, start, the_page

    asking = Asking()
    asking.client_id = asking.register(redirect_uris=[], client_name="PDPP CLI").json()["client_id"]
    started = start(asking, resource=V1)
    asking.owner = household.browsers[BRUNO].http
    answered(asking.owner, the_page(asking, started["user_code"]))

    bearer = poll(asking, started).json()["access_token"]

    hits = household.worlds[ALICE].get("/v1/search", bearer, q="lease").body
    assert secret(BRUNO) in str(hits)
    assert secret(ALICE) not in str(hits)


def test_a_collector_writes_for_the_owner_who_typed_its_code(household: Household) -> None:
    from tests.owner.consent.test_collectors import SCOPE, the_form
    from tests.owner.consent.test_device import poll, start

    asking = Asking()
    asking.client_id = asking.register(redirect_uris=[], client_name="PDPP CLI").json()["client_id"]
    started = start(asking, **SCOPE)
    asking.owner = household.browsers[BRUNO].http
    form = the_form(asking, started["user_code"])
    own = {connection_id for _, connection_id in form.boxes.values()}
    for words in form.boxes:
        form.tick(words)
    asking.owner.post(form.action, pressed(form, "allow"))

    token = poll(asking, started).json()

    with acting_for(BRUNO):
        assert own == set(Connection.unscoped.values_list("pk", flat=True))
        assert [row.owner_id for row in list_collectors()] == [BRUNO]
    assert set(token["connection_ids"]) == own
    assert f"_{BRUNO}_" in token["access_token"]
    with acting_for(ALICE):
        assert not list_collectors()


def test_a_request_for_more_opens_for_the_owner_whose_app_asked(household: Household) -> None:
    refused = household.worlds[BRUNO].get("/v1/streams/threads/records", "bob").error
    path = urlsplit(refused["ask_url"]).path

    assert household.browsers[BRUNO].http.get(path).status_code == 200
    for owner_id in (ALICE, CLEO):
        assert household.browsers[owner_id].http.get(path).status_code == 404
        assert "asks to read" not in household.open(owner_id, "/").text


# --- invitations


@pytest.fixture
def invitation(household: Household) -> str:
    """The link that the administrator is shown."""
    page = household.open(ALICE, "/owners")
    form = next(each for each in page.own_forms if each.values("name"))
    form.fill("name", "dana")
    shown = household.browsers[ALICE].press(form, "action", "invite")
    [link] = re.findall(r"http://127.0.0.1:8000(/set-up/[\w-]+/)", shown.html)
    return str(link)


def test_an_invited_owner_begins_with_nothing(household: Household, invitation: str) -> None:
    dana = Browser()
    form = dana.open(invitation).form
    assert form.values("username") == ["dana"]
    for name, value in GOOD.items():
        form.fill(name, value)

    home = dana.press(form)

    assert home.address == "/"
    assert "zebra" not in home.text
    assert Owner.unscoped.get(user__username="dana").is_administrator is False
    assert not User.objects.filter(is_superuser=True).exists()
    assert "dana" in household.open(ALICE, "/owners").text


def test_an_invitation_works_once(household: Household, invitation: str) -> None:
    HttpClient().post(invitation, GOOD)

    for answer in (
        HttpClient().get(invitation),
        HttpClient().post(invitation, GOOD | {"username": "eve"}),
    ):
        assert answer.status_code == 410
        assert "ask for another invitation" in answer.content.decode()
    assert Owner.unscoped.count() == 4


@pytest.mark.parametrize("name", ["bruno", "Bruno"])
def test_a_name_belongs_to_one_owner(household: Household, invitation: str, name: str) -> None:
    answer = HttpClient().post(invitation, GOOD | {"username": name})

    assert answer.status_code == 422
    assert "This user name is taken" in answer.content.decode()
    assert HttpClient().post(invitation, GOOD).status_code == 302


def test_an_administrator_accepts_nobodys_invitation_in_their_own_browser_by_accident(
    household: Household, invitation: str
) -> None:
    """The new owner is signed in there, and the administrator's settings stay."""
    before = Owner.unscoped.get(pk=ALICE)
    browser = household.browsers[ALICE]
    form = next(each for each in browser.open(invitation).forms if each.values("username"))
    for name, value in {**GOOD, "time_zone": "Asia/Tokyo"}.items():
        form.fill(name, value)

    assert "zebra" not in browser.press(form).text

    assert Owner.unscoped.get(pk=ALICE).time_zone == before.time_zone
    assert Owner.unscoped.get(user__username="dana").time_zone == "Asia/Tokyo"


def test_the_command_invites_too(household: Household) -> None:
    printed = StringIO()
    call_command("invite", name="dana", stdout=printed)

    path = urlsplit(printed.getvalue().strip()).path
    assert 'value="dana"' in HttpClient().get(path).content.decode()


# --- the page Owners


@pytest.mark.parametrize("address", ["/owners", "/owners/bruno/remove", "/owners/nobody/remove"])
@pytest.mark.parametrize("method", ["get", "post"])
def test_for_other_owners_there_is_no_page_about_owners(
    household: Household, address: str, method: str
) -> None:
    browser = household.browsers[BRUNO].http
    browser.handler.enforce_csrf_checks = False

    answer = getattr(browser, method)(address, {"action": "invite", "name": "bruno"})

    assert answer.status_code == 404
    assert Owner.unscoped.filter(removed_at=None).count() == 3
    assert "Owners" not in household.open(BRUNO, "/").text
    assert "Owners" in household.open(ALICE, "/").text


def test_the_administrator_sees_names_and_sizes_and_no_records(household: Household) -> None:
    page = household.open(ALICE, "/owners")

    assert "bruno Last sign-in" in page.text
    assert re.search(r"bruno .*about [\d.,]+\s[KM]B", page.text)
    for word in ("zebra", "Personal mail", "Mail", "Bob", "messages", "Bank"):
        assert word not in page.text.replace("Live accounts", "")


def test_owners_are_listed_page_by_page(
    household: Household, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("owner.household.OWNERS_PER_PAGE", 2)

    first = household.open(ALICE, "/owners")
    second = household.open(ALICE, first.link("Later"))

    assert ("cleo Last" in first.text, "cleo Last" in second.text) == (False, True)
    assert not second.has_link("Later")


def test_the_last_administrator_stays(household: Household) -> None:
    alice = household.browsers[ALICE]
    alice.http.handler.enforce_csrf_checks = False

    assert "Type “alice”" not in alice.open(f"/owners/{ALICE}/remove").text, "it would be refused"
    removed = alice.http.post(f"/owners/{ALICE}/remove", {"name": "alice"})
    dismissed = alice.http.post("/owners", {"action": "dismiss", "owner": ALICE}, follow=True)
    erased = alice.http.post("/erase?of=owner", {"word": "erase everything"})

    with pytest.raises(CommandError, match="last administrator"):
        call_command("erase", "--owner", "alice", "owner", "--yes")
    for answer in (removed, dismissed, erased):
        assert "last administrator" in answer.content.decode()
    assert not Erasure.unscoped.exists()
    assert Owner.unscoped.get(pk=ALICE).is_administrator

    alice.http.post("/owners", {"action": "appoint", "owner": BRUNO})
    alice.http.post("/owners", {"action": "dismiss", "owner": ALICE})
    assert household.browsers[BRUNO].http.get("/owners").status_code == 200
    assert alice.http.get("/owners").status_code == 404


def test_a_removed_owner_loses_everything_and_nobody_else_anything(household: Household) -> None:
    bruno, alice = household.worlds[BRUNO], household.browsers[ALICE]
    before = rows_of(ALICE)
    page = alice.open(f"/owners/{BRUNO}/remove")
    page.form.fill("name", "brunhild")
    assert "Type “bruno” to go on" in alice.press(page.form).text
    assert bruno.get("/v1/schema", "bob").status == 200
    with acting_for(BRUNO):
        bruno.tokens["collector"] = create_collector("Gmail", [WORK], now=NOW)
    assert bruno.get("/v1/state/mail", "collector").status == 200

    page.form.fill("name", "bruno")
    alice.press(page.form)

    for who in ("bob", "dora", "alice"):
        assert bruno.get("/v1/schema", who).status == 401
    assert bruno.get("/v1/state/mail", "collector").status == 401
    assert "/login" in household.browsers[BRUNO].http.get("/people").headers.get("Location", "")
    with acting_for(BRUNO):
        for order in unfinished_erasures():
            list(run_erasure(order, now=timezone.now()))
    left = {table for table, rows in rows_of(BRUNO).items() if rows}
    assert left <= {"evidence_erasure", "evidence_checkpoint", "evidence_disclosure"}
    assert not User.objects.filter(username="bruno").exists()
    assert rows_of(ALICE) == before
    assert household.browsers[ALICE].http.get("/").status_code == 200
    text = household.open(ALICE, "/owners").text
    assert "bruno" not in text
    assert re.search(r"Removed .*records.* Receipt ers_\w+", text)
    assert "not finished" not in text


def test_commands_ask_for_the_owner_where_there_are_several(household: Household) -> None:
    with pytest.raises(
        CommandError, match=r"Name one with --owner: alice \(owner\), bruno \(bruno\)"
    ):
        call_command("owner_token")

    printed = StringIO()
    call_command("owner_token", owner="bruno", stdout=printed)
    [token] = re.findall(r"pdpp_own_\w+_\S+", printed.getvalue())
    assert secret(BRUNO) in str(household.worlds[ALICE].get("/v1/search", token, q="lease").body)


# --- sign-in


def test_a_set_up_link_for_another_owner_is_announced(household: Household) -> None:
    link = setup.create_link(Owner.unscoped.get(pk=BRUNO), now=timezone.now())
    path = urlsplit(setup.link_url(link)).path

    assert "A set-up link for your account was made" in household.open(BRUNO, "/").text
    assert "set-up link" not in household.open(ALICE, "/").text
    new = {"username": "bruno", "password": PASSWORD, "again": PASSWORD}
    assert HttpClient().post(path, new).status_code == 302
    assert User.objects.get(username="bruno").check_password(PASSWORD)
    assert household.browsers[ALICE].http.get("/").status_code == 200


def test_wrong_passwords_of_one_owner_do_not_lock_another_out(household: Household) -> None:
    for name in ("alice", "bruno"):
        user = User.objects.get(username=name)
        user.set_password(PASSWORD)
        user.save()
    stranger = HttpClient()
    for _ in range(7):
        answer = stranger.post("/login", {"username": "alice", "password": "wrong"})

    assert answer.status_code == 429
    good = {"username": "bruno", "password": PASSWORD}
    assert stranger.post("/login", good).status_code == 302


# --- disk limits


@pytest.fixture
def full(household: Household, monkeypatch: pytest.MonkeyPatch) -> Household:
    """Bruno's limit is reached."""
    monkeypatch.setattr(disk_usage, "MEASURE_SECONDS", 0.0)
    page = household.open(ALICE, "/owners")
    form = next(each for each in page.own_forms if each.values("owner") == [BRUNO])
    form.fill("gigabytes", "0.00")
    household.browsers[ALICE].press(form, "action", "limit")
    assert Owner.unscoped.get(pk=BRUNO).disk_limit_bytes == 0
    return household


def test_nothing_new_is_stored_over_the_limit(full: Household) -> None:
    line = b'{"key": "m77", "data": {"id": "m77"}, "emitted_at": "2026-10-03T00:00:00Z"}\n'
    headers = {"content_type": "application/x-ndjson"}

    def send(owner_id: str, path: str, body: bytes, **more: Any) -> Any:
        token = full.worlds[owner_id].tokens["alice"]
        client = HttpClient(headers={"Authorization": f"Bearer {token}"})
        return client.post(path, body, **headers, **more)

    ingest = f"/v1/ingest/messages?connection_id={PERSONAL}"
    blob = f"/v1/blobs?connection_id={PERSONAL}&stream=messages&record_key=m1&mime_type=text/plain"
    for path, body in ((ingest, line), (blob, b"hello")):
        refused = send(BRUNO, path, body)
        assert refused.status_code == 507
        assert refused.json()["error"]["code"] == "storage_full"
        assert send(ALICE, path, body).status_code in (200, 201)
    gone = b'{"key": "m2", "op": "delete", "emitted_at": "2026-10-03T00:00:00Z"}\n'
    assert send(BRUNO, ingest, gone).status_code == 200
    assert full.worlds[BRUNO].get("/v1/search", "dora", q="lease").status == 200
    assert "Nothing new is stored" in full.open(BRUNO, "/storage").text


def test_the_middleware_acts_for_nobody_without_a_sign_in(household: Household) -> None:
    for address in ("/", "/login", "/set-up/x/", "/device", "/oauth/authorize"):
        answer = HttpClient(headers={"Accept": "text/html"}).get(address)
        assert answer.status_code < 500, address
        assert "zebra" not in answer.content.decode()
    assert Connection.unscoped.count() == 4
