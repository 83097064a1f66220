"""`pdpp-importer new NAME --source` writes a source that passes the tests of every source, as ours do."""

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from importers.authoring.__main__ import main
from importers.authoring.https_server import https_server
from importers.authoring.source_kit import Account, SourceTests
from importers.core.source import ProblemCode, SourceError
from importers.registry import OWN_FOLDER, OWN_PACKAGE, load_sources
from tests.importers import radicale_server
from tests.importers.dovecot import PASSWORD, Dovecot, message, messages, run_dovecot
from tests.importers.radicale_server import Radicale, run_radicale
from tests.importers.test_calendar_feed import calendar, event
from tests.importers.test_dav import card
from tests.importers.test_feeds import rss

pytestmark = [pytest.mark.slow, pytest.mark.subprocess]

DAV_USER = "ida0@mail.example"


@pytest.mark.slow
def test_new_package_passes_its_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", "mood-diary", "--source"]) == 0
    folder = tmp_path / "pdpp-source-mood-diary"
    information = folder / "pdpp_source_mood_diary-0.1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Name: pdpp-source-mood-diary\nVersion: 0.1.0\n")
    (information / "entry_points.txt").write_text("[pdpp.sources]\nmood-diary = pdpp_mood_diary\n")

    outcome = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"],
        cwd=folder,
        env={"PYTHONPATH": f"{OWN_FOLDER.parent}:{folder}", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )

    assert "10 passed" in outcome.stdout, outcome.stdout


class TestFeed(SourceTests):
    source_name = "feed"

    @contextmanager
    def entered(self) -> Iterator[Mapping[str, str]]:
        with https_server() as server, pytest.MonkeyPatch.context() as patched:
            patched.setenv("SSL_CERT_FILE", str(server.authority))
            server.pages = {"/feed?token=t-1234": (200, {}, rss(*range(250)))}
            yield {"url": server.url("/feed?token=t-1234")}


class TestIcs(SourceTests):
    source_name = "ics"

    @contextmanager
    def entered(self) -> Iterator[Mapping[str, str]]:
        body = calendar(*(event(f"e{number}", "Lunch") for number in range(3)))
        with https_server() as server, pytest.MonkeyPatch.context() as patched:
            patched.setenv("SSL_CERT_FILE", str(server.authority))
            server.pages = {"/a.ics?token=t-1234": (200, {}, body)}
            yield {"url": server.url("/a.ics?token=t-1234")}


class TestImap(SourceTests):
    source_name = "imap"

    @pytest.fixture(scope="class")
    @classmethod
    def dovecot(cls) -> Iterator[Dovecot]:
        with run_dovecot() as server:
            server.fill("ida@mail.example", messages(range(250)))
            server.append("ida@mail.example", message(300), folder="Archive")
            yield server

    @pytest.fixture(autouse=True)
    def _served(self, dovecot: Dovecot, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SSL_CERT_FILE", str(dovecot.authority))
        self.server = dovecot

    @contextmanager
    def entered(self) -> Iterator[Mapping[str, str]]:
        address = {"host": "localhost", "port": str(self.server.port)}
        yield {"user": "ida@mail.example", "password": PASSWORD, **address}


class DavTests:
    """Start a server with an account that has two events and two contacts."""

    @pytest.fixture(scope="class")
    @classmethod
    def radicale(cls) -> Iterator[Radicale]:
        with run_radicale(users=1) as server, pytest.MonkeyPatch.context() as patched:
            patched.setenv("SSL_CERT_FILE", str(server.authority))
            server.add_calendar(DAV_USER, "work", "Work")
            server.add_address_book(DAV_USER, "people", "People")
            for number in range(2):
                meeting = calendar(event(f"e{number}", "Lunch")).decode()
                server.put(DAV_USER, f"work/{number}.ics", meeting)
                server.put(DAV_USER, f"people/{number}.vcf", card(f"c{number}", "Bea"))
            yield server

    @pytest.fixture(autouse=True)
    def _served(self, radicale: Radicale, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SSL_CERT_FILE", str(radicale.authority))
        self.server = radicale

    @contextmanager
    def entered(self) -> Iterator[Mapping[str, str]]:
        yield {"user": DAV_USER, "password": radicale_server.PASSWORD, "url": self.server.url("/")}


class TestCaldav(DavTests, SourceTests):
    source_name = "caldav"


class TestCarddav(DavTests, SourceTests):
    source_name = "carddav"


def test_every_source_of_ours_passes_these_tests() -> None:
    tested = set(re.findall(r'source_name = "([a-z]+)"', Path(__file__).read_text()))
    assert tested == {each.name for each in load_sources(OWN_PACKAGE, OWN_FOLDER)}


def test_source_that_asks_for_another_host_fails_the_kit(tmp_path: Path) -> None:
    with https_server() as server, pytest.MonkeyPatch.context() as patched:
        patched.setenv("SSL_CERT_FILE", str(server.authority))
        server.pages = {"/feed": (200, {}, rss(1))}
        account = Account("feed", {"url": server.url("/feed")})
        account.settings["port"] = 443

        with pytest.raises(SourceError) as raised:
            account.run()

    assert raised.value.code is ProblemCode.SOURCE_FAILED
    assert account.connections == {("localhost", server.port)}
