"""Keep, YouTube and My Activity of Google Takeout."""

from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from importers.authoring.test_kit import read_export
from importers.core.importer import Options
from tests.importers.imports import latest, receipts, records, run
from tests.importers.torture_kit import GeneratedExportTests, issue_codes
from tests.importers.year_of_takeout import write_json, write_takeout


class TestKeep(GeneratedExportTests):
    importer_name = "google-keep"
    writer = staticmethod(write_takeout)


class TestGoogleActivity(GeneratedExportTests):
    importer_name = "google-activity"
    writer = staticmethod(write_takeout)


@pytest.mark.slow
@pytest.mark.django_db
def test_year_is_imported_as_it_was(tmp_path: Path) -> None:
    truth = write_takeout(tmp_path / "year", days=365)

    run(tmp_path / "year")

    notes = {record["title"] for record in records("documents") if "parent_id" not in record}
    assert notes == truth.notes
    activities = [record for record in records("activities") if record["kind"] != "commented"]
    assert {record["url"]: record["at"][:19] for record in activities} == truth.activities
    assert {record["kind"] for record in activities} == {"watched", "searched"}
    comments = {r["text"] for r in records("activities") if r["kind"] == "commented"}
    assert comments == truth.comments
    assert {record["name"] for record in records("subscriptions")} == truth.subscriptions
    assert {code for code, _ in receipts()} == {"needs_extra"}
    run(tmp_path / "year")
    assert (latest().created, latest().updated) == (0, 0)


PAGE = """<html><head><style>.mdl-grid {{}}</style></head><body><div class="mdl-grid">{}</div></body></html>"""
CELL = """<div class="outer-cell mdl-cell mdl-cell--12-col mdl-shadow--2dp"><div class="mdl-grid">
<div class="header-cell mdl-cell mdl-cell--12-col"><p class="mdl-typography--title">{header}<br></p></div>
<div class="content-cell mdl-cell mdl-cell--6-col mdl-typography--body-1">{body}</div>
<div class="content-cell mdl-cell mdl-cell--6-col mdl-typography--body-1 mdl-typography--text-right"></div>
<div class="content-cell mdl-cell mdl-cell--12-col mdl-typography--caption"><b>Products:</b><br>&emsp;{header}<br>
</div></div></div>"""


def activity_page(folder: Path, *bodies: str) -> Path:
    folder.mkdir(exist_ok=True)
    cells = "".join(CELL.format(header="YouTube", body=body) for body in bodies)
    (folder / "MyActivity.html").write_text(PAGE.format(cells), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("written", "moment"),
    [
        ("Mar 3, 2026, 6:25:05\u202fAM PDT", "2026-03-03T13:25:05Z"),
        ("3 Mar 2026, 06:25:05 GMT+05:30", "2026-03-03T00:55:05Z"),
        ("03.03.2026, 18:25:05 MEZ", "2026-03-03T17:25:05Z"),
        ("3 mars 2026, 18:25:05 CET", "2026-03-03T17:25:05Z"),
        ("3 de mar. de 2026, 18:25:05 BRT", "2026-03-03T21:25:05Z"),
        ("2026. 3. 3. 오후 6:25:05 KST", "2026-03-03T09:25:05Z"),
        ("2026/03/03 18:25:05 JST", "2026-03-03T09:25:05Z"),
        ("2026年3月3日 18:25:05 GMT+08:00", "2026-03-03T10:25:05Z"),
    ],
)
def test_times_of_pages_have_the_zone_that_is_written(
    written: str, moment: str, tmp_path: Path
) -> None:
    link = '<a href="https://www.youtube.com/watch?v=a&amp;t=1">A &lt;b&gt; film</a>'
    export = activity_page(
        tmp_path / "page", f"Watched {link}<br><a href='x'>Kanal</a><br>{written}<br>"
    )

    result = read_export("google-activity", export)

    (record,) = result.records
    assert (record["at"], record["title"], record["by"]) == (moment, "A <b> film", "Kanal")
    assert (record["kind"], record["service"]) == ("watched", "YouTube")
    assert result.issues == []


