"""A grant that is being put together: everything the forms say so far, nothing stored."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar

from django.http import QueryDict

from evidence.access.describing import StreamInWords
from evidence.access.issuing import DEFAULT_PURPOSE, GrantRequest
from evidence.access.scope import StreamTerms
from evidence.consent.offers import SourceOffer
from evidence.consent.stream_form import StreamForm
from evidence.consent.terms_form import EndsForm
from evidence.consent.wording import worded
from evidence.models.connections import Connection

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
