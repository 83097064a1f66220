"""What a draft would show, read through the gate that will enforce it. Nothing is disclosed by it:
the only reader is the owner.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from evidence.access.aggregates import count, kept_counts
from evidence.access.gate import Gate
from evidence.access.grant_text import StreamInWords, day, field_label, joined, stream_label
from evidence.access.owner_scope import owner_scope, tried_scope
from evidence.access.records import VisibleRecord, VisibleRecords
from evidence.access.scope import StreamTerms
from evidence.models.accounts import OWNER_ID
from evidence.reading import records as reading
from owner.formatting import counted, worded
from owner.grants.draft import SourceDraft
from owner.grants.stream_form import StreamForm
from owner.record_text import Value, line, title_of, values_of

SAMPLES = 3
LONGEST_VALUE = 240


@dataclass(frozen=True, slots=True)
class Sample:
    title: str
    at: str
    values: list[Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPreview:
    """``total`` counts what the chosen connections hold, ``count`` what of it is given."""

    words: StreamInWords
    count: int
    total: int
    extent: str
    samples: list[Sample]
    hidden_fields: list[str]

    @property
    def amount(self) -> str:
        """``7 of 12 records``."""
        if self.hidden <= 0:
            return counted(self.count, "record")
        return f"{self.count:,} of {counted(self.total, 'record')}"

    @property
    def hidden(self) -> int:
        return self.total - self.count

    @property
    def unseen(self) -> str:
        """What of the stream stays hidden, in words; empty where nothing does."""
        parts = [counted(self.hidden, "record")] if self.hidden > 0 else []
        if self.hidden_fields:
            parts.append(f"the {_plural(self.hidden_fields)} {joined(self.hidden_fields)}")
        return joined(parts) if parts else ""


Previews = Mapping[str, StreamPreview]
"""By the prefix of the form whose stream it is."""


def previews(sources: Iterable[SourceDraft], *, owner_id: str = OWNER_ID) -> Previews:
    """Of every included stream. A count and a page for each, and a query for all totals."""
    chosen = [source for source in sources if source.terms]
    totals = _totals(chosen, owner_id)
    found: dict[str, StreamPreview] = {}
    for source in chosen:
        # One source at a time: two requests may well be about the same stream.
        scope = tried_scope([(source.offer.source.pk, source.terms)], owner_id=owner_id)
        gate = Gate(scope)
        labels = {each.pk: each.display_name for each in source.connections}
        for form in source.included:
            if form.terms is not None and form.prefix is not None:
                found[form.prefix] = _preview(form, form.terms, gate, labels, totals)
    return found


def _preview(
    form: StreamForm,
    terms: StreamTerms,
    gate: Gate,
    labels: Mapping[str, str],
    totals: Mapping[tuple[str, str], int],
) -> StreamPreview:
    visible = gate.stream(terms.name)
    page = reading.page(visible, limit=SAMPLES, descending=True, after=None, where=())
    return StreamPreview(
        words=worded(terms, stream=form.stream, labels=labels),
        count=reading.count(visible),
        total=sum(totals.get((each, terms.name), 0) for each in terms.connection_ids),
        extent=_extent(visible),
        samples=[_sample(visible, record) for record in page.records],
        hidden_fields=[
            field_label(field)
            for name, field in form.stream.fields.items()
            if not terms.fields.allows(name)
        ],
    )


def _sample(visible: VisibleRecords, record: VisibleRecord) -> Sample:
    at = record.data.get(visible.stream.event_time_field or "")
    return Sample(
        title=title_of(visible, record),
        at=line(at)[:10] if isinstance(at, str) else "",
        values=[
            replace(each, text=" ".join(each.text.split()))
            for each in values_of(visible, record, longest=LONGEST_VALUE)
        ],
    )


def _extent(visible: VisibleRecords) -> str:
    """From when to when, where the time itself is given."""
    if not visible.shows(visible.stream.consent_time_field):
        return ""
    window = reading.window(visible, ())
    if window.earliest_at is None or window.latest_at is None:
        return ""
    first, last = day(window.earliest_at), day(window.latest_at)
    return first if first == last else f"{first} to {last}"


def _totals(sources: Iterable[SourceDraft], owner_id: str) -> Mapping[tuple[str, str], int]:
    wanted = {each for source in sources for each in source.connection_ids}
    visible = Gate(owner_scope(owner_id)).streams()
    return {key: records for key, (records, _) in kept_counts(visible).items() if key[0] in wanted}


def _plural(words: list[str]) -> str:
    return "field" if len(words) == 1 else "fields"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Of one stream: how many records come into sight and go out of it, and which fields."""

    source_pk: int
    stream: str
    label: str
    more: int
    fewer: int
    fields_more: tuple[str, ...]
    fields_fewer: tuple[str, ...]
    labels: dict[str, str]

    @property
    def is_none(self) -> bool:
        return not (self.more or self.fewer or self.fields_more or self.fields_fewer)

    @property
    def sentence(self) -> str:
        """``Your messages: hides 3 records and the field Body text.``"""
        said = [*self._said("exposes", "more ", self.more, self.fields_more)]
        said += [*self._said("hides", "", self.fewer, self.fields_fewer)]
        return f"{self.label}: {joined(said)}."

    def _said(self, verb: str, more: str, records: int, fields: tuple[str, ...]) -> Iterator[str]:
        parts = [counted(records, f"{more}record")] if records else []
        if fields:
            names = joined([self.labels[each] for each in fields])
            parts.append(f"the {'field' if len(fields) == 1 else 'fields'} {names}")
        if parts:
            yield f"{verb} {' and '.join(parts)}"


