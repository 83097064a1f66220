"""Files of a WebDAV server are kept up to date as documents, from a real server."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.utils import timezone

from importers.authoring.https_server import https_server
from importers.authoring.source_kit import SourceTests
from importers.core.source import ProblemCode, SourceError
from importers.core.text_recognition import LANGUAGES_VARIABLE
from importers.sources.account_store import set_credential
from importers.sources.status import status_lines
from tests.extras.webdav_server import PASSWORD, USER, WebdavServer, webdav_server
from tests.importers.imports import connection, content, one, records, run
from tests.importers.needs import OCR
from tests.importers.syncing import account_of, connect_details, details_of, run_sync
from tests.importers.test_text_recognition import SENTENCE, saved

pytestmark = pytest.mark.django_db


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WebdavServer]:
    with webdav_server(tmp_path) as started:
        monkeypatch.setenv("SSL_CERT_FILE", str(started.authority))
        yield started


def details(server: WebdavServer, **values: str) -> object:
    entered = {"url": server.url(), "user": USER, "password": PASSWORD}
    return details_of("webdav", **entered | values)


def connect(server: WebdavServer, **options: object) -> str:
    return connect_details(details(server), **options)  # type: ignore[arg-type]


def paths() -> list[str]:
    return sorted(each["path"] for each in records("documents"))


def test_chosen_folders_are_documents_with_their_files(server: WebdavServer) -> None:
    server.write("Notes/garden/a b ü#?.md", "# Beans\nSow in May.")
    server.write("Notes/.hidden/secret.txt", "x")
    server.write("Private/b.txt", "not chosen")
    server.write("c.txt", "at the top")

    report = run_sync(connect(server, folders=["Notes", "/"]))

    assert paths() == ["Notes/garden/a b ü#?.md", "c.txt"]
    assert (report.created, report.files, report.is_complete) == (2, 2, True)
    beans = one("documents", title="Beans")
    assert beans["folder"] == "Notes/garden"
    assert content(beans["blob_ref"]) == b"# Beans\nSow in May."


@pytest.mark.slow
def test_files_of_other_kinds_are_counted_by_kind(server: WebdavServer) -> None:
    for name in ("a.mp4", "x/b.MP4", "c.zip", "no suffix", "d.what-is-this", ".hidden.mp4"):
        server.write(f"Notes/{name}", b"x")
    server.write("Private/e.mp4", b"not chosen")
    server.write("Notes/a.txt", "a")
    pk = connect(server, folders=["Notes"])

    for _ in range(2):
        assert run_sync(pk).skipped == {".mp4": 2, ".zip": 1, "other": 2}
        assert "not read: 2 .mp4, 2 other, 1 .zip" in "\n".join(
            status_lines(account_of(pk), now=timezone.now())
        )

    (server.folder / "Notes/c.zip").unlink()
    assert run_sync(pk).skipped == {".mp4": 2, "other": 2}
    assert paths() == ["Notes/a.txt"]


@pytest.mark.slow
@OCR
def test_scans_and_pictures_have_their_text_once_the_extra_is_installed(
    server: WebdavServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.write("Notes/scan.pdf", saved("PDF", resolution=200))
    server.write("Notes/letter.png", saved("PNG"))
    with monkeypatch.context() as without:
        without.setenv(LANGUAGES_VARIABLE, "xyz")
        pk = connect(server, is_mirror=True)
        report = run_sync(pk)
        assert report.skipped == {".png (needs requirements-ocr.txt)": 1}
        assert "The text of scans needs the extra ocr" in report.notes[0]
        assert [each["text"] for each in records("documents")] == [None]

    run_sync(pk)

    assert [each["text"] for each in records("documents")] == [SENTENCE] * 2
    server.requests.clear()
    monkeypatch.setenv(LANGUAGES_VARIABLE, "xyz")
    assert run_sync(pk).deleted == 0
    assert [method for method, _ in server.requests if method == "GET"] == []


def test_only_changed_files_are_read_again(server: WebdavServer) -> None:
    server.write("Notes/a.txt", "before")
    server.write("Notes/b.txt", "same")
    pk = connect(server)
    run_sync(pk)
    server.requests.clear()
    server.write("Notes/a.txt", "after it")

    report, idle = run_sync(pk), run_sync(pk)

    assert (report.created, report.updated, report.unchanged) == (0, 1, 0)
    assert [path for method, path in server.requests if method == "GET"] == ["/Notes/a.txt"]
    assert one("documents", path="Notes/a.txt")["text"] == "after it"
    assert (idle.created, idle.updated, idle.unchanged) == (0, 0, 0)


@pytest.mark.slow
def test_imported_folder_and_its_server_make_the_same_records(server: WebdavServer) -> None:
    moment = 1_767_600_000
    for path in (server.write("Notes/x/a.md", "# A\n#tag"), server.write("b.txt", "b")):
        os.utime(path, (moment, moment))
    run(server.folder / "Notes")
    run(server.folder / "b.txt", connection=connection("Documents").connection_id)
    before = records("documents")

    report = run_sync(connect(server, connection_id=connection("Documents").connection_id))

    assert records("documents") == before
    assert len(before) == 2
    assert (report.created, report.updated, report.unchanged, report.files) == (0, 0, 2, 0)


@pytest.mark.slow
@pytest.mark.parametrize("is_mirror", [False, True])
def test_deleted_files_stay_unless_the_owner_chose_mirroring(
    server: WebdavServer, *, is_mirror: bool
) -> None:
    server.write("Notes/a.txt", "a")
    server.write("Notes/b.txt", "b")
    pk = connect(server, is_mirror=is_mirror)
    run_sync(pk)
    (server.folder / "Notes/a.txt").rename(server.folder / "Notes/c.txt")

    run_sync(pk)
    run_sync(pk)

    gone = [] if is_mirror else ["Notes/a.txt"]
    assert paths() == [*gone, "Notes/b.txt", "Notes/c.txt"]


@pytest.mark.slow
def test_missing_folder_is_named_and_the_others_are_read(server: WebdavServer) -> None:
    server.write("Notes/a.txt", "a")
    server.write("Work/b.txt", "b")
    pk = connect(server, is_mirror=True)
    run_sync(pk)
    (server.folder / "Notes").rename(server.folder / "Renamed")
    server.write("Work/c.txt", "c")

    run_sync(pk)
    run_sync(pk)

    assert paths() == ["Notes/a.txt", "Work/b.txt", "Work/c.txt"]
    problem = account_of(pk).problem
    assert problem is not None
    assert (problem["code"], problem["detail"]) == (ProblemCode.CONTAINER_MISSING, "Notes")


@pytest.mark.slow
def test_wrong_password_is_refused_at_once_and_later(server: WebdavServer) -> None:
    with pytest.raises(SourceError) as raised:
        connect_details(details(server, password="wrong"))
    pk = connect(server)
    set_credential(pk, {"password": "wrong"}, now=timezone.now())
    run_sync(pk)

    problem = account_of(pk).problem
    assert problem is not None
    assert raised.value.code == problem["code"] == ProblemCode.PASSWORD_REFUSED


@pytest.mark.slow
def test_server_that_asks_for_digest_gets_no_password_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with webdav_server(tmp_path, is_digest=True) as server:
        monkeypatch.setenv("SSL_CERT_FILE", str(server.authority))
        server.write("Notes/garden/a b ü#?.md", "# Beans")
        server.write("Notes/[b]'$&+.txt", "b")
        pk = connect(server)
        server.schemes.clear()

        report = run_sync(pk)

        assert report.is_complete
        assert paths() == ["Notes/[b]'$&+.txt", "Notes/garden/a b ü#?.md"]
        assert server.schemes[0] == "Basic"
        assert {*server.schemes[1:]} == {"Digest"}
        with pytest.raises(SourceError) as raised:
            connect_details(details(server, password="wrong"))
        assert raised.value.code is ProblemCode.PASSWORD_REFUSED


@pytest.mark.slow
def test_large_file_is_left_out_with_a_note(server: WebdavServer) -> None:
    with server.write("Notes/a.txt", "").open("wb") as file:
        file.truncate(70 * 1024 * 1024)
    server.write("Notes/b.txt", "b")

    report = run_sync(connect(server))

    assert paths() == ["Notes/b.txt"]
    assert report.notes == ["Notes/a.txt: The item is too large."]
    assert not [path for method, path in server.requests if method == "GET" and "a.txt" in path]


LISTING = """<?xml version="1.0"?>{head}<d:multistatus xmlns:d="DAV:" xmlns:oc="http://owncloud.org/ns">
{responses}</d:multistatus>"""
FOLDER = """<d:response><d:href>{href}</d:href><d:propstat><d:prop><d:resourcetype><d:collection/>
</d:resourcetype><d:getetag>"{etag}"</d:getetag><oc:id>1</oc:id></d:prop><d:status>HTTP/1.1 200 OK</d:status>
</d:propstat></d:response>"""


def listing(*hrefs: str, etag: str = "1", head: str = "") -> bytes:
    responses = "".join(FOLDER.format(href=href, etag=etag) for href in hrefs)
    return LISTING.format(head=head, responses=responses).encode()


@pytest.mark.slow
def test_unchanged_folder_of_nextcloud_costs_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    with https_server() as server:
        monkeypatch.setenv("SSL_CERT_FILE", str(server.authority))
        server.pages = {
            "/dav/": (207, {}, listing("/dav/", "/dav/Notes/")),
            "/dav/Notes/": (207, {}, listing("/dav/Notes/")),
        }
        pk = connect_details(details_of("webdav", url=server.url("/dav"), user="i", password="p"))
        run_sync(pk)
        server.requests.clear()
        run_sync(pk)

    assert [(method, path) for method, path, _ in server.requests] == [("PROPFIND", "/dav/")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "code"),
    [
        (listing("https://evil.example/dav/Notes/"), ProblemCode.MOVED),
        (listing("/dav/Notes/", head='<!DOCTYPE a [<!ENTITY b "c">]>'), ProblemCode.WRONG_CONTENT),
        (b"<html>", ProblemCode.WRONG_CONTENT),
        (b"<a>" * 1_000_000, ProblemCode.WRONG_CONTENT),
    ],
)
def test_hostile_listing_is_refused(
    monkeypatch: pytest.MonkeyPatch, body: bytes, code: ProblemCode
) -> None:
    with https_server() as server:
        monkeypatch.setenv("SSL_CERT_FILE", str(server.authority))
        server.pages = {"/dav/": (207, {}, body)}
        with pytest.raises(SourceError) as raised:
            connect_details(details_of("webdav", url=server.url("/dav"), user="i", password="p"))

    assert raised.value.code is code


@pytest.mark.slow
def test_listing_names_nothing_outside_of_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    with https_server() as server:
        monkeypatch.setenv("SSL_CERT_FILE", str(server.authority))
        hrefs = ("/dav/Notes/", "/dav/../etc/", "/other/", "/dav/Notes/%2e%2e/x/", "/dav/")
        server.pages = {"/dav/": (207, {}, listing(*hrefs))}
        server.pages["/dav/Notes/"] = (207, {}, listing("/dav/", "/dav/Notes/", "/dav/Notes/../"))
        pk = connect_details(details_of("webdav", url=server.url("/dav"), user="i", password="p"))
        run_sync(pk)

    assert account_of(pk).settings["containers"] == ["/", "Notes"]
    assert {path for _, path, _ in server.requests} == {"/dav/", "/dav/Notes/"}


@pytest.mark.slow
@pytest.mark.subprocess
class TestWebdav(SourceTests):
    source_name = "webdav"

    @pytest.fixture(autouse=True)
    def _served(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        with webdav_server(tmp_path) as server:
            monkeypatch.setenv("SSL_CERT_FILE", str(server.authority))
            for number in range(60):
                server.write(f"Notes/{number}.txt", f"note {number}")
            server.write("Work/a.md", "# A")
            self.server: WebdavServer = server
            yield

    @contextmanager
    def entered(self) -> Iterator[Mapping[str, str]]:
        yield {
            "url": self.server.url(),
            "user": USER,
            "password": PASSWORD,
        }


del SourceTests
