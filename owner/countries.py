"""Names of countries, and the country of a time zone, from the time zone database."""

from functools import cache
from importlib.resources import files


@cache
def country_names() -> dict[str, str]:
    """Return the names by code, such as AT, in the order of the names."""
    rows = _rows("iso3166.tab")
    return dict(sorted(((row[0], row[1]) for row in rows), key=lambda each: each[1]))


@cache
def _zones() -> dict[str, str]:
    return {row[2]: row[0] for row in _rows("zone.tab")}


def country_of(time_zone: str, language: str = "") -> str:
    """Return the country of a time zone, or else that of a language such as de-AT, or ""."""
    region = language.partition("-")[2].upper()
    return _zones().get(time_zone) or (region if region in country_names() else "")


def _rows(name: str) -> list[list[str]]:
    text = (files("tzdata.zoneinfo") / name).read_text("utf-8")
    return [line.split("\t") for line in text.splitlines() if not line.startswith("#")]
