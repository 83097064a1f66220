"""Limits of how much is read through a grant: a number, or nothing, for each measure and period."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.conf import settings
from django.forms.boundfield import BoundField
from django.utils import timezone
from typing_extensions import override

from evidence.access.grant_text import day, joined
from evidence.access.quotas import Limits
from evidence.access.scope import Used
from owner.form_fields import offer
from owner.setup_snippets import MCP, REST

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


NEVER = "never"
AS_ASKED = "as-asked"
ENDS = (
    ("1", "in 24 hours"),
    ("7", "in 7 days"),
    ("30", "in 30 days"),
    ("90", "in 90 days"),
    ("180", "in half a year"),
    ("365", "in a year"),
    (NEVER, "never; I will end it myself"),
)


class EndsForm(forms.Form):
    """How long all of it holds; never longer than ``at_most``."""

    ends = forms.ChoiceField(label="Access ends", choices=ENDS, initial="90")

    def __init__(
        self, data: Any = None, *, prefix: str | None = None, at_most: datetime | None = None
    ) -> None:
        super().__init__(data, prefix=prefix)
        self._at_most = at_most
        if at_most is not None:
            offer(
                self, "ends", [*_sooner(at_most), (AS_ASKED, f"on {day(at_most)}, at the latest")]
            )
            self.fields["ends"].initial = AS_ASKED

    def ends_at(self, now: datetime) -> datetime | None:
        days = self.cleaned_data["ends"]
        if days in (NEVER, AS_ASKED):
            return self._at_most
        ends = now + timedelta(days=int(days))
        return ends if self._at_most is None else min(ends, self._at_most)

    @property
    def purpose_description(self) -> str:
        """What it is for, where the owner is asked for it."""
        return ""

    @property
    def in_words(self) -> str:
        """``in 30 days``, ``never; I will end it myself``."""
        return str(dict(self.fields["ends"].choices)[self.cleaned_data["ends"]])  # type: ignore[attr-defined] # a ChoiceField


class TermsForm(EndsForm):
    """The same with a word of the owner's own on what it is for."""

    purpose = forms.CharField(
        label="What for?",
        required=False,
        max_length=1000,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="In your own words, to remember later why you gave it.",
    )

    @property
    @override
    def purpose_description(self) -> str:
        return str(self.cleaned_data["purpose"])


def _sooner(at_most: datetime) -> list[tuple[str, str]]:
    left = at_most - timezone.now()
    return [
        (days, words) for days, words in ENDS if days != NEVER and timedelta(days=int(days)) < left
    ]


class ReadingForm(LimitsForm):
    """The nine numbers, and the share."""

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
    @override
    def boxes(self) -> list[BoundField]:
        return [self["share"], *super().boxes]


def filled_in(limits: Sequence[Used], *, share: int | None) -> dict[str, Any]:
    """The numbers that stand."""
    most = {
        name_of(each.measure, each.period): -(-each.most // UNITS[each.measure][1])
        for each in limits
    }
    return {**most, "share": share}


def used_in_words(limits: Sequence[Used]) -> list[str]:
    """``12 of 100 records this hour``."""
    return [
        f"{amount_in_words(each.measure, each.used)} of"
        f" {amount_in_words(each.measure, each.most)} {UNITS[each.measure][0].lower()}"
        f" this {each.period}"
        for each in limits
    ]


TOKENS = (
    (MCP, "an AI agent, such as Claude or Codex"),
    (REST, "a program or script of mine"),
)


class TokensForm(forms.Form):
    tokens = forms.MultipleChoiceField(
        label="Make a token for",
        choices=TOKENS,
        initial=[MCP],
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": "Tick at least one."},
    )


class GivingForm(TermsForm, TokensForm, ReadingForm):
    """What holds for all that is given here."""

    field_order = ("purpose", "ends", "tokens")

    @property
    def tokens_in_words(self) -> str:
        return joined([words for value, words in TOKENS if value in self.cleaned_data["tokens"]])