@pytest.mark.parametrize(
    ("written", "code", "moment"),
    [
        ("Mar 3, 2026, 6:25:05 AM", "unknown_time_zone", "2026-03-03T05:25:05Z"),
        ("Mar 3, 2026, 6:25:05 AM IST", "unknown_time_zone", "2026-03-03T05:25:05Z"),
        ("3/4/2026, 6:25:05 AM UTC", "bad_date", None),
        ("Feb 30, 2026, 6:25:05 AM UTC", "bad_date", None),
    ],
)
def test_times_in_doubt_have_receipts(
    written: str, code: str, moment: str | None, tmp_path: Path
) -> None:
    export = activity_page(tmp_path / "page", f"Used Maps<br>{written}<br>")

    result = read_export("google-activity", export, Options(zone=ZoneInfo("Europe/Berlin")))

    assert result.records[0]["at"] == moment
    assert issue_codes(result.issues) == {code}


def test_page_and_json_of_one_activity_are_one_record(tmp_path: Path) -> None:
    url = "https://www.youtube.com/watch?v=a"
    export = activity_page(
        tmp_path / "page", f'„<a href="{url}">Film</a>“ angesehen<br>03.03.2026, 18:25:05 MEZ<br>'
    )
    node = {"header": "YouTube", "title": "Watched Film", "titleUrl": url, "products": ["YouTube"]}
    write_json(export / "watch-history.json", [node | {"time": "2026-03-03T17:25:05.321Z"}])

    result = read_export("google-activity", export)

    assert len({record["id"] for record in result.records}) == 1
    assert [record["title"] for record in result.records] == ["Film", "Film"]


def test_equal_activities_of_one_second_are_numbered(tmp_path: Path) -> None:
    node = {
        "header": "Maps",
        "title": "Used Maps",
        "time": "2026-03-03T17:25:05Z",
        "products": ["Maps"],
    }
    write_json(tmp_path / "a" / "MyActivity.json", [node, node])
    write_json(tmp_path / "a" / "b" / "MyActivity.json", [node])

    result = read_export("google-activity", tmp_path / "a")

    assert len(result.records) == 3
    assert len({record["id"] for record in result.records}) == 2


def test_comment_segments_of_all_years_become_text(tmp_path: Path) -> None:
    table = tmp_path / "comments.csv"
    table.write_text(
        "Channel ID,Comment Create Timestamp,Price,Comment ID,Parent Comment ID,Video ID,Comment Text\n"
        'UC1,2023-04-14T07:39:35.956042+00:00,0,c1,,v1,"{""text"":""> buried""},{""text"":""\\n""},{""text"":""Veritasium""}"\n'
        'UC1,2023-04-14T07:39:35+00:00,0,c2,c1,v1,"{""takeoutSegments"":[{""text"":""see "",""link"":{""linkUrl"":""https://a.example""}}]}"\n'
        "UC1,2016-01-29T18:26:53,0,c3,,v2,plain words\n"
        "UC1,2016-01-29T18:26:53Z,0,c4,,v2,too,many\n"
    )

    result = read_export("google-activity", table)

    texts = [record["text"] for record in result.records]
    assert texts == ["> buried\nVeritasium", "see (https://a.example)", "plain words"]
    assert [record["at"] for record in result.records][2] is None
    assert issue_codes(result.issues) == {"bad_date", "malformed"}


def test_cut_page_has_its_whole_entries_and_a_receipt(tmp_path: Path) -> None:
    export = activity_page(tmp_path / "page", *["Used Maps<br>Mar 3, 2026, 6:25:05 AM UTC<br>"] * 3)
    page = export / "MyActivity.html"
    content = page.read_bytes()
    page.write_bytes(content[: content.rindex(b"Products")])

    result = read_export("google-activity", export)

    assert len(result.records) == 2
    assert issue_codes(result.issues) == {"damaged"}
