"""What of one stream: the form for it, on the consent page and wherever else access is given."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django import forms
from django.core.validators import MaxValueValidator, MinValueValidator
from django.forms.boundfield import BoundWidget
from typing_extensions import override

from evidence.access.aggregates import known_keys
from evidence.access.grant_terms import StreamRequest, resolved
from evidence.access.grant_text import field_detail, field_label, stream_label, through_day
from evidence.access.scope import StreamTerms
from evidence.declarations.declaration import Field, SourceDeclaration, StreamDeclaration
from evidence.errors import Refusal
from evidence.models.accounts import OWNER_ID
from owner.form_fields import offer
from owner.record_text import plain

A_FEW = 5
FORM_FIELDS = {"fields": "chosen", "resources": "record_keys", "since": "since", "until": "until"}
"""Parameter of a refusal -> field of the form that shows it."""

A_DAY = (MinValueValidator(date(1800, 1, 1)), MaxValueValidator(date(2200, 12, 31)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """At most this of a stream can be given; None means all there is."""

    fields: frozenset[str] | None = None
    resources: frozenset[str] | None = None
    since: datetime | None = None
    until: datetime | None = None
    connection_ids: frozenset[str] | None = None


UNBOUNDED = Bounds()


class StreamForm(forms.Form):
    """What of one stream. Nothing of it where it is not included.

    Whatever is filled in only narrows ``bounds``, and what is left empty falls back on them.
    """

    included = forms.BooleanField(required=False)
    chosen = forms.MultipleChoiceField(
        label="Fields", required=False, widget=forms.CheckboxSelectMultiple
    )
    since = forms.DateField(
        label="From",
        required=False,
        validators=A_DAY,
        widget=forms.DateInput(attrs={"type": "date"}),
    )
    until = forms.DateField(
        label="To the end of",
        required=False,
        validators=A_DAY,
        widget=forms.DateInput(attrs={"type": "date"}),
    )
    record_keys = forms.CharField(
        label="Only these single records",
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false"}),
        help_text="One record key a line. Leave it empty for all records.",
    )

    def __init__(
        self,
        data: Any = None,
        *,
        prefix: str,
        stream: StreamDeclaration,
        connection_ids: frozenset[str],
        declaration: SourceDeclaration,
        bounds: Bounds = UNBOUNDED,
        included: bool = False,
    ) -> None:
        super().__init__(data, prefix=prefix, initial={"included": included} | _days(bounds))
        self.stream = stream
        self.bounds = bounds
        self._declaration = declaration
        self._connection_ids = connection_ids.intersection(
            connection_ids if bounds.connection_ids is None else bounds.connection_ids
        )
        self.terms: StreamTerms | None = None
        self.request: StreamRequest | None = None
        offer(self, "chosen", [(field.name, field_label(field)) for field in self.choosable])
        self.fields["chosen"].initial = [field.name for field in self.choosable]
        for name, offered in (
            ("chosen", bool(self.choosable)),
            ("since", stream.consent_time_field is not None),
            ("until", stream.consent_time_field is not None),
            ("record_keys", stream.selection_resources),
        ):
            if not offered:
                del self.fields[name]

    @property
    def choosable(self) -> list[Field]:
        """The fields with a box to tick: all but the key, where the stream is given by field."""
        stream = self.stream
        if not stream.selection_fields:
            return []
        return [
            field
            for field in stream.fields.values()
            if field.name not in stream.primary_key and self._may_have(field.name)
        ]

    def _may_have(self, field: str) -> bool:
        return self.bounds.fields is None or field in self.bounds.fields

    @property
    def beyond(self) -> list[str]:
        """The fields that cannot be ticked, because they are outside the bounds."""
        outside = set(self.stream.fields) - set(self.stream.primary_key)
        return [
            field_label(each)
            for name, each in self.stream.fields.items()
            if name in outside and not self._may_have(name)
        ]

    @property
    def label(self) -> str:
        return stream_label(self.stream)

    @property
    def about(self) -> str:
        return self.stream.detail or self.stream.description or ""

    @property
    def time_label(self) -> str:
        name = self.stream.consent_time_field
        return "" if name is None else field_label(self.stream.fields[name])

    @property
    def keys(self) -> list[str]:
        """The fields that are always given, because they tell the records apart."""
        return [field_label(self.stream.fields[name]) for name in self.stream.primary_key]

    @property
    def boxes(self) -> list[tuple[BoundWidget, str]]:
        """A box for each field, and what there is to say about it."""
        details = [field_detail(field) for field in self.choosable]
        return list(zip(self["chosen"], details, strict=True))

    @property
    def is_open(self) -> bool:
        """Whether the details are worth seeing at once: something in them is not as it was."""
        return self.is_bound and (bool(self.errors) or self._says_something())

    def _says_something(self) -> bool:
        told = self.cleaned_data
        chosen = told.get("chosen")
        narrowed = chosen is not None and len(chosen) < len(self.choosable)
        return narrowed or any(told.get(name) for name in ("since", "until", "record_keys"))

    def clean_record_keys(self) -> list[str] | None:
        """The keys as they are stored; space around a line counts only where a key has it."""
        lines = [line.removesuffix("\r") for line in self.cleaned_data["record_keys"].split("\n")]
        lines = [line for line in lines if line.strip()]
        if not lines:
            return None
        known = self._choosable_keys([*lines, *map(str.strip, lines)])
        keys = [line if line in known else line.strip() for line in lines]
        unknown = [key for key in keys if key not in known]
        if unknown:
            raise forms.ValidationError(
                [f"There is no record “{plain(key)}” here." for key in unknown[:A_FEW]]
            )
        return list(dict.fromkeys(keys))

    def _choosable_keys(self, keys: Sequence[str]) -> frozenset[str]:
        if self.bounds.resources is not None:
            return self.bounds.resources.intersection(keys)
        return self._known_keys(keys)

    def _known_keys(self, keys: Sequence[str]) -> frozenset[str]:
        return known_keys(
            OWNER_ID,
            stream=self.stream.name,
            connection_ids=sorted(self._connection_ids),
            keys=keys,
        )

    @override
    def clean(self) -> None:
        if self.errors or not self.cleaned_data["included"] or not self._connection_ids:
            return
        if "chosen" in self.fields and not self.cleaned_data["chosen"]:
            self.add_error("chosen", "Tick at least one field.")
            return
        request = self._requested()
        try:
            self.terms = resolved(
                request, streams=self._declaration.streams, connection_ids=self._connection_ids
            )
        except Refusal as refusal:
            field = FORM_FIELDS.get(refusal.param or "")
            self.add_error(field if field in self.fields else None, refusal.message)
        else:
            self.request = request

    def _requested(self) -> StreamRequest:
        since, until = self.cleaned_data.get("since"), self.cleaned_data.get("until")
        bounds = self.bounds
        keys = self.cleaned_data.get("record_keys")
        return StreamRequest(
            name=self.stream.name,
            connection_ids=bounds.connection_ids,
            fields=self._requested_fields(),
            resources=_sorted(bounds.resources) if keys is None else keys,
            since=_latest(bounds.since, None if since is None else _midnight(since)),
            until=_earliest(bounds.until, None if until is None else through_day(_midnight(until))),
        )

    def _requested_fields(self) -> Sequence[str] | None:
        chosen: Sequence[str] | None = self.cleaned_data.get("chosen")
        return _sorted(self.bounds.fields) if chosen is None else chosen


def _sorted(names: Iterable[str] | None) -> list[str] | None:
    return None if names is None else sorted(names)


def _latest(*moments: datetime | None) -> datetime | None:
    return max((each for each in moments if each is not None), default=None)


def _earliest(*moments: datetime | None) -> datetime | None:
    return min((each for each in moments if each is not None), default=None)


def _days(bounds: Bounds) -> dict[str, object]:
    """What the form says at first: the bounds, by the day."""
    since, until = bounds.since, bounds.until
    return {
        "since": None if since is None else since.astimezone(UTC).date(),
        "until": None
        if until is None
        else (until.astimezone(UTC) - timedelta(microseconds=1)).date(),
        "record_keys": "\n".join(sorted(bounds.resources or ())),
    }


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time.min, UTC)
