"""Read moments, which are dates with a time and a known zone, and give them in UTC."""

import re
import unicodedata
from datetime import UTC, datetime, time, timedelta, timezone, tzinfo

from importers.core.dates import parse_date, unix_to_iso
from importers.core.results import ParsedItem, ReceiptCode

_CLOCK = re.compile(
    r"(?P<before>[^\W\d]{2}\s+)?(?<!\d)(?P<hour>\d{1,2})[:.](?P<minute>\d{2})(?:[:.](?P<second>\d{2}))?"
    r"(?:\s?(?P<after>[ap]\.?\s?m\.?))?(?P<zone>(?:\s+\(?\S{1,12}\)?)?)\s*$",
    re.IGNORECASE,
)
_AFTERNOON = {"pm", "오후", "下午", "午後"}
_MORNING = {"am", "오전", "上午", "午前"}
_OFFSET = re.compile(r"(?:GMT|UTC|Z)?([+-])(\d{1,2})(?::?(\d{2}))?")
_WEEKDAY = re.compile(r"^[^\W\d]{2,15}\.?,\s+")
_JOINERS = re.compile(
    r"(?:,|\s(?:at|um|à|a las|alle|om|às|kl\.?|\u043e|\u0433\.?))+\s*$", re.IGNORECASE
)
_YEAR_LAST_NUMERIC = re.compile(r"\d{1,2}\s*[/-]\s*\d{1,2}\s*[/-]\s*\d{2,4}")
_ZONES = {
    "UTC": 0, "GMT": 0, "Z": 0, "WET": 0, "WEST": 1, "CET": 1, "CEST": 2, "MEZ": 1, "MESZ": 2, "EET": 2,
    "EEST": 3, "OEZ": 2, "OESZ": 3, "MSK": 3, "PST": -8, "PDT": -7, "MST": -7, "MDT": -6, "EST": -5,
    "EDT": -4, "AKST": -9, "AKDT": -8, "HST": -10, "NZST": 12, "NZDT": 13, "AEST": 10, "AEDT": 11,
    "ACST": 9.5, "ACDT": 10.5, "AWST": 8, "JST": 9, "KST": 9, "SGT": 8, "HKT": 8, "BRT": -3, "SAST": 2,
    "PKT": 5, "WIB": 7,
}  # fmt: skip
"""Offsets in hours of names that only one zone has. BST, IST, CST and AST have several."""


def to_utc(value: object) -> str | None:
    """Return an ISO 8601 time in UTC, or None for any value without a zone."""
    if not isinstance(value, str) or len(value) > 40:
        return None
    try:
        moment = datetime.fromisoformat(value.strip().removesuffix(" UTC") + _utc_suffix(value))
        return _iso(moment) if moment.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def _utc_suffix(value: str) -> str:
    return "+00:00" if value.strip().endswith(" UTC") else ""


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def unix_to_utc(value: object, *, per_second: int = 1) -> str | None:
    """Return a Unix time in UTC. Zero, which exports write for a missing time, becomes None."""
    try:
        number = int(str(value))
    except ValueError:
        return None
    seconds, rest = divmod(number, per_second)
    text = unix_to_iso(seconds) if number > 0 else None
    if text is None or not rest:
        return text
    digits = len(str(per_second)) - 1
    return f"{text[:-1]}.{rest:0{digits}}Z"


def local_to_utc(moment: datetime, zone: tzinfo) -> str | None:
    """Return a time without a zone, read in this zone."""
    try:
        return _iso(moment.replace(tzinfo=moment.tzinfo or zone))
    except (ValueError, OverflowError):
        return None


def require_moment(moment: str | None, item: ParsedItem, *, written: object) -> str | None:
    """Return the moment; a missing one has a receipt that quotes what was written."""
    if moment is None:
        item.add_issue(ReceiptCode.BAD_DATE, detail=str(written)[:40])
    return moment


def parse_written_moment(text: str, zone: tzinfo, item: ParsedItem) -> str | None:
    """Return the moment of a text such as ``Mar 3, 2026, 6:25:05 AM PDT``.

    Names of months may be in some twenty languages. A zone that is missing, or whose name several
    zones have, is the one of the import, with a receipt. A date whose order of day and month is
    unknown has a receipt only.
    """
    text = " ".join(unicodedata.normalize("NFKC", text).split())
    clock = _CLOCK.search(text)
    moment = _local_moment(text, clock) if clock else None
    if clock is None or moment is None:
        return require_moment(None, item, written=text)
    name = clock["zone"].strip(" ()")
    offset = zone_offset(name)
    if offset is None and not (own := _own_offset(name, moment, zone)):
        item.add_issue(ReceiptCode.UNKNOWN_TIME_ZONE, detail=name[:40] or "none is written")
    elif offset is None:
        offset = own
    return require_moment(
        local_to_utc(moment, zone if offset is None else offset), item, written=text
    )


def parse_local_moment(text: str, zone: tzinfo) -> str | None:
    """Return the moment of a written time, in this zone if it names none that is known."""
    text = " ".join(unicodedata.normalize("NFKC", text).split())
    clock = _CLOCK.search(text)
    moment = _local_moment(text, clock) if clock else None
    if clock is None or moment is None:
        return None
    return local_to_utc(moment, zone_offset(clock["zone"].strip(" ()")) or zone)


def _local_moment(text: str, clock: re.Match[str]) -> datetime | None:
    marker = re.sub(r"[.\s]", "", clock["after"] or clock["before"] or "").lower()
    date_text = text[: clock.start() if marker and not clock["after"] else clock.start("hour")]
    date_text = _JOINERS.sub("", _WEEKDAY.sub("", date_text).strip()).strip(" ,")
    if _YEAR_LAST_NUMERIC.fullmatch(date_text):
        return None
    day = parse_date(date_text, "dmy")
    hour = int(clock["hour"])
    if marker in _AFTERNOON or marker in _MORNING:
        hour = hour % 12 + (12 if marker in _AFTERNOON else 0)
    if day is None:
        return None
    try:
        clock_time = time(hour, int(clock["minute"]), int(clock["second"] or 0))
        return datetime.combine(day, clock_time)
    except ValueError:
        return None


def zone_offset(name: str) -> timezone | None:
    """Return the offset of a name such as CET, GMT+1 or +01:00, or None for an unknown name."""
    if (hours := _ZONES.get(name.upper())) is not None:
        return timezone(timedelta(hours=hours))
    if match := _OFFSET.fullmatch(name):
        minutes = int(match[2]) * 60 + int(match[3] or 0)
        return timezone(timedelta(minutes=-minutes if match[1] == "-" else minutes)) if minutes < 1440 else None  # fmt: skip
    return None


def _own_offset(name: str, moment: datetime, zone: tzinfo) -> timezone | None:
    """Return the offset that this name means in the zone of the import.

    Takeout names the offset at the time of the export, also for days with another one.
    """
    for month in (1, 7):
        local = moment.replace(month=month, day=1, tzinfo=zone)
        if local.tzname() == name and (offset := local.utcoffset()) is not None:
            return timezone(offset)
    return None
