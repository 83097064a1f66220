"""What a draft would show, read through the gate that will enforce it. Nothing is disclosed by it:
the only reader is the owner.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from evidence.access.counts import kept_counts
from evidence.access.describing import StreamInWords, day, field_label, joined
from evidence.access.gate import Gate
from evidence.access.owning import owner_scope
from evidence.access.rows import VisibleRecord, VisibleRecords
from evidence.access.scope import StreamTerms
from evidence.access.trying import tried_scope
from evidence.consent.drafts import SourceDraft
from evidence.consent.plain_text import line
from evidence.consent.showing import Value, title_of, values_of
from evidence.consent.stream_form import StreamForm
from evidence.consent.wording import counted, worded
from evidence.models.owners import OWNER_ID
from evidence.reading import records as reading

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
