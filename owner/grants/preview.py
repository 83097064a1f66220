"""Count and sample what a draft grant would show, read through the gate.

The owner is the only reader, so nothing is recorded as disclosed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from evidence.access.gate import Gate
from evidence.access.grant_text import (
    StreamDescription,
    field_label,
    format_day,
    join_words,
    stream_label,
)
from evidence.access.owner_scope import owner_scope, preview_scope
from evidence.access.record_counts import count_records, read_window, stored_counts
from evidence.access.records import VisibleRecord, VisibleRecords, read_page
from evidence.access.scope import StreamTerms
from evidence.models.owners import current_owner
from owner.grants.grant_forms import SourceForms, StreamForm
from owner.records.periods import is_plausible, plausible_period
from owner.records.record_roles import StreamRoles
from owner.records.record_summaries import RecordSummary, summarize
from owner.text import FieldValue, describe_terms, pluralize, record_title, record_values

MAX_FIRST_VALUES = 5
SAMPLE_SIZE = 3
MAX_VALUE_LENGTH = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPreview:
    """`count` records are shown of the `total` in the selected connections."""

    words: StreamDescription
    count: int
    total: int
    extent: str
    samples: list[dict[str, Any]]
    hidden_fields: list[str]

    @property
    def amount(self) -> str:
        """Return ``7 of 12 records``."""
        if self.hidden_count <= 0:
            return pluralize(self.count, "record")
        return f"{self.count:,} of {pluralize(self.total, 'record')}"

    @property
    def hidden_count(self) -> int:
        return self.total - self.count

    @property
    def hidden_text(self) -> str:
        """Return ``5 records and the field Subject``; empty if nothing stays hidden."""
        return _amount_text(
            pluralize(self.hidden_count, "record"), self.hidden_count, self.hidden_fields
        )


PreviewsByForm = Mapping[str, StreamPreview]
"""Previews by the prefix of their stream's form."""


def preview_sources(sources: Iterable[SourceForms]) -> PreviewsByForm:
    """Return a preview of each included stream: two queries a stream, and one for all totals."""
    owner_id = current_owner()
    included = [source for source in sources if source.terms]
    totals = _totals(included, owner_id)
    previews: dict[str, StreamPreview] = {}
    for source in included:
        # One scope per source: two requests may cover the same stream.
        scope = preview_scope([(source.source.source.pk, source.terms)], owner_id=owner_id)
        gate = Gate(scope)
        labels = {connection.pk: connection.label for connection in source.connections}
        for form in source.included:
            if form.terms is not None and form.prefix is not None:
                previews[form.prefix] = _preview(form, form.terms, gate, labels, totals)
    return previews


def _preview(
    form: StreamForm,
    terms: StreamTerms,
    gate: Gate,
    labels: Mapping[str, str],
    totals: Mapping[tuple[str, str], int],
) -> StreamPreview:
    visible = gate.stream(terms.name)
    return StreamPreview(
        words=describe_terms(terms, stream=form.stream, labels=labels),
        count=count_records(visible),
        total=sum(
            totals.get((connection_id, terms.name), 0) for connection_id in terms.connection_ids
        ),
        extent=describe_extent(visible),
        samples=newest_samples(visible),
        hidden_fields=[
            field_label(field, form.stream.fields)
            for name, field in form.stream.fields.items()
            if not terms.fields.allows(name)
        ],
    )


def newest_samples(visible: VisibleRecords) -> list[dict[str, Any]]:
    page = read_page(visible, limit=SAMPLE_SIZE, descending=True, after=None, where=())
    return [_sample(visible, record) for record in page.records]


def _sample(visible: VisibleRecords, record: VisibleRecord) -> dict[str, Any]:
    """Return one record as the app would see it, its ``first`` values apart from the ``rest``.

    The first values describe the record; without declared roles, they are the first fields.
    """
    [summary] = summarize(visible, [record])
    values = record_values(visible, record, max_length=MAX_VALUE_LENGTH)
    values = [replace(value, text=_one_line(summary, value)) for value in values]
    by_name = {value.name: value for value in values if value.text}
    describing = StreamRoles(visible.stream).describing
    found = [by_name[name] for name in describing if name in by_name]
    first = (found or values)[:MAX_FIRST_VALUES]
    return {
        "title": record_title(visible, record),
        "at": "" if summary.day is None else format_day(summary.day),
        "values": values,
        "first": first,
        "rest": [value for value in values if value not in first],
    }


def _one_line(summary: RecordSummary, value: FieldValue) -> str:
    """Return the text of a value; an amount in units of its currency."""
    if value.name == summary.roles.amount and summary.amount is not None:
        return f"{summary.amount:,.2f}"
    return " ".join(value.text.split())


