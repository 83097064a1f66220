"""`pdpp-importer new` writes a package that passes the tests which every importer passes, as ours do."""

import subprocess
import sys
from pathlib import Path

import pytest

from importers.authoring.__main__ import main
from importers.authoring.test_kit import ImporterTests
from importers.registry import OWN_FOLDER
from tests.importers.imports import TORTURE

pytestmark = pytest.mark.subprocess


@pytest.mark.slow
def test_new_package_passes_its_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", "mood-diary"]) == 0
    folder = tmp_path / "pdpp-importer-mood-diary"
    information = folder / "pdpp_importer_mood_diary-0.1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Name: pdpp-importer-mood-diary\nVersion: 0.1.0\n")
    (information / "entry_points.txt").write_text(
        "[pdpp.importers]\nmood-diary = pdpp_mood_diary\n"
    )

    outcome = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"],
        cwd=folder,
        env={"PYTHONPATH": f"{OWN_FOLDER.parent}:{folder}", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )

    assert "9 passed" in outcome.stdout, outcome.stdout


@pytest.mark.parametrize("name", ["Mood", "../mood", "", "a" * 41, "mood\n"])
def test_wrong_names_are_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(SystemExit):
        main(["new", name])

    assert list(tmp_path.iterdir()) == []


class TestChatGpt(ImporterTests):
    importer_name = "chatgpt"
    export = TORTURE / "chatgpt"


class TestClaude(ImporterTests):
    importer_name = "claude"
    export = TORTURE / "claude"


class TestSlack(ImporterTests):
    importer_name = "slack"
    export = TORTURE / "slack"


class TestTelegram(ImporterTests):
    importer_name = "telegram"
    export = TORTURE / "telegram"


class TestWhatsapp(ImporterTests):
    importer_name = "whatsapp"
    export = TORTURE / "whatsapp"


class TestPlaces(ImporterTests):
    importer_name = "places"
    export = TORTURE / "places"


class TestMaildir(ImporterTests):
    importer_name = "maildir"
    export = TORTURE / "Maildir"


class TestMbox(ImporterTests):
    importer_name = "mbox"
    export = TORTURE / "mail.mbox"


class TestEml(ImporterTests):
    importer_name = "eml"
    export = TORTURE / "eml"


class TestCalendar(ImporterTests):
    importer_name = "icalendar"
    export = TORTURE / "calendar.ics"


class TestContacts(ImporterTests):
    importer_name = "vcard"
    export = TORTURE / "contacts.vcf"


class TestOfx(ImporterTests):
    importer_name = "ofx"
    export = TORTURE / "bank.ofx"


class TestCamt(ImporterTests):
    importer_name = "camt"
    export = TORTURE / "camt.xml"


class TestMt940(ImporterTests):
    importer_name = "mt940"
    export = TORTURE / "statement.sta"


class TestQif(ImporterTests):
    importer_name = "qif"
    export = TORTURE / "bank.qif"


class TestCsv(ImporterTests):
    importer_name = "csv"
    export = TORTURE.parent / "corpus/bank/sparkasse/20260131-532013000-umsatz.CSV"
