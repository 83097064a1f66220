"""Limits of how much is read through a grant: a number, or nothing, for each measure and period."""

from collections.abc import Iterator
from dataclasses import dataclass

from django import forms
from django.forms.boundfield import BoundField

from evidence.access.describing import joined
from evidence.access.limiting import Limits

PERIODS = ("minute", "hour", "day")
_A = {"minute": "a minute", "hour": "an hour", "day": "a day"}
UNITS = {"calls": ("Calls", 1), "records": ("Records", 1), "bytes": ("Kilobytes", 1_000)}
"""What the owner calls a measure, and how much of it one is."""
MOST = 10**12


@dataclass(frozen=True, slots=True)
class Row:
    label: str
    boxes: list[BoundField]


def name_of(measure: str, period: str) -> str:
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

    @property
    def limit_rows(self) -> list[Row]:
        return [
            Row(label, [self[name_of(measure, period)] for period in PERIODS])
            for measure, (label, _) in UNITS.items()
        ]

    @property
    def has_limits(self) -> bool:
        """Whether there is anything to be seen in a box."""
        return any(box.value() or box.errors for box in self.boxes)

    @property
    def boxes(self) -> list[BoundField]:
        return [box for row in self.limit_rows for box in row.boxes]

    @property
    def limits(self) -> Limits:
        """What the owner has filled in, once it is valid."""
        return dict(self._filled_in())

    @property
    def has_any(self) -> bool:
        """Whether the owner has filled in a limit, and all that is filled in is one."""
        return self.is_valid() and bool(self.limits)

    @property
    def limits_in_words(self) -> str:
        return joined([_worded(*key, most) for key, most in self.limits.items()] or ["no limit"])

    def _filled_in(self) -> Iterator[tuple[tuple[str, str], int]]:
        for measure, (_, size) in UNITS.items():
            for period in PERIODS:
                most = self.cleaned_data[name_of(measure, period)]
                if most is not None:
                    yield (measure, period), most * size


def _worded(measure: str, period: str, most: int) -> str:
    return f"{amount_in_words(measure, most)} {UNITS[measure][0].lower()} {_A[period]}"


def amount_in_words(measure: str, amount: int) -> str:
    return f"{-(-amount // UNITS[measure][1]):,}"