def describe_extent(visible: VisibleRecords) -> str:
    """Return the first and last plausible day, or an empty string if the time field is not shown."""
    if not visible.shows(visible.stream.consent_time_field):
        return ""
    window = read_window(visible, ())
    if not (
        _is_plausible(visible, window.earliest_at) and _is_plausible(visible, window.latest_at)
    ):
        # A few faulty dates, such as of the year 1, hide when the other records are from.
        window = read_window(plausible_period(visible.stream).of(visible), ())
    if window.earliest_at is None or window.latest_at is None:
        return ""
    first, last = format_day(window.earliest_at), format_day(window.latest_at)
    return first if first == last else f"{first} to {last}"


def _is_plausible(visible: VisibleRecords, moment: datetime | None) -> bool:
    return moment is None or is_plausible(visible.stream, moment.date())


def _totals(sources: Iterable[SourceForms], owner_id: str) -> Mapping[tuple[str, str], int]:
    """Return the stored records per connection id and stream name."""
    ids = {connection_id for source in sources for connection_id in source.connection_ids}
    visible = Gate(owner_scope(owner_id)).streams()
    return {key: records for key, (records, _) in stored_counts(visible).items() if key[0] in ids}


def _amount_text(records_text: str, records: int, fields: Sequence[str]) -> str:
    parts = [records_text] if records > 0 else []
    if fields:
        noun = "field" if len(fields) == 1 else "fields"
        parts.append(f"the {noun} {join_words(fields)}")
    return join_words(parts) if parts else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamDifference:
    """Records and fields of one stream that a change would show or hide."""

    source_pk: int
    stream: str
    label: str
    more: int
    fewer: int
    fields_more: tuple[str, ...]
    fields_fewer: tuple[str, ...]
    labels: dict[str, str]

    @property
    def is_empty(self) -> bool:
        return not (self.more or self.fewer or self.fields_more or self.fields_fewer)

    @property
    def sentence(self) -> str:
        """Return ``Your messages: hides 3 records and the field Body text.``"""
        changes = [
            ("shows", pluralize(self.more, "more record"), self.more, self.fields_more),
            ("hides", pluralize(self.fewer, "record"), self.fewer, self.fields_fewer),
        ]
        parts = []
        for verb, records_text, records, fields in changes:
            names = [self.labels[field] for field in fields]
            if text := _amount_text(records_text, records, names):
                parts.append(f"{verb} {text}")
        return f"{self.label}: {join_words(parts)}."


def compare_gates(before: Sequence[Gate], after: Gate) -> list[StreamDifference]:
    """Return the streams that differ between several grants together and a change.

    Runs two counts a stream.
    """
    old: dict[tuple[int, str], list[VisibleRecords]] = {}
    for gate in before:
        for visible in gate.streams():
            old.setdefault(_stream_key(visible), []).append(visible)
    new = {_stream_key(visible): visible for visible in after.streams()}
    found = (_difference(old.get(key, []), new.get(key)) for key in {**old, **new})
    return [difference for difference in found if not difference.is_empty]


def compare_additions(before: Sequence[Gate], after: Gate) -> list[StreamDifference]:
    """Return what a further grant would show in addition to current grants."""
    additions = (
        replace(difference, fewer=0, fields_fewer=()) for difference in compare_gates(before, after)
    )
    return [addition for addition in additions if not addition.is_empty]


def _stream_key(visible: VisibleRecords) -> tuple[int, str]:
    return visible.source.source_pk, visible.stream.name


def _difference(old: Sequence[VisibleRecords], new: VisibleRecords | None) -> StreamDifference:
    visible = new or old[0]
    stream = visible.stream
    fields_before = {name for grant in old for name in _shown_fields(grant)}
    fields_after = set(_shown_fields(new))
    return StreamDifference(
        source_pk=visible.source.source_pk,
        stream=stream.name,
        label=stream_label(stream),
        more=0 if new is None else count_records(new, [grant.excluded_rows() for grant in old]),
        fewer=_count_hidden(old, new),
        fields_more=tuple(name for name in stream.fields if name in fields_after - fields_before),
        fields_fewer=tuple(name for name in stream.fields if name in fields_before - fields_after),
        labels={name: field_label(field, stream.fields) for name, field in stream.fields.items()},
    )


def _count_hidden(old: Sequence[VisibleRecords], new: VisibleRecords | None) -> int:
    """Count records that the old grants show and the new one hides, each record once."""
    filters = [] if new is None else [new.excluded_rows()]
    hidden = 0
    for grant in old:
        hidden += count_records(grant, filters)
        filters.append(grant.excluded_rows())
    return hidden


def _shown_fields(visible: VisibleRecords | None) -> Iterator[str]:
    """Yield the fields that at least one connection shows."""
    if visible is not None:
        for name in visible.stream.fields:
            if any(sight.terms.fields.allows(name) for sight in visible.granted):
                yield name
