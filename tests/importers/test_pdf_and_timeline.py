"""PDF forms and locked PDF files, and the timeline of an iPhone."""

import io
import json
from pathlib import Path

import pytest
from pypdf import PdfWriter
from pypdf.generic import ArrayObject, DictionaryObject, NameObject, TextStringObject

from importers.core import text_recognition
from importers.models import ImportReceipt
from tests.importers.imports import one, receipts, records, run

pytestmark = pytest.mark.django_db


def pdf(path: Path, *, value: str = "", password: str | None = None) -> Path:
    writer = PdfWriter()
    page = writer.add_blank_page(200, 200)
    if value:
        field = DictionaryObject(
            {
                NameObject("/FT"): NameObject("/Tx"),
                NameObject("/T"): TextStringObject("Landlord"),
                NameObject("/V"): TextStringObject(value),
                NameObject("/Subtype"): NameObject("/Widget"),
            }
        )
        reference = writer._add_object(field)
        page[NameObject("/Annots")] = ArrayObject([reference])
        writer._root_object[NameObject("/AcroForm")] = DictionaryObject(
            {NameObject("/Fields"): ArrayObject([reference])}
        )
    if password is not None:
        writer.encrypt(password, owner_password="owner", algorithm="AES-256")
    content = io.BytesIO()
    writer.write(content)
    path.write_bytes(content.getvalue())
    return path


@pytest.mark.parametrize("password", [None, ""])
def test_form_values_are_read(tmp_path: Path, password: str | None) -> None:
    run(pdf(tmp_path / "a.pdf", value="Eva Müller", password=password))

    assert records("documents")[0]["text"] == "Landlord: Eva Müller"


def test_locked_files_are_distinguished_from_scans(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pdf(tmp_path / "in" / "locked.pdf", value="secret", password="1234")
    pdf(tmp_path / "in" / "scan.pdf")

    run(tmp_path / "in")

    code = "no_text" if text_recognition.is_installed() else "needs_ocr"
    assert receipts() == {("locked", "locked.pdf"), (code, "scan.pdf")}
    assert [record["text"] for record in records("documents")] == [None, None]


TIMELINE = [
    {
        "endTime": "2026-01-05T09:30:00.000+01:00",
        "startTime": "2026-01-05T08:30:00.000+01:00",
        "visit": {
            "hierarchyLevel": "0",
            "topCandidate": {
                "probability": "0.816",
                "semanticType": "Home",
                "placeLocation": "geo:52.520008,13.404954",
            },
            "probability": "0.97",
        },
    },
    {
        "startTime": "2026-01-05T09:30:00.000+01:00",
        "endTime": "2026-01-05T10:00:00.000+01:00",
        "activity": {
            "start": "geo:52.520008,13.404954",
            "end": "geo:-33.5,1.5e1",
            "distanceMeters": "1234.5",
            "topCandidate": {"type": "cycling", "probability": "0.0"},
        },
    },
    {
        "startTime": "2026-01-05T10:00:00.000+01:00",
        "timelinePath": [{"point": "geo:1,2", "durationMinutesOffsetFromStartTime": "4"}],
    },
]


@pytest.mark.parametrize("indent", [None, 2])
def test_timeline_of_an_iphone_is_imported(tmp_path: Path, indent: int | None) -> None:
    path = tmp_path / "location-history.json"
    path.write_text(json.dumps(TIMELINE, indent=indent))

    run(path)

    home, ride = one("visits", kind="visit"), one("visits", kind="cycling")
    assert (home["latitude"], home["longitude"], home["confidence"]) == (
        52.520008,
        13.404954,
        0.816,
    )
    assert (ride["distance_m"], ride["end_latitude"], ride["end_longitude"]) == (
        1234.5,
        -33.5,
        15.0,
    )
    assert receipts() == {("not_supported", "location-history.json")}


@pytest.mark.parametrize(
    ("fields", "impossible"),
    [
        ({"latitudeE7": 910000000, "longitudeE7": 134000000}, "latitude"),
        ({"latitudeE7": 525000000, "longitudeE7": 1900000000}, "longitude"),
        ({"latitudeE7": "north", "longitudeE7": 134000000}, "latitude"),
    ],
)
def test_impossible_coordinates_have_a_receipt(
    tmp_path: Path, fields: dict[str, object], impossible: str
) -> None:
    good = {"timestamp": "2026-01-05T09:30:00Z", "latitudeE7": 525000000, "longitudeE7": 134000000}
    path = tmp_path / "Records.json"
    path.write_text(json.dumps({"locations": [good, good | fields]}))

    run(path)

    assert receipts() == {("bad_coordinates", "item 2")}
    assert ImportReceipt.unscoped.get().detail == impossible
    assert one("points", **{impossible: None})
    assert len(records("points")) == 2


def test_raw_signals_of_a_timeline_are_positions_or_have_a_receipt(tmp_path: Path) -> None:
    position = {
        "LatLng": "52.5°, 13.4°", "accuracyMeters": 12, "source": "WIFI",
        "timestamp": "2026-01-05T09:00:00.000+01:00",
    }  # fmt: skip
    signals = [{"position": position}, {"wifiScan": {}}, {"wifiScan": {}}, {"activityRecord": {}}]
    path = tmp_path / "Timeline.json"
    path.write_text(json.dumps({"semanticSegments": TIMELINE[:1], "rawSignals": signals}))

    run(path)

    point = one("points", source="WIFI")
    assert (point["latitude"], point["longitude"], point["accuracy_m"]) == (52.5, 13.4, 12)
    assert ImportReceipt.unscoped.get().detail == "rawSignals: 2 wifiScan, 1 activityRecord"
