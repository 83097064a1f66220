"""What holds for all that is given: what for, and how long."""

from datetime import datetime, timedelta

from django import forms

NEVER = "never"
ENDS = (
    ("1", "in 24 hours"),
    ("7", "in 7 days"),
    ("30", "in 30 days"),
    ("90", "in 90 days"),
    ("180", "in half a year"),
    ("365", "in a year"),
    (NEVER, "never; I will end it myself"),
)


class TermsForm(forms.Form):
    """What holds for all of it."""

    purpose = forms.CharField(
        label="What for?",
        required=False,
        max_length=1000,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="In your own words, to remember later why you gave it.",
    )
    ends = forms.ChoiceField(label="Access ends", choices=ENDS, initial="90")

    def ends_at(self, now: datetime) -> datetime | None:
        days = self.cleaned_data["ends"]
        return None if days == NEVER else now + timedelta(days=int(days))
