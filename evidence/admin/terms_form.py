"""For which kind of program tokens are made, alone and with the rest of "Give access"."""

from django import forms

from evidence.access.describing import joined
from evidence.access.handing_over import MCP, REST
from evidence.admin.limits_form import ReadingForm
from evidence.consent.terms_form import TermsForm

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