def differences(before: Sequence[Gate], after: Gate) -> list[Difference]:
    """Between what several grants show now, taken together, and what a change would show: the streams
    that differ. Two counts for each stream."""
    old: dict[tuple[int, str], list[VisibleRecords]] = {}
    for gate in before:
        for visible in gate.streams():
            old.setdefault(_key(visible), []).append(visible)
    new = {_key(visible): visible for visible in after.streams()}
    found = (_difference(old.get(key, []), new.get(key)) for key in {**old, **new})
    return [each for each in found if not each.is_none]


def gains(before: Sequence[Gate], after: Gate) -> list[Difference]:
    """Only what comes into sight, where nothing of what is held goes."""
    added = (
        Difference(
            source_pk=each.source_pk, stream=each.stream, label=each.label, labels=each.labels,
            more=each.more, fields_more=each.fields_more, fewer=0, fields_fewer=(),
        )
        for each in differences(before, after)
    )  # fmt: skip
    return [each for each in added if not each.is_none]


def _key(visible: VisibleRecords) -> tuple[int, str]:
    return visible.source.source_pk, visible.stream.name


def _difference(old: Sequence[VisibleRecords], new: VisibleRecords | None) -> Difference:
    some = new or old[0]
    was, becomes = {name for each in old for name in _fields(each)}, set(_fields(new))
    return Difference(
        source_pk=some.source.source_pk,
        stream=some.stream.name,
        label=stream_label(some.stream),
        more=0 if new is None else count(new, [each.beyond() for each in old]),
        fewer=_lost(old, new),
        fields_more=tuple(name for name in some.stream.fields if name in becomes - was),
        fields_fewer=tuple(name for name in some.stream.fields if name in was - becomes),
        labels={name: field_label(field) for name, field in some.stream.fields.items()},
    )


def _lost(old: Sequence[VisibleRecords], new: VisibleRecords | None) -> int:
    """Records of the old ones, each once, that are not among the new."""
    passed = [] if new is None else [new.beyond()]
    lost = 0
    for each in old:
        lost += count(each, passed)
        passed.append(each.beyond())
    return lost


def _fields(visible: VisibleRecords | None) -> Iterator[str]:
    """Those that at least one connection shows."""
    if visible is not None:
        for name in visible.stream.fields:
            if any(sight.terms.fields.allows(name) for sight in visible.sights):
                yield name
