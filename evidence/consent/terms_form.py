"""What holds for all that is given: what for, and how long."""

from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.utils import timezone
from typing_extensions import override

from evidence.access.describing import day
from evidence.consent.offering import offer

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
