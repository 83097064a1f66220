"""Limits of a grant with the share of its own at which it pauses by itself, as they stand."""

from collections.abc import Sequence
from typing import Any

from django import forms
from django.conf import settings
from django.forms.boundfield import BoundField
from typing_extensions import override

from evidence.access.scope import Used
from evidence.consent.limits_form import UNITS, LimitsForm, amount_in_words, name_of


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
