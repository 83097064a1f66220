"""A grant that is being put together: everything the forms say so far, nothing stored."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Any, Generic, TypeVar

from django.http import QueryDict

from evidence.access.describing import StreamInWords
from evidence.access.issuing import GrantRequest
from evidence.consent.stream_form import StreamForm
from evidence.consent.terms_form import TermsForm
from evidence.consent.wording import worded
from evidence.models.connections import Connection
from evidence.models.declared import declared

Terms = TypeVar("Terms", bound=TermsForm)


@dataclass
class SourceDraft:
    """One source with the chosen connections of it, and a form for each of its streams."""

    label: str
    connections: Sequence[Connection]
    streams: list[StreamForm]
    error: str = field(default="", init=False)

    def check(self) -> bool:
        """Whether at least one stream is included and all that are included hold."""
        hold = not any(form.errors for form in self.streams)
        if hold and not self.included:
            self.error = "Tick at least one stream here, or go back and leave out this source."
        return hold and not self.error

    @property
    def included(self) -> list[StreamForm]:
        return [form for form in self.streams if form.terms is not None]

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


class Draft(Generic[Terms]):
    """``data`` are the answers to all of it, None while nobody has been asked yet."""

    def __init__(
        self, connections: Sequence[Connection], data: QueryDict | None, *, terms: Terms
    ) -> None:
        self.sources = list(_sources(connections, data))
        self.terms = terms
        self.error = ""

    def check(self) -> bool:
        return all([source.check() for source in self.sources] + [self.terms.is_valid()])

    @property
    def has_errors(self) -> bool:
        """Whether anything that was filled in does not hold; nothing has been, on the first look."""
        if not self.terms.is_bound:
            return False
        of_streams = any(form.errors for source in self.sources for form in source.streams)
        return of_streams or any(source.error for source in self.sources) or bool(self.terms.errors)

    def requests(self, now: datetime) -> list[GrantRequest]:
        """What to issue, once ``check`` has held: a grant for each source."""
        return [
            GrantRequest(
                connection_ids=source.connection_ids,
                streams=[form.request for form in source.streams if form.request is not None],
                purpose_description=self.terms.cleaned_data["purpose"],
                expires_at=self.terms.ends_at(now),
            )
            for source in self.sources
        ]


def with_view_ticked(data: QueryDict, pick: str, *, draft: Draft[Any]) -> QueryDict:
    """The same answers, but of one stream exactly the fields of one view (or all) are ticked.

    ``pick`` is ``prefix:view``; one that fits no form changes nothing.
    """
    prefix, _, view = pick.partition(":")
    for source in draft.sources:
        for form in source.streams:
            if form.prefix == prefix and (names := _fields_of(form, view)) is not None:
                changed = data.copy()
                changed.setlist(form.add_prefix("chosen"), names)
                changed[form.add_prefix("included")] = "on"
                return changed
    return data


def _fields_of(form: StreamForm, view: str) -> list[str] | None:
    names = [each.name for each in form.choosable]
    if not view:
        return names
    declared_view = form.stream.views.get(view)
    if declared_view is None:
        return None
    return [name for name in names if name in declared_view.fields]


def _sources(connections: Sequence[Connection], data: Any) -> Iterator[SourceDraft]:
    for source, group in groupby(_by_source(connections), key=lambda each: each.source):
        if source.current_declaration_id is None:
            continue
        mine = list(group)
        pk = source.current_declaration_id
        declaration = declared([pk])[pk].declaration
        forms = [
            StreamForm(
                data,
                prefix=f"s{source.pk}-{number}",
                stream=stream,
                connection_ids=frozenset(each.pk for each in mine),
                declaration=declaration,
            )
            for number, stream in enumerate(declaration.streams.values())
        ]
        yield SourceDraft(source.display_name, mine, forms)


def _by_source(connections: Sequence[Connection]) -> list[Connection]:
    return sorted(connections, key=lambda each: (each.source.display_name, each.source_id))
