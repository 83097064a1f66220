"""A calendar with a web address is kept up to date."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.utils import timezone

from evidence.models.connections import Connection
from evidence.write.record_erasure import delete_record
from importers.authoring.https_server import HttpsServer, https_server
from importers.core.source import ProblemCode, SourceError
from importers.models import SyncedItem
from tests.importers.imports import records, run
from tests.importers.syncing import account_of, connect_details, details_of, run_sync

pytestmark = pytest.mark.django_db

PATH = "/private-1234/basic.ics"


@pytest.fixture(scope="module")
def started() -> Iterator[HttpsServer]:
    with https_server() as server:
        yield server


@pytest.fixture
def server(started: HttpsServer, monkeypatch: pytest.MonkeyPatch) -> HttpsServer:
    monkeypatch.setenv("SSL_CERT_FILE", str(started.authority))
    started.pages, started.handler, started.requests = {}, None, []
    return started


def event(uid: str, title: str, *lines: str, start: str = "20260105T090000Z") -> str:
    more = "".join(f"{line}\r\n" for line in lines)
    return (
        f"BEGIN:VEVENT\r\nUID:{uid}\r\nDTSTAMP:{timezone.now():%Y%m%dT%H%M%SZ}\r\n"
        f"DTSTART:{start}\r\nSUMMARY:{title}\r\n{more}END:VEVENT\r\n"
    )


def calendar(*events: str, name: str = "Team") -> bytes:
    head = f"BEGIN:VCALENDAR\r\nVERSION:2.0\r\nX-WR-CALNAME:{name}\r\n"
    return f"{head}{''.join(events)}END:VCALENDAR\r\n".encode()


def publish(server: HttpsServer, *events: str, **headers: str) -> None:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    server.pages[PATH] = (200, named, calendar(*events))


def connect(server: HttpsServer, url: str = "", **options: object) -> str:
    return connect_details(details_of("ics", url=url or server.url(PATH)), **options)


def titles() -> list[str]:
    return sorted(each["title"] for each in records("events"))


def test_feed_makes_the_records_of_an_import_of_the_same_file(
    server: HttpsServer, tmp_path: Path
) -> None:
    weekly = event("b", "Course", "RRULE:FREQ=WEEKLY;COUNT=3", "EXDATE:20260112T090000Z")
    publish(server, event("a", "Dinner"), weekly)
    file = tmp_path / "basic.ics"
    file.write_bytes(server.pages[PATH][2])
    run(file)
    imported = records("events")

    pk = connect(server, connection_id=Connection.unscoped.get().connection_id)
    report = run_sync(pk)

    assert (report.created, report.updated, report.deleted) == (0, 0, 0)
    assert records("events") == imported
    assert titles() == ["Course", "Course", "Dinner"]


def test_changed_series_replaces_its_occurrences(server: HttpsServer) -> None:
    publish(server, event("a", "Course", "RRULE:FREQ=WEEKLY;COUNT=3"))
    pk = connect(server)
    run_sync(pk)
    publish(server, event("a", "Course", "RRULE:FREQ=WEEKLY;COUNT=2"), event("b", "Dinner"))

    report = run_sync(pk)

    assert (report.created, report.updated, report.deleted) == (1, 2, 1)
    assert titles() == ["Course", "Course", "Dinner"]


def test_erased_occurrence_stays_erased_when_its_series_moves(server: HttpsServer) -> None:
    publish(server, event("a", "Course", "RRULE:FREQ=WEEKLY;COUNT=5"))
    pk = connect(server)
    run_sync(pk)
    key = sorted(each["id"] for each in records("events"))[2]
    delete_record(pk, stream="events", record_key=key, suppress=True, now=timezone.now())
    moved = event("a", "Course", "RRULE:FREQ=WEEKLY;COUNT=5", start="20260105T100000Z")
    publish(server, moved)

    run_sync(pk)

    starts = sorted(each["starts_at"][:13] for each in records("events"))
    assert starts == [f"2026-{day}T10" for day in ("01-05", "01-12", "01-26", "02-02")]


def test_unchanged_feed_is_not_read_again(server: HttpsServer) -> None:
    def answer(_method: str, _path: str, headers: dict[str, str], _body: bytes) -> object:
        asked.append((headers.get("if-none-match"), headers.get("if-modified-since")))
        if headers.get("if-none-match") == '"1"':
            return (304, {}, b"")
        validators = {"ETag": '"1"', "Last-Modified": "Mon, 05 Jan 2026 08:00:00 GMT"}
        return (200, validators, calendar(event("a", "Dinner")))

    asked: list[tuple[str | None, str | None]] = []
    server.handler = answer
    pk = connect(server)
    first, second = run_sync(pk), run_sync(pk)

    assert asked == [(None, None), (None, None), ('"1"', "Mon, 05 Jan 2026 08:00:00 GMT")]
    assert (first.created, second.created, second.unchanged) == (1, 0, 0)
    assert second.is_complete


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ((200, {}, b"<html>Sign in</html>"), ProblemCode.NOT_FOUND),
        ((200, {}, calendar(event("a", "Dinner"))[:-20]), ProblemCode.CONNECTION_LOST),
        ((200, {"Content-Length": "9000"}, b"BEGIN:VCALENDAR"), ProblemCode.CONNECTION_LOST),
        ((404, {}, b""), ProblemCode.NOT_FOUND),
        ((403, {}, b""), ProblemCode.NOT_FOUND),
        ((500, {}, b""), ProblemCode.SERVER_REFUSED),
        ((302, {"Location": "https://elsewhere.example/a.ics"}, b""), ProblemCode.MOVED),
    ],
)
def test_other_answers_change_nothing_and_say_what_to_do(
    server: HttpsServer, answer: tuple[int, dict[str, str], bytes], code: ProblemCode
) -> None:
    publish(server, event("a", "Dinner"), event("b", "Course"))
    pk = connect(server, is_mirror=True)
    run_sync(pk)
    server.pages[PATH] = answer
    problems = []
    for _ in range(3):
        run_sync(pk)
        problems.append(account_of(pk).problem)

    assert {each["code"] for each in problems} == {code}
    assert "private-1234" not in str(problems)
    assert titles() == ["Course", "Dinner"]
    assert SyncedItem.unscoped.filter(gone_pass__isnull=True).count() == 2


def test_webcal_is_https_and_the_link_is_a_secret(server: HttpsServer) -> None:
    publish(server, event("a", "Dinner"))

    pk = connect(server, server.url(PATH).replace("https:", "webcal:"))
    run_sync(pk)

    assert titles() == ["Dinner"]
    assert "private-1234" not in str(account_of(pk).settings)


def test_feed_without_encryption_goes_through_the_filter(server: HttpsServer) -> None:
    with pytest.raises(SourceError) as refused:
        connect_details(details_of("ics", url="http://127.0.0.1:9/a.ics", allows_private=""))

    assert refused.value.code is ProblemCode.PRIVATE_ADDRESS
