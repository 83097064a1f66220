"""CalDAV servers of other kinds: without sync tokens, with changes in parts, or with two hosts."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.utils import timezone
from dns import rdataclass, rdatatype, resolver
from dns.name import from_text
from dns.rdtypes.IN.SRV import SRV

from evidence.errors import InvalidRequest
from importers.authoring.https_server import HttpsServer, https_server
from importers.core.source import ProblemCode, SourceError
from importers.sources.accounts import list_containers
from tests.importers.cutting_proxy import cutting_proxy
from tests.importers.dav_answers import DavAnswers, multistatus, response
from tests.importers.imports import records
from tests.importers.syncing import account_of, connect_details, details_of, run_sync
from tests.importers.test_calendar_feed import calendar, event

pytestmark = pytest.mark.django_db


@pytest.fixture
def dav() -> DavAnswers:
    return DavAnswers(events={"a.ics": text("a", "Dinner")})


@pytest.fixture
def server(dav: DavAnswers, monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpsServer]:
    with https_server() as started:
        started.handler = dav.answer
        monkeypatch.setenv("SSL_CERT_FILE", str(started.authority))
        yield started


def text(uid: str, title: str) -> str:
    return calendar(event(uid, title)).decode()


def details(server: HttpsServer, **values: str) -> Any:
    entered = {"user": "ida", "password": "pass-1234", "url": f"localhost:{server.port}"}
    return details_of("caldav", **entered | values)


def titles() -> list[str]:
    return sorted(each["title"] for each in records("events"))


def test_server_with_change_tags_only_is_compared(server: HttpsServer, dav: DavAnswers) -> None:
    dav.ctag = "1"
    pk = connect_details(details(server))
    run_sync(pk)
    dav.asked.clear()
    unchanged = run_sync(pk)
    asked = list(dav.asked)
    dav.ctag, dav.events["b.ics"] = "2", text("b", "Talk")

    changed = run_sync(pk)

    assert asked == ["PROPFIND /home/work/ 0"]
    assert (unchanged.created, unchanged.unchanged) == (0, 0)
    assert (changed.created, changed.unchanged) == (1, 0)
    assert titles() == ["Dinner", "Talk"]


def test_changes_in_parts_are_all_read(server: HttpsServer, dav: DavAnswers) -> None:
    dav.token = "t1"
    pk = connect_details(details(server))
    run_sync(pk)
    dav.asked.clear()
    dav.token = "t3"
    dav.events |= {"b.ics": text("b", "Talk"), "c.ics": text("c", "Walk")}
    changed = "<d:getetag>new</d:getetag>"
    dav.reports = [
        multistatus(
            response("/home/work/b.ics", changed), response("/home/work/", status=507), token="t2"
        ),
        multistatus(response("/home/work/c.ics", changed), token="t3"),
    ]

    report = run_sync(pk)

    assert report.created == 2
    assert titles() == ["Dinner", "Talk", "Walk"]
    assert account_of(pk).state["collections"]["/home/work/"]["token"] == "t3"
    assert dav.asked == ["PROPFIND /home/work/ 0", *["REPORT /home/work/ 0"] * 3]


@pytest.mark.parametrize("place", ["home", "redirect"])
def test_password_goes_to_another_server_only_after_the_owner_confirmed_it(
    server: HttpsServer, dav: DavAnswers, place: str
) -> None:
    with cutting_proxy(server.port) as proxy:
        other = f"localhost:{proxy.port}"
        if place == "home":
            dav.home = f"https://{other}/home/"
        else:
            dav.well_known = (302, {"Location": f"https://{other}/"}, b"")
        with pytest.raises(SourceError) as refused:
            list_containers(details(server), now=timezone.now())
        delivered = proxy.bytes_delivered
        pk = connect_details(details(server, hosts=other))
        run_sync(pk)

    assert (refused.value.code, refused.value.detail) == (ProblemCode.MOVED, other)
    assert delivered == 0
    assert proxy.bytes_delivered > 0
    assert titles() == ["Dinner"]


def test_entries_outside_of_the_calendar_are_not_asked_for(
    server: HttpsServer, dav: DavAnswers
) -> None:
    dav.token = "t1"
    pk = connect_details(details(server))
    run_sync(pk)
    dav.asked.clear()
    dav.token = "t2"
    dav.reports = [multistatus(response("/other/x.ics", "<d:getetag>1</d:getetag>"), token="t2")]

    report = run_sync(pk)

    assert report.created == 0
    assert account_of(pk).problem is None
    assert len(dav.asked) == 2


@pytest.mark.parametrize(
    ("user", "said"),
    [
        ("ida@gmail.com", "Google takes no app passwords"),
        ("ida@outlook.com", "Microsoft has no CalDAV"),
        ("ida@own.example", "Your address leads to dav.own.example:8443; enter it if you know it."),
        ("ida@other.example", "Enter the server."),
    ],
)
def test_server_found_by_the_address_is_a_suggestion(
    monkeypatch: pytest.MonkeyPatch, user: str, said: str
) -> None:
    def resolve(name: str, kind: str, **_options: Any) -> list[Any]:
        if (name, kind) != ("_caldavs._tcp.own.example", "SRV"):
            raise resolver.NXDOMAIN
        return [_srv("later.own.example.", 20), _srv("dav.own.example.", 10)]

    monkeypatch.setattr(resolver, "resolve", resolve)

    with pytest.raises(InvalidRequest) as refused:
        details_of("caldav", user=user, password="pass-1234")

    assert refused.value.param == "url"
    assert refused.value.message.startswith(said) or refused.value.message.endswith(said)


def test_server_of_a_well_known_provider_is_found() -> None:
    found = details_of("carddav", user="ida@icloud.com", password="pass-1234")

    assert found.settings["url"] == "https://contacts.icloud.com"


def test_password_is_refused_without_encryption() -> None:
    with pytest.raises(InvalidRequest, match="begins with https"):
        details_of("caldav", user="ida", password="pass-1234", url="http://dav.own.example")


def _srv(target: str, priority: int) -> SRV:
    return SRV(rdataclass.IN, rdatatype.SRV, priority, 1, 8443, from_text(target))
