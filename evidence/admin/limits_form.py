"""Limits of how much is read through a grant: a number, or nothing, for each measure and period."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.conf import settings
from django.forms.boundfield import BoundField

from evidence.access.describing import joined
from evidence.access.limiting import Limits
from evidence.access.scope import Used

PERIODS = ("minute", "hour", "day")
_A = {"minute": "a minute", "hour": "an hour", "day": "a day"}
UNITS = {"calls": ("Calls", 1), "records": ("Records", 1), "bytes": ("Kilobytes", 1_000)}
"""What the owner calls a measure, and how much of it one is."""
MOST = 10**12


@dataclass(frozen=True, slots=True)
class Row:
    label: str
    boxes: list[BoundField]


def _name(measure: str, period: str) -> str:
    return f"most_{measure}_{period}"


def _box(measure: str, period: str) -> forms.IntegerField:
    return forms.IntegerField(
        required=False,
        min_value=1,
        max_value=MOST,
        label=f"{UNITS[measure][0]} {_A[period]}",
        widget=forms.NumberInput(
            attrs={
                "aria-label": f"{UNITS[measure][0]} {_A[period]}",
                "placeholder": "no limit",
                "class": "limit",
            }
        ),
    )


class LimitsForm(forms.Form):
    """Nine numbers, each of which may be left out."""

    most_calls_minute, most_calls_hour, most_calls_day = (_box("calls", each) for each in PERIODS)
    most_records_minute, most_records_hour, most_records_day = (
        _box("records", each) for each in PERIODS
    )
    most_bytes_minute, most_bytes_hour, most_bytes_day = (_box("bytes", each) for each in PERIODS)

    share = forms.IntegerField(
        required=False,
        min_value=0,
        max_value=100,
        label="Percent of a stream after which it is paused by itself",
        widget=forms.NumberInput(attrs={"class": "limit"}),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["share"].widget.attrs["placeholder"] = str(settings.PDPP_TRIPWIRE_SHARE)
        self.fields["share"].help_text = (
            f"Counted over {settings.PDPP_TRIPWIRE_HOURS} hours, in streams from"
            f" {settings.PDPP_TRIPWIRE_RECORDS:,} records on; 0 for never. Left empty it is"
            f" {settings.PDPP_TRIPWIRE_SHARE}, as for all."
        )

    @property
    def limit_rows(self) -> list[Row]:
        return [
            Row(label, [self[_name(measure, period)] for period in PERIODS])
            for measure, (label, _) in UNITS.items()
        ]

    @property
    def has_limits(self) -> bool:
        boxes = [self["share"], *(box for row in self.limit_rows for box in row.boxes)]
        return any(box.value() or box.errors for box in boxes)

    @property
    def limits(self) -> Limits:
        """What the owner has filled in, once it is valid."""
        return dict(self._filled_in())

    @property
    def limits_in_words(self) -> str:
        return joined([_worded(*key, most) for key, most in self.limits.items()] or ["no limit"])

    def _filled_in(self) -> Iterator[tuple[tuple[str, str], int]]:
        for measure, (_, size) in UNITS.items():
            for period in PERIODS:
                most = self.cleaned_data[_name(measure, period)]
                if most is not None:
                    yield (measure, period), most * size


def filled_in(limits: Sequence[Used], *, share: int | None) -> dict[str, Any]:
    """The numbers that stand."""
    most = {
        _name(each.measure, each.period): -(-each.most // UNITS[each.measure][1]) for each in limits
    }
    return {**most, "share": share}


def used_in_words(limits: Sequence[Used]) -> list[str]:
    """``12 of 100 records this hour``."""
    return [
        f"{_amount(each.measure, each.used)} of"
        f" {_amount(each.measure, each.most)} {UNITS[each.measure][0].lower()} this {each.period}"
        for each in limits
    ]


def _worded(measure: str, period: str, most: int) -> str:
    return f"{_amount(measure, most)} {UNITS[measure][0].lower()} {_A[period]}"


def _amount(measure: str, amount: int) -> str:
    return f"{-(-amount // UNITS[measure][1]):,}"
