"""Forms for the terms of a grant: purpose, expiry, limits, and the tokens to make."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.conf import settings
from django.forms.boundfield import BoundField
from django.utils import timezone
from typing_extensions import override

from evidence.access.grant_text import format_day, join_words
from evidence.access.quotas import QuotaLimits
from evidence.access.scope import QuotaUsage
from owner.form_fields import set_choices
from owner.setup_snippets import MCP, REST
from owner.text import pluralize

PERIODS = ("minute", "hour", "day")
PER_PERIOD = {"minute": "per minute", "hour": "per hour", "day": "per day"}
UNITS = {"calls": ("Calls", 1), "records": ("Records", 1), "bytes": ("Kilobytes", 1_000)}
"""The label of each measure, and how many of it one unit on the page is."""
MAX_LIMIT = 10**12


@dataclass(frozen=True, slots=True)
class LimitRow:
    """One row of the limits table: a measure with a box for each period."""

    label: str
    boxes: list[BoundField]


def limit_field_name(measure: str, period: str) -> str:
    """Return the name of the form field for a limit."""
    return f"max_{measure}_{period}"


def _limit_field(measure: str, period: str) -> forms.IntegerField:
    label = f"{UNITS[measure][0]} {PER_PERIOD[period]}"
    return forms.IntegerField(
        required=False,
        min_value=1,
        max_value=MAX_LIMIT,
        label=label,
        widget=forms.NumberInput(
            attrs={"aria-label": label, "placeholder": "no limit", "class": "limit"}
        ),
    )


class LimitsForm(forms.Form):
    """An optional limit for each measure and period."""

    max_calls_minute, max_calls_hour, max_calls_day = (
        _limit_field("calls", period) for period in PERIODS
    )
    max_records_minute, max_records_hour, max_records_day = (
        _limit_field("records", period) for period in PERIODS
    )
    max_bytes_minute, max_bytes_hour, max_bytes_day = (
        _limit_field("bytes", period) for period in PERIODS
    )

    @property
    def limit_rows(self) -> list[LimitRow]:
        return [
            LimitRow(label, [self[limit_field_name(measure, period)] for period in PERIODS])
            for measure, (label, _) in UNITS.items()
        ]

    @property
    def has_limits(self) -> bool:
        """Return whether any box has a value or an error."""
        return any(box.value() or box.errors for box in self.boxes)

    @property
    def boxes(self) -> list[BoundField]:
        return [box for row in self.limit_rows for box in row.boxes]

    @property
    def limits(self) -> QuotaLimits:
        """Return the limits of a valid form."""
        return dict(self._filled_limits())

    @property
    def has_valid_limits(self) -> bool:
        return self.is_valid() and bool(self.limits)

    @property
    def limits_text(self) -> str:
        """Return ``100 records per hour and 5 calls per minute``, or ``no limit``."""
        texts = [
            f"{describe_amount(measure, amount)} {PER_PERIOD[period]}"
            for (measure, period), amount in self.limits.items()
        ]
        return join_words(texts or ["no limit"])

    def _filled_limits(self) -> Iterator[tuple[tuple[str, str], int]]:
        for measure, (_, unit) in UNITS.items():
            for period in PERIODS:
                limit = self.cleaned_data[limit_field_name(measure, period)]
                if limit is not None:
                    yield (measure, period), limit * unit


def describe_amount(measure: str, amount: int) -> str:
    """Return ``1 call`` or ``100 records``."""
    label, unit = UNITS[measure]
    return pluralize(-(-amount // unit), label.lower().removesuffix("s"))


def format_amount(measure: str, amount: int) -> str:
    """Return an amount in page units, rounded up."""
    return f"{-(-amount // UNITS[measure][1]):,}"


NEVER = "never"
AS_REQUESTED = "as-requested"
EXPIRY_CHOICES = (
    ("1", "in 24 hours"),
    ("7", "in 7 days"),
    ("30", "in 30 days"),
    ("90", "in 90 days"),
    ("180", "in half a year"),
    ("365", "in a year"),
    (NEVER, "never"),
)


class ExpiryForm(forms.Form):
    """When all grants expire, `latest_expiry` at the latest."""

    expires = forms.ChoiceField(label="Access expires", choices=EXPIRY_CHOICES, initial="90")
    purpose_description = ""
    """The owner's purpose, of a form that asks for it."""

    def __init__(
        self, data: Any = None, *, prefix: str | None = None, latest_expiry: datetime | None = None
    ) -> None:
        super().__init__(data, prefix=prefix)
        self._latest_expiry = latest_expiry
        if latest_expiry is not None:
            latest = (AS_REQUESTED, f"on {format_day(latest_expiry)} at the latest")
            set_choices(self, "expires", [*_choices_before(latest_expiry), latest])
            self.fields["expires"].initial = AS_REQUESTED

    def expires_at(self, now: datetime) -> datetime | None:
        days = self.cleaned_data["expires"]
        if days in (NEVER, AS_REQUESTED):
            return self._latest_expiry
        expires_at = now + timedelta(days=int(days))
        return expires_at if self._latest_expiry is None else min(expires_at, self._latest_expiry)

    @property
    def expiry_text(self) -> str:
        """Return ``Access expires in 30 days`` or ``Access does not expire``."""
        value = self.cleaned_data["expires"]
        if value == NEVER:
            return "Access does not expire"
        choices = dict(self.fields["expires"].choices)  # type: ignore[attr-defined] # a ChoiceField
        return f"Access expires {choices[value]}"


