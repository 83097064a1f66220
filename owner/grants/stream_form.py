"""Form for choosing the fields, time range and records of one stream."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django import forms
from django.core.validators import MaxValueValidator, MinValueValidator
from django.forms.boundfield import BoundWidget
from typing_extensions import override

from evidence.access.grant_terms import StreamRequest, resolve_terms
from evidence.access.grant_text import end_of_day, field_detail, field_label, stream_label
from evidence.access.owner_scope import existing_keys
from evidence.access.scope import StreamTerms
from evidence.declarations.declaration import Field, SourceDeclaration, StreamDeclaration
from evidence.errors import ApiException
from evidence.models.owners import current_owner
from owner.form_fields import set_choices
from owner.text import escape_invisible

MAX_REPORTED_KEYS = 5
FORM_FIELDS = {"fields": "chosen", "resources": "record_keys", "since": "since", "until": "until"}
"""Maps the parameter of an API error to the form field that shows it."""
DATE_VALIDATORS = (MinValueValidator(date(1800, 1, 1)), MaxValueValidator(date(2200, 12, 31)))


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamBounds:
    """The most of a stream that can be granted; None means no restriction."""

    fields: frozenset[str] | None = None
    resources: frozenset[str] | None = None
    since: datetime | None = None
    until: datetime | None = None
    connection_ids: frozenset[str] | None = None


UNBOUNDED = StreamBounds()


class StreamForm(forms.Form):
    """Choice of one stream within `bounds`; empty fields fall back on the bounds.

    `terms` and `request` are None until the form is valid with the stream included.
    """

    included = forms.BooleanField(required=False)
    chosen = forms.MultipleChoiceField(
        label="Fields", required=False, widget=forms.CheckboxSelectMultiple
    )
    since = forms.DateField(
        label="From",
        required=False,
        validators=DATE_VALIDATORS,
        widget=forms.DateInput(attrs={"type": "date"}),
    )
    until = forms.DateField(
        label="To (inclusive)",
        required=False,
        validators=DATE_VALIDATORS,
        widget=forms.DateInput(attrs={"type": "date"}),
    )
    record_keys = forms.CharField(
        label="Only these records",
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false"}),
        help_text="One record key per line. Leave empty for all records.",
    )

    def __init__(
        self,
        data: Any = None,
        *,
        prefix: str,
        stream: StreamDeclaration,
        connection_ids: frozenset[str],
        declaration: SourceDeclaration,
        bounds: StreamBounds = UNBOUNDED,
        included: bool = False,
    ) -> None:
        initial = {"included": included} | _initial_values(bounds)
        super().__init__(data, prefix=prefix, initial=initial)
        self.stream = stream
        self.bounds = bounds
        self._declaration = declaration
        self._connection_ids = connection_ids.intersection(
            connection_ids if bounds.connection_ids is None else bounds.connection_ids
        )
        self.terms: StreamTerms | None = None
        self.request: StreamRequest | None = None
        selectable = self.selectable_fields
        choices = [(field.name, field_label(field, stream.fields)) for field in selectable]
        set_choices(self, "chosen", choices)
        self.fields["chosen"].initial = [field.name for field in selectable]
        for name, is_available in (
            ("chosen", bool(selectable)),
            ("since", stream.consent_time_field is not None),
            ("until", stream.consent_time_field is not None),
            ("record_keys", stream.selection_resources),
        ):
            if not is_available:
                del self.fields[name]

    @property
    def selectable_fields(self) -> list[Field]:
        """Return the fields with a checkbox: all allowed ones but the primary key."""
        stream = self.stream
        if not stream.selection_fields:
            return []
        return [
            field
            for field in stream.fields.values()
            if field.name not in stream.primary_key and self._is_allowed(field.name)
        ]

    def _is_allowed(self, field: str) -> bool:
        return self.bounds.fields is None or field in self.bounds.fields

    @property
    def excluded_fields(self) -> list[str]:
        """Return the labels of fields outside the bounds."""
        return [
            self._label_of(name)
            for name in self.stream.fields
            if name not in self.stream.primary_key and not self._is_allowed(name)
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
        return "" if name is None else self._label_of(name)

    @property
    def key_labels(self) -> list[str]:
        """Return the labels of the primary key's fields, which are always included."""
        return [self._label_of(name) for name in self.stream.primary_key]

    def _label_of(self, name: str) -> str:
        return field_label(self.stream.fields[name], self.stream.fields)

    @property
    def boxes(self) -> list[tuple[BoundWidget, str]]:
        """Return each field's checkbox and description."""
        details = [field_detail(field) for field in self.selectable_fields]
        return list(zip(self["chosen"], details, strict=True))

    @property
    def is_expanded(self) -> bool:
        """Return whether to show the details: they contain an error or a restriction."""
        return self.is_bound and (bool(self.errors) or self._is_restricted())

    def _is_restricted(self) -> bool:
        chosen = self.cleaned_data.get("chosen")
        has_fewer_fields = chosen is not None and len(chosen) < len(self.selectable_fields)
        others = ("since", "until", "record_keys")
        return has_fewer_fields or any(self.cleaned_data.get(name) for name in others)

    def clean_record_keys(self) -> list[str] | None:
        """Return the stored keys, or None for no restriction.

        Surrounding spaces are kept only where a stored key contains them.
        """
        lines = [line.removesuffix("\r") for line in self.cleaned_data["record_keys"].split("\n")]
        lines = [line for line in lines if line.strip()]
        if not lines:
            return None
        known = self._existing_keys([*lines, *map(str.strip, lines)])
        keys = [line if line in known else line.strip() for line in lines]
        unknown = [key for key in keys if key not in known]
        if unknown:
            raise forms.ValidationError(
                [
                    f"No record “{escape_invisible(key)}” found."
                    for key in unknown[:MAX_REPORTED_KEYS]
                ]
            )
        return list(dict.fromkeys(keys))

    def _existing_keys(self, keys: Sequence[str]) -> frozenset[str]:
        if self.bounds.resources is not None:
            return self.bounds.resources.intersection(keys)
        return existing_keys(
            current_owner(),
            stream=self.stream.name,
            connection_ids=sorted(self._connection_ids),
            keys=keys,
        )

    @override
    def clean(self) -> None:
        if self.errors or not self.cleaned_data["included"] or not self._connection_ids:
            return
        if "chosen" in self.fields and not self.cleaned_data["chosen"]:
            self.add_error("chosen", "Select at least one field.")
            return
        request = self._stream_request()
        try:
            self.terms = resolve_terms(
                request, streams=self._declaration.streams, connection_ids=self._connection_ids
            )
        except ApiException as error:
            field = FORM_FIELDS.get(error.param or "")
            self.add_error(field if field in self.fields else None, error.message)
        else:
            self.request = request

    def _stream_request(self) -> StreamRequest:
        since, until = self.cleaned_data.get("since"), self.cleaned_data.get("until")
        bounds = self.bounds
        keys = self.cleaned_data.get("record_keys")
        fields: Sequence[str] | None = self.cleaned_data.get("chosen")
        return StreamRequest(
            name=self.stream.name,
            connection_ids=bounds.connection_ids,
            fields=_sorted(bounds.fields) if fields is None else fields,
            resources=_sorted(bounds.resources) if keys is None else keys,
            since=_latest(bounds.since, None if since is None else _midnight(since)),
            until=earliest(bounds.until, None if until is None else end_of_day(_midnight(until))),
        )


def _sorted(names: Iterable[str] | None) -> list[str] | None:
    return None if names is None else sorted(names)


def _latest(*moments: datetime | None) -> datetime | None:
    return max((moment for moment in moments if moment is not None), default=None)


def earliest(*moments: datetime | None) -> datetime | None:
    """Return the earliest of the moments that are not None."""
    return min((moment for moment in moments if moment is not None), default=None)


def _initial_values(bounds: StreamBounds) -> dict[str, object]:
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
