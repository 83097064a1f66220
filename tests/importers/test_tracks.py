"""GPX files."""

from pathlib import Path

import gpxpy
import pytest
from gpxpy.gpx import GPX, GPXRoute, GPXRoutePoint

from importers.authoring.test_kit import ImporterTests
from tests.importers.imports import TORTURE, latest, one, receipts, records, run


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


@pytest.mark.subprocess
class TestGpx(ImporterTests):
    importer_name = "gpx"
    export = TORTURE / "track.gpx"


del ImporterTests


@pytest.mark.django_db
def test_route_has_its_distance(tmp_path: Path) -> None:
    written = GPX()
    written.routes.append(GPXRoute(name="Plan"))
    written.routes[0].points = [GPXRoutePoint(52.5, 13.4), GPXRoutePoint(52.51, 13.4)]
    (tmp_path / "plan.gpx").write_text(written.to_xml())

    run(tmp_path / "plan.gpx")

    assert one("visits", name="Plan")["distance_m"] == pytest.approx(1_113, abs=2)
