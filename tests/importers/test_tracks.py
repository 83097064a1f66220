"""GPX and FIT files."""

from datetime import datetime, timedelta
from pathlib import Path

import gpxpy
import pytest
from gpxpy.gpx import GPX, GPXRoute, GPXRoutePoint, GPXTrack, GPXTrackPoint, GPXTrackSegment

from importers.authoring.test_kit import ImporterTests
from tests.importers.databases import FIT_EPOCH, fit
from tests.importers.imports import TORTURE, latest, one, receipts, records, run
from tests.importers.test_demo_year import parse_time

START = parse_time("2025-01-01T07:00:00Z")
AT = int(START.timestamp()) - FIT_EPOCH
FILE_ID = (0, [(0, "enum", 4), (1, "H", 1), (2, "H", 1551), (3, "I", 12345), (4, "I", AT)])


def session(at: int, *, sport: int = 1, seconds: float = 1_800, metres: float = 5_000) -> tuple:
    return (18, [(253, "I", at + int(seconds)), (2, "I", at), (5, "enum", sport),
                 (8, "I", int(seconds * 1_000)), (9, "I", int(metres * 100)), (11, "H", 321)])  # fmt: skip


def heartbeat(at: int, rate: int) -> tuple:
    return (20, [(253, "I", at), (3, "B", rate), (0, "i", 626_000_000), (1, "i", 160_000_000)])


@pytest.mark.django_db
def test_tracks_and_waypoints_of_gpx_are_imported() -> None:
    run(TORTURE / "track.gpx")

    journey = one("visits", name="Morning run")
    assert (journey["kind"], journey["started_at"]) == ("running", "2026-01-05T08:00:00Z")
    assert journey["ended_at"] == "2026-01-05T08:00:30.500000Z"
    with (TORTURE / "track.gpx").open() as file:
        assert journey["distance_m"] == round(gpxpy.parse(file).tracks[0].length_2d(), 1)
    assert one("visits", name="Gate <b>")["latitude"] == 52.5163
    assert one("visits", name="Plan")["end_longitude"] == 13.5
    assert one("visits", name="Nowhere")["longitude"] is None
    positions = [each for each in records("points") if each["recorded_at"] < "2026-01-06"]
    assert len(positions) == 3
    assert {each["source"] for each in positions} == {"StravaGPX"}
    assert receipts() >= {("bad_date", "track 1"), ("empty", "route 2"), ("empty", "track 2")}
    run(TORTURE / "track.gpx")
    assert (latest().created, latest().updated) == (0, 0)


@pytest.mark.slow
@pytest.mark.django_db
def test_year_of_tracks(tmp_path: Path) -> None:
    expected: list[tuple[datetime, float, float]] = []
    for day in range(0, 365, 7):
        written, track, segment = GPX(), GPXTrack(name=f"Day {day}"), GPXTrackSegment()
        for minute in range(20):
            at = START + timedelta(days=day, minutes=minute)
            expected.append((at, 52 + day / 1_000, 13 + minute / 1_000))
            segment.points.append(GPXTrackPoint(expected[-1][1], expected[-1][2], time=at))
        track.segments.append(segment)
        written.tracks.append(track)
        (tmp_path / f"{day}.gpx").write_text(written.to_xml())

    run(tmp_path)

    assert receipts() == set()
    assert len(records("visits")) == 53
    assert sorted(
        (parse_time(each["recorded_at"]), each["latitude"], each["longitude"])
        for each in records("points")
    ) == sorted(expected)


@pytest.mark.slow
@pytest.mark.django_db
def test_year_of_workouts(tmp_path: Path) -> None:
    expected = []
    for day in range(0, 365, 5):
        at = AT + day * 86_400
        rates = [(at + second * 10, 120 + (day + second) % 60) for second in range(30)]
        expected += rates
        content = fit([FILE_ID, *(heartbeat(*each) for each in rates), session(at)])
        (tmp_path / f"{day}.fit").write_bytes(content)

    run(tmp_path)

    assert receipts() == set()
    workouts = records("workouts")
    assert len(workouts) == 73
    facts = ("sport", "duration_minutes", "distance", "energy")
    assert {tuple(each[name] for name in facts) for each in workouts} == {
        ("running", 30.0, 5_000.0, 321.0)
    }
    assert all(each["device"].startswith("garmin ") for each in workouts)
    assert sorted(
        (int(parse_time(each["started_at"]).timestamp()) - FIT_EPOCH, int(each["value"]))
        for each in records("measurements")
        if each["kind"] == "HeartRate"
    ) == sorted(expected)
    run(tmp_path)
    assert (latest().created, latest().updated) == (0, 0)


@pytest.mark.django_db
def test_damaged_and_other_fit_files_have_receipts(tmp_path: Path) -> None:
    whole = fit([FILE_ID, heartbeat(AT, 120), session(AT), heartbeat(AT + 1, 121)])
    (tmp_path / "cut.fit").write_bytes(whole[:-20])
    (tmp_path / "wrong.fit").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    (tmp_path / "settings.fit").write_bytes(fit([FILE_ID]))

    run(tmp_path)

    assert {
        ("damaged", "cut.fit"),
        ("damaged", "wrong.fit"),
        ("not_supported", "settings.fit"),
    } == (receipts())
    assert len(records("workouts")) == 1


@pytest.mark.subprocess
class TestGpx(ImporterTests):
    importer_name = "gpx"
    export = TORTURE / "track.gpx"


@pytest.mark.subprocess
class TestFit(ImporterTests):
    importer_name = "fit"

    @pytest.fixture(autouse=True)
    def _export(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        self.export = tmp_path_factory.mktemp("export") / "run.fit"
        beats = [heartbeat(AT + second, 120 + second % 9) for second in range(60)]
        self.export.write_bytes(fit([FILE_ID, *beats, session(AT), session(AT + 9, sport=2)]))


del ImporterTests


@pytest.mark.django_db
def test_route_has_its_distance(tmp_path: Path) -> None:
    written = GPX()
    written.routes.append(GPXRoute(name="Plan"))
    written.routes[0].points = [GPXRoutePoint(52.5, 13.4), GPXRoutePoint(52.51, 13.4)]
    (tmp_path / "plan.gpx").write_text(written.to_xml())

    run(tmp_path / "plan.gpx")

    assert one("visits", name="Plan")["distance_m"] == pytest.approx(1_113, abs=2)
