"""A grant being edited: the forms of its sources, streams and terms; nothing is stored."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Generic, TypeVar

from django import forms
from django.http import QueryDict

from evidence.access.grants import DEFAULT_PURPOSE, GrantRequest
from evidence.access.scope import StreamTerms
from evidence.models.connections import Connection
from owner.form_fields import set_choices
from owner.grants.grantable_sources import GrantableSource
from owner.grants.stream_form import StreamForm, earliest
from owner.grants.term_forms import ExpiryForm, LimitsForm

Terms = TypeVar("Terms", bound=ExpiryForm)
TERMS_PREFIX = "terms"
LIMITS_PREFIX = "limits"


@dataclass
class SourceDraft:
    """One source with its selected connections, and a form for each of its streams."""

    source: GrantableSource
    connections: Sequence[Connection]
    streams: list[StreamForm]
    error: str = field(default="", init=False)

    def check(self) -> bool:
        """Return whether all forms are valid and at least one stream is included."""
        is_valid = not any(form.errors for form in self.streams)
        if is_valid and not self.included:
            self.error = "Select at least one stream, or leave out this source."
        return is_valid and not self.error

    @property
    def label(self) -> str:
        return self.source.label

    @property
    def included(self) -> list[StreamForm]:
        return [form for form in self.streams if form.terms is not None]

    @property
    def terms(self) -> list[StreamTerms]:
        return [form.terms for form in self.streams if form.terms is not None]

    @property
    def connection_ids(self) -> list[str]:
        return [connection.pk for connection in self.connections]

    def request(self, terms: ExpiryForm, now: datetime) -> GrantRequest:
        """Return the grant to issue. Call `check` first."""
        detail = self.source.detail
        purpose = terms.purpose_description if detail is None else detail.purpose_description
        return GrantRequest(
            connection_ids=self.connection_ids,
            streams=[form.request for form in self.streams if form.request is not None],
            purpose_code=DEFAULT_PURPOSE if detail is None else detail.purpose_code,
            purpose_description=purpose,
            access_mode="continuous" if detail is None else detail.access_mode,
            retention=None if detail is None else detail.retention,
            expires_at=earliest(
                terms.expires_at(now), None if detail is None else detail.expires_at
            ),
        )


class Draft(Generic[Terms]):
    """All sources with selected connections, and the terms that they share."""

    def __init__(self, sources: Sequence[SourceDraft], *, terms: Terms) -> None:
        self.sources = sources
        self.terms = terms
        self.error = ""

    def check(self) -> bool:
        """Return whether grants can be issued from it; fills in all errors."""
        return all([source.check() for source in self.sources] + [self.terms.is_valid()])

    @property
    def streams(self) -> list[StreamForm]:
        return [form for source in self.sources for form in source.streams]

    @property
    def has_errors(self) -> bool:
        """Return whether a submitted form has errors; False before the first submission."""
        if not self.terms.is_bound:
            return False
        in_streams = any(form.errors for form in self.streams)
        return in_streams or any(source.error for source in self.sources) or bool(self.terms.errors)

    def requests(self, now: datetime) -> list[GrantRequest]:
        """Return the grants to issue, one for each source. Call `check` first."""
        return [source.request(self.terms, now) for source in self.sources]


def source_draft(
    source: GrantableSource,
    connections: Sequence[Connection],
    data: QueryDict | None,
    *,
    included: bool = False,
) -> SourceDraft:
    """Build the forms of one source; `included` is the initial state of its streams."""
    ids = frozenset(connection.pk for connection in connections)
    stream_forms = [
        StreamForm(
            data,
            prefix=f"{source.prefix}-{number}",
            stream=stream,
            connection_ids=ids,
            declaration=source.declaration,
            bounds=source.bounds[stream.name],
            included=included,
        )
        for number, stream in enumerate(source.declaration.streams.values())
        if stream.name in source.bounds
    ]
    return SourceDraft(source, connections, stream_forms)


def select_view(data: QueryDict, pick: str, *, forms: Sequence[StreamForm]) -> QueryDict:
    """Return `data` with exactly the fields of one view selected in one stream.

    `pick` is ``prefix:view``, or ``prefix:`` for all fields. An unknown one changes nothing.
    """
    prefix, _, view = pick.partition(":")
    for form in forms:
        if form.prefix == prefix and (names := _view_fields(form, view)) is not None:
            changed = data.copy()
            changed.setlist(form.add_prefix("chosen"), names)
            changed[form.add_prefix("included")] = "on"
            return changed
    return data


def _view_fields(form: StreamForm, view_id: str) -> list[Any] | None:
    names = [field.name for field in form.selectable_fields]
    if not view_id:
        return names
    view = form.stream.views.get(view_id)
    return None if view is None else [name for name in names if name in view.fields]


class ConnectionsForm(forms.Form):
    """Choice among the connections of one source; none leaves out the source."""

    connections = forms.MultipleChoiceField(
        label="Connections", required=False, widget=forms.CheckboxSelectMultiple
    )

    def __init__(self, data: QueryDict | None, *, source: GrantableSource, selected: bool) -> None:
        super().__init__(data, prefix=source.prefix)
        choices = [(connection.pk, connection.label) for connection in source.connections]
        set_choices(self, "connections", choices)
        if selected:
            self.fields["connections"].initial = [pk for pk, _ in choices]


@dataclass
class SourceForms:
    """The forms of one source on the page: its connections, then its streams."""

    connections_form: ConnectionsForm
    draft: SourceDraft

    @property
    def source(self) -> GrantableSource:
        return self.draft.source


class DraftForms:
    """Bind the posted form to the sources that may be granted.

    Without `data` the forms have their initial values; `selected` then selects all connections.
    """

    def __init__(
        self,
        sources: Sequence[GrantableSource],
        data: QueryDict | None,
        *,
        latest_expiry: datetime | None = None,
        selected: bool = False,
    ) -> None:
        if data is None:
            data = _initial_data(sources, latest_expiry=latest_expiry, selected=selected)
        if "pick" in data:
            bound = [_bind(source, data) for source in sources]
            streams = [form for source in bound for form in source.draft.streams]
            data = select_view(data, str(data["pick"]), forms=streams)
        self.sources = [_bind(source, data) for source in sources]
        self.terms = ExpiryForm(data, prefix=TERMS_PREFIX, latest_expiry=latest_expiry)
        self.limits = LimitsForm(data, prefix=LIMITS_PREFIX)
        drafts = [source.draft for source in self.sources if source.draft.connections]
        self.draft = Draft(drafts, terms=self.terms)

    def check(self) -> bool:
        """Return whether grants can be issued from the forms."""
        return bool(self.draft.sources) and self.limits.is_valid() and self.draft.check()

    @property
    def has_errors(self) -> bool:
        return self.draft.has_errors or bool(self.limits.errors)

    @property
    def is_all_demo(self) -> bool:
        """Return whether there is only demo data to choose from."""
        return bool(self.sources) and all(each.source.is_demo for each in self.sources)

    @property
    def is_empty(self) -> bool:
        """Return whether no connection is selected."""
        return not self.draft.sources


def is_form_field(sources: Iterable[GrantableSource], name: str) -> bool:
    """Return whether the forms over these sources have a field with that name."""
    prefixes = [*(source.prefix for source in sources), TERMS_PREFIX, LIMITS_PREFIX]
    return any(name.startswith(f"{prefix}-") for prefix in prefixes)


def _bind(source: GrantableSource, data: QueryDict) -> SourceForms:
    form = ConnectionsForm(data, source=source, selected=False)
    ids = set(form.cleaned_data["connections"]) if form.is_valid() else set()
    selected = [connection for connection in source.connections if connection.pk in ids]
    return SourceForms(form, source_draft(source, selected, data))


def _initial_data(
    sources: Sequence[GrantableSource], *, latest_expiry: datetime | None, selected: bool
) -> QueryDict:
    """Return what a browser would submit for the page with its initial values."""
    data = QueryDict(mutable=True)
    for form in _initial_forms(sources, latest_expiry=latest_expiry, selected=selected):
        for name in form.fields:
            for value in _submitted_values(form[name].initial):
                data.appendlist(form.add_prefix(name), value)
    return data


def _initial_forms(
    sources: Sequence[GrantableSource], *, latest_expiry: datetime | None, selected: bool
) -> Iterator[forms.Form]:
    for source in sources:
        yield ConnectionsForm(None, source=source, selected=selected)
        yield from source_draft(source, source.connections, None, included=True).streams
    yield ExpiryForm(prefix=TERMS_PREFIX, latest_expiry=latest_expiry)


def _submitted_values(value: Any) -> list[str]:
    match value:
        case None | False | "":
            return []
        case True:
            return ["on"]
        case list():
            return [str(item) for item in value]
        case date():
            return [value.isoformat()]
        case _:
            return [str(value)]