def _choices_before(latest_expiry: datetime) -> list[tuple[str, str]]:
    remaining = latest_expiry - timezone.now()
    return [
        (days, label)
        for days, label in EXPIRY_CHOICES
        if days != NEVER and timedelta(days=int(days)) < remaining
    ]


class GrantLimitsForm(LimitsForm):
    """A grant's limits, and the share of a stream after which it is paused automatically."""

    share = forms.IntegerField(
        required=False,
        min_value=0,
        max_value=100,
        label="Pause automatically after this percentage of a stream",
        widget=forms.NumberInput(attrs={"class": "limit"}),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["share"].widget.attrs["placeholder"] = str(settings.PDPP_TRIPWIRE_SHARE)
        self.fields["share"].help_text = (
            f"Counted over {settings.PDPP_TRIPWIRE_HOURS} hours, in streams of at least"
            f" {settings.PDPP_TRIPWIRE_RECORDS:,} records. Enter 0 to never pause. If empty, the"
            f" default of {settings.PDPP_TRIPWIRE_SHARE} applies."
        )

    @property
    @override
    def boxes(self) -> list[BoundField]:
        return [self["share"], *super().boxes]


def current_limits(limits: Sequence[QuotaUsage], *, share: int | None) -> dict[str, Any]:
    """Return the initial values of GrantLimitsForm."""
    values = {
        limit_field_name(limit.measure, limit.period): -(-limit.most // UNITS[limit.measure][1])
        for limit in limits
    }
    return {**values, "share": share}


def usage_texts(limits: Sequence[QuotaUsage]) -> list[str]:
    """Return ``12 of 100 records this hour`` or ``12 of 100 records today`` for each limit."""
    return [
        f"{format_amount(limit.measure, limit.used)} of"
        f" {describe_amount(limit.measure, limit.most)}"
        f" {'today' if limit.period == 'day' else f'this {limit.period}'}"
        for limit in limits
    ]


TOKEN_CHOICES = (
    (MCP, "an AI agent, such as Claude or Codex"),
    (REST, "my own app or script"),
)


class TokensForm(forms.Form):
    """The resources to create tokens for."""

    tokens = forms.MultipleChoiceField(
        label="Create a token for",
        choices=TOKEN_CHOICES,
        initial=[MCP],
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": "Select at least one."},
    )
