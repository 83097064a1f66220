"""Apple Health measurements, workouts and duplicates."""

from pathlib import Path

import pytest

from importers.authoring.test_kit import ImporterTests
from tests.importers.imports import TORTURE, latest, one, read_all, receipts, records, run
from tests.importers.test_malicious_exports import (
    STEPS,
    memory_limit,
    put,
)
from tests.importers.test_malicious_exports import (
    _importers_are_loaded as _importers_are_loaded,
)

pytestmark = pytest.mark.django_db
EXPORT = TORTURE / "apple_health_export"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "code"),
    [
        ("<!DOCTYPE[" * 20_000, "damaged"),
        (STEPS.replace("My", "Watch" * 10_000).replace(" end", f" {'x' * 50_000}='' end").replace("7", "8"), None),
        (f'<Record value="{"x" * 2_000_000}', "too_large"),
        ("<Record>" + "<a/>" * 600_000, "too_large"),
        ("<a>" * 200, "malformed"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("_importers_are_loaded")
def test_malicious_health_export_uses_bounded_memory(
    tmp_path: Path, more: str, code: str | None
) -> None:
    path = put(tmp_path / "export.xml", f"<HealthData>\n{STEPS}\n{more}</HealthData>")

    with memory_limit(12_500_000):
        read_all(path)
    run(path)

    assert one("measurements", value=7)
    assert {code for code, _ in receipts()} == ({code} if code else set())


def test_measurements_have_value_unit_and_time() -> None:
    run(EXPORT)

    pulse = one("measurements", kind="HeartRate")
    assert (pulse["value"], pulse["unit"]) == (72.5, "count/min")
    assert pulse["started_at"] == "2026-01-05T08:05:00+01:00"
    assert one("measurements", kind="SleepAnalysis")["text_value"] == "SleepAnalysisInBed"
    assert one("measurements", source="Ida’s Apple Watch")["device"] == "Apple Watch"  # noqa: RUF001


def test_steps_also_counted_by_watch_are_marked_as_duplicates() -> None:
    run(EXPORT)

    steps = {record["value"]: record["is_double"] for record in records("measurements")
             if record["kind"] == "StepCount"}  # fmt: skip
    assert steps == {900.0: True, 100.0: False, 950.0: False}
    # The export contains the record of the watch twice.
    assert latest().doubles == 1


def test_workouts_have_totals_and_invalid_records_receipts() -> None:
    run(EXPORT)

    running, cycling = one("workouts", sport="Running"), one("workouts", sport="Cycling")
    assert (running["distance"], running["energy"], running["duration_minutes"]) == (5.2, 340, 31.5)
    assert (cycling["distance"], cycling["duration_minutes"]) == (20, 60)
    assert one("measurements", kind="BodyMass")["started_at"] is None
    assert receipts() == {("bad_date", "line 20"), ("no_identity", "line 21")}


def test_xml_entities_are_not_expanded(tmp_path: Path) -> None:
    record = '<Record type="HKQuantityTypeIdentifierHeight" value="1.7"/>'
    (tmp_path / "export.xml").write_text(
        '<!DOCTYPE HealthData [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>\n'
        f"<HealthData>\n{record}\n<Record type='&b;' value='2'/>\n</HealthData>"
    )

    run(tmp_path)

    assert [record["value"] for record in records("measurements")] == [1.7]
    assert ("damaged", "export.xml") in receipts()


@pytest.mark.subprocess
class TestHealth(ImporterTests):
    importer_name = "apple-health"
    export = EXPORT


del ImporterTests
