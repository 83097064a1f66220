"""The rest of "Give access": what for, how long, and for which kind of program."""

from datetime import datetime, timedelta

from django import forms

from evidence.access.describing import joined
from evidence.access.handing_over import MCP, REST

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


class TermsForm(TokensForm):
    """What holds for all of it."""

    purpose = forms.CharField(
        label="What for?",
        required=False,
        max_length=1000,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="In your own words, to remember later why you gave it.",
    )
    ends = forms.ChoiceField(label="Access ends", choices=ENDS, initial="90")
    field_order = ("purpose", "ends", "tokens")

    @property
    def tokens_in_words(self) -> str:
        return joined([words for value, words in TOKENS if value in self.cleaned_data["tokens"]])

    def ends_at(self, now: datetime) -> datetime | None:
        days = self.cleaned_data["ends"]
        return None if days == NEVER else now + timedelta(days=int(days))
