"""The owner's choice among the offers of one page, as far as it has come."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from django import forms
from django.http import QueryDict

from evidence.consent.drafts import Draft, SourceDraft, source_draft, with_view_ticked
from evidence.consent.limits_form import LimitsForm
from evidence.consent.offering import offer as offer_choices
from evidence.consent.offers import SourceOffer
from evidence.consent.terms_form import EndsForm

TERMS_PREFIX = "terms"
LIMITS_PREFIX = "limits"


class ConnectionsForm(forms.Form):
    """Which connections of one source; none of them leaves the source out."""

    connections = forms.MultipleChoiceField(
        label="Connections", required=False, widget=forms.CheckboxSelectMultiple
    )

    def __init__(self, data: QueryDict | None, *, offer: SourceOffer, ticked: bool) -> None:
        super().__init__(data, prefix=offer.prefix)
        offer_choices(
            self, "connections", [(each.pk, each.display_name) for each in offer.connections]
        )
        if ticked:
            self.fields["connections"].initial = [each.pk for each in offer.connections]


@dataclass
class SourceChoice:
    """One source on the page: the boxes of its connections, then its streams."""

    picker: ConnectionsForm
    draft: SourceDraft

    @property
    def offer(self) -> SourceOffer:
        return self.draft.offer

    @property
    def is_chosen(self) -> bool:
        return bool(self.draft.connections)


class Choice:
    """Without ``data`` it stands as the page is first seen: with ``ticked``, everything offered."""

    def __init__(
        self,
        offers: Sequence[SourceOffer],
        data: QueryDict | None,
        *,
        at_most: datetime | None = None,
        ticked: bool = False,
    ) -> None:
        if data is None:
            data = _first_answers(offers, at_most=at_most, ticked=ticked)
        if "pick" in data:
            everything = [form for each in _choices(offers, data) for form in each.draft.streams]
            data = with_view_ticked(data, str(data["pick"]), forms=everything)
        self.sources = _choices(offers, data)
        self.terms = EndsForm(data, prefix=TERMS_PREFIX, at_most=at_most)
        self.limits = LimitsForm(data, prefix=LIMITS_PREFIX)
        chosen = [each.draft for each in self.sources if each.is_chosen]
        self.draft = Draft(chosen, terms=self.terms)

    def check(self) -> bool:
        """Whether it could be given as it stands."""
        return bool(self.draft.sources) and self.limits.is_valid() and self.draft.check()

    @property
    def has_errors(self) -> bool:
        return self.draft.has_errors or bool(self.limits.errors)

    @property
    def is_empty(self) -> bool:
        return not self.draft.sources

    @property
    def ends(self) -> str:
        """The answer to how long, as it is posted."""
        return str(self.terms.data.get(self.terms.add_prefix("ends"), ""))


def is_answer(offers: Iterable[SourceOffer], name: str) -> bool:
    """Whether the form of a page over these offers has a field of that name."""
    prefixes = [*(offer.prefix for offer in offers), TERMS_PREFIX, LIMITS_PREFIX]
    return any(name.startswith(f"{prefix}-") for prefix in prefixes)


def _choices(offers: Sequence[SourceOffer], data: QueryDict) -> list[SourceChoice]:
    return [_choice(offer, data) for offer in offers]


def _choice(offer: SourceOffer, data: QueryDict) -> SourceChoice:
    picker = ConnectionsForm(data, offer=offer, ticked=False)
    ids = set(picker.cleaned_data["connections"]) if picker.is_valid() else set()
    chosen = [each for each in offer.connections if each.pk in ids]
    return SourceChoice(picker, source_draft(offer, chosen, data))


def _first_answers(
    offers: Sequence[SourceOffer], *, at_most: datetime | None, ticked: bool
) -> QueryDict:
    """What the browser would send back of the page as it is first seen."""
    answers = QueryDict(mutable=True)
    for form in _first_forms(offers, at_most=at_most, ticked=ticked):
        for name in form.fields:
            for value in _as_sent(form[name].initial):
                answers.appendlist(form.add_prefix(name), value)
    return answers


def _first_forms(
    offers: Sequence[SourceOffer], *, at_most: datetime | None, ticked: bool
) -> Iterator[forms.Form]:
    for offer in offers:
        yield ConnectionsForm(None, offer=offer, ticked=ticked)
        yield from source_draft(offer, offer.connections, None, included=True).streams
    yield EndsForm(prefix=TERMS_PREFIX, at_most=at_most)


def _as_sent(value: Any) -> list[str]:
    match value:
        case None | False | "":
            return []
        case True:
            return ["on"]
        case list():
            return [str(each) for each in value]
        case date():
            return [value.isoformat()]
        case _:
            return [str(value)]
