"""A grant that is being put together: everything the forms say so far, nothing stored."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Generic, TypeVar

from django import forms
from django.http import QueryDict

from evidence.access.grant_text import StreamInWords
from evidence.access.grants import DEFAULT_PURPOSE, GrantRequest
from evidence.access.scope import StreamTerms
from evidence.models.connections import Connection
from owner.form_fields import offer as offer_choices
from owner.formatting import worded
from owner.grants.grantable_sources import SourceOffer
from owner.grants.stream_form import StreamForm
from owner.grants.term_forms import EndsForm, LimitsForm

Terms = TypeVar("Terms", bound=EndsForm)


@dataclass
class SourceDraft:
    """One source with the chosen connections of it, and a form for each of its streams."""

    offer: SourceOffer
    connections: Sequence[Connection]
    streams: list[StreamForm]
    error: str = field(default="", init=False)

    def check(self) -> bool:
        """Whether at least one stream is included and all that are included hold."""
        hold = not any(form.errors for form in self.streams)
        if hold and not self.included:
            self.error = "Tick at least one stream here, or leave out this source."
        return hold and not self.error

    @property
    def label(self) -> str:
        return self.offer.label

    @property
    def included(self) -> list[StreamForm]:
        return [form for form in self.streams if form.terms is not None]

    @property
    def terms(self) -> list[StreamTerms]:
        return [form.terms for form in self.streams if form.terms is not None]

    @property
    def connection_ids(self) -> list[str]:
        return [each.pk for each in self.connections]

    @property
    def sentences(self) -> list[StreamInWords]:
        labels = {each.pk: each.display_name for each in self.connections}
        return [
            worded(form.terms, stream=form.stream, labels=labels)
            for form in self.streams
            if form.terms is not None
        ]

    def request(self, terms: EndsForm, now: datetime) -> GrantRequest:
        """What to issue, once ``check`` has held."""
        asked = self.offer.detail
        said = terms.purpose_description if asked is None else asked.purpose_description
        return GrantRequest(
            connection_ids=self.connection_ids,
            streams=[form.request for form in self.streams if form.request is not None],
            purpose_code=DEFAULT_PURPOSE if asked is None else asked.purpose_code,
            purpose_description=said,
            access_mode="continuous" if asked is None else asked.access_mode,
            retention=None if asked is None else asked.retention,
            expires_at=_earlier(terms.ends_at(now), None if asked is None else asked.expires_at),
        )


class Draft(Generic[Terms]):
    """All sources of which something is given, and what holds for all of it."""

    def __init__(self, sources: Sequence[SourceDraft], *, terms: Terms) -> None:
        self.sources = sources
        self.terms = terms
        self.error = ""

    def check(self) -> bool:
        return all([source.check() for source in self.sources] + [self.terms.is_valid()])

    @property
    def streams(self) -> list[StreamForm]:
        return [form for source in self.sources for form in source.streams]

    @property
    def has_errors(self) -> bool:
        """Whether anything that was filled in does not hold; nothing has been, on the first look."""
        if not self.terms.is_bound:
            return False
        of_streams = any(form.errors for form in self.streams)
        return of_streams or any(source.error for source in self.sources) or bool(self.terms.errors)

    def requests(self, now: datetime) -> list[GrantRequest]:
        """What to issue, once ``check`` has held: a grant for each source."""
        return [source.request(self.terms, now) for source in self.sources]


def source_draft(
    offer: SourceOffer,
    connections: Sequence[Connection],
    data: QueryDict | None,
    *,
    included: bool = False,
) -> SourceDraft:
    """The forms of one source; ``included`` says whether its streams are ticked at first."""
    ids = frozenset(each.pk for each in connections)
    forms = [
        StreamForm(
            data,
            prefix=f"{offer.prefix}-{number}",
            stream=stream,
            connection_ids=ids,
            declaration=offer.declaration,
            bounds=offer.bounds[stream.name],
            included=included,
        )
        for number, stream in enumerate(offer.declaration.streams.values())
        if stream.name in offer.bounds
    ]
    return SourceDraft(offer, connections, forms)


def with_view_ticked(data: QueryDict, pick: str, *, forms: Sequence[StreamForm]) -> QueryDict:
    """The same answers, but of one stream exactly the fields of one view (or all) are ticked.

    ``pick`` is ``prefix:view``; one that fits no form changes nothing.
    """
    prefix, _, view = pick.partition(":")
    for form in forms:
        if form.prefix == prefix and (names := _fields_of(form, view)) is not None:
            changed = data.copy()
            changed.setlist(form.add_prefix("chosen"), names)
            changed[form.add_prefix("included")] = "on"
            return changed
    return data


def _fields_of(form: StreamForm, view: str) -> list[Any] | None:
    names = [each.name for each in form.choosable]
    if not view:
        return names
    declared_view = form.stream.views.get(view)
    if declared_view is None:
        return None
    return [name for name in names if name in declared_view.fields]


def _earlier(*moments: datetime | None) -> datetime | None:
    return min((each for each in moments if each is not None), default=None)


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
