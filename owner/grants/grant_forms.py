"""Forms for what a grant includes: connections, streams, fields, time range, records, and its terms.

Nothing is stored: `DraftForms` has what the owner chose on one page, until the grants are issued.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django import forms
from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.forms.boundfield import BoundField, BoundWidget
from django.http import QueryDict
from django.utils import timezone
from typing_extensions import override

from evidence.access.grant_terms import StreamRequest, resolve_terms
from evidence.access.grant_text import (
    end_of_day,
    field_detail,
    field_label,
    format_day,
    join_words,
    stream_label,
)
from evidence.access.grants import DEFAULT_PURPOSE, GrantRequest
from evidence.access.owner_scope import existing_keys
from evidence.access.quotas import QuotaLimits
from evidence.access.scope import QuotaUsage, StreamTerms
from evidence.declarations.declaration import Field, SourceDeclaration, StreamDeclaration
from evidence.errors import ApiException
from evidence.models.connections import Connection
from evidence.models.owners import current_owner
from owner.form_fields import set_choices
from owner.grants.grantable_sources import UNBOUNDED, GrantableSource, StreamBounds
from owner.setup_snippets import MCP, REST
from owner.text import escape_invisible, pluralize

PERIODS = ("minute", "hour", "day")
PER_PERIOD = {"minute": "per minute", "hour": "per hour", "day": "per day"}
UNITS = {"calls": ("Calls", 1), "records": ("Records", 1), "bytes": ("Kilobytes", 1_000)}
"""The label of each measure, and how many of it one unit on the page is."""
MAX_LIMIT = 10**12
LIMIT_ERRORS = {
    "min_value": "At least 1.",
    "max_value": "Too large.",
    "invalid": "Not a number.",
}
"""Short, because they stand in the cells of a table."""


def limit_field_name(measure: str, period: str) -> str:
    """Return the name of the form field for a limit."""
    return f"max_{measure}_{period}"


def _limit_field(measure: str, period: str) -> forms.IntegerField:
    label = f"{UNITS[measure][0]} {PER_PERIOD[period]}"
    return forms.IntegerField(
        required=False,
        min_value=1,
        max_value=MAX_LIMIT,
        label=label,
        error_messages=LIMIT_ERRORS,
        widget=forms.NumberInput(
            attrs={"aria-label": label, "placeholder": "none", "class": "limit"}
        ),
    )


class LimitsForm(forms.Form):
    """An optional limit for each measure and period."""

    max_calls_minute, max_calls_hour, max_calls_day = (
        _limit_field("calls", period) for period in PERIODS
    )
    max_records_minute, max_records_hour, max_records_day = (
        _limit_field("records", period) for period in PERIODS
    )
    max_bytes_minute, max_bytes_hour, max_bytes_day = (
        _limit_field("bytes", period) for period in PERIODS
    )

    @property
    def limit_rows(self) -> list[tuple[str, list[BoundField]]]:
        """Return the rows of the table: a measure with a box for each period."""
        return [
            (label, [self[limit_field_name(measure, period)] for period in PERIODS])
            for measure, (label, _) in UNITS.items()
        ]

    @property
    def has_limits(self) -> bool:
        """Return whether any box has a value or an error."""
        return any(box.value() or box.errors for box in self.boxes)

    @property
    def boxes(self) -> list[BoundField]:
        return [box for _, boxes in self.limit_rows for box in boxes]

    @property
    def limits(self) -> QuotaLimits:
        """Return the limits of a valid form."""
        return dict(self._filled_limits())

    @property
    def has_valid_limits(self) -> bool:
        return self.is_valid() and bool(self.limits)

    @property
    def limits_text(self) -> str:
        """Return ``100 records per hour and 5 calls per minute``, or ``no limit``."""
        texts = [
            f"{describe_amount(measure, amount)} {PER_PERIOD[period]}"
            for (measure, period), amount in self.limits.items()
        ]
        return join_words(texts or ["no limit"])

    def _filled_limits(self) -> Iterator[tuple[tuple[str, str], int]]:
        for measure, (_, unit) in UNITS.items():
            for period in PERIODS:
                limit = self.cleaned_data[limit_field_name(measure, period)]
                if limit is not None:
                    yield (measure, period), limit * unit


def describe_amount(measure: str, amount: int) -> str:
    """Return ``1 call`` or ``100 records``."""
    label, unit = UNITS[measure]
    return pluralize(-(-amount // unit), label.lower().removesuffix("s"))


def format_amount(measure: str, amount: int) -> str:
    """Return an amount in page units, rounded up."""
    return f"{-(-amount // UNITS[measure][1]):,}"


NEVER = "never"
AS_REQUESTED = "as-requested"
EXPIRY_CHOICES = (
    ("1", "in 24 hours"),
    ("7", "in 7 days"),
    ("30", "in 30 days"),
    ("90", "in 90 days"),
    ("180", "in half a year"),
    ("365", "in a year"),
    (NEVER, "never"),
)


class ExpiryForm(forms.Form):
    """When all grants expire, `latest_expiry` at the latest."""

    expires = forms.ChoiceField(label="Access expires", choices=EXPIRY_CHOICES, initial="90")
    purpose_description = ""
    """The owner's purpose, of a form that asks for it."""

    def __init__(
        self, data: Any = None, *, prefix: str | None = None, latest_expiry: datetime | None = None
    ) -> None:
        super().__init__(data, prefix=prefix)
        self._latest_expiry = latest_expiry
        if latest_expiry is not None:
            latest = (AS_REQUESTED, f"on {format_day(latest_expiry)} at the latest")
            set_choices(self, "expires", [*_choices_before(latest_expiry), latest])
            self.fields["expires"].initial = AS_REQUESTED

    def expires_at(self, now: datetime) -> datetime | None:
        days = self.cleaned_data["expires"]
        if days in (NEVER, AS_REQUESTED):
            return self._latest_expiry
        expires_at = now + timedelta(days=int(days))
        return expires_at if self._latest_expiry is None else min(expires_at, self._latest_expiry)

    @property
    def expiry_text(self) -> str:
        """Return ``Access expires in 30 days`` or ``Access does not expire``."""
        value = self.cleaned_data["expires"]
        if value == NEVER:
            return "Access does not expire"
        choices = dict(self.fields["expires"].choices)  # type: ignore[attr-defined] # a ChoiceField
        return f"Access expires {choices[value]}"


def _choices_before(latest_expiry: datetime) -> list[tuple[str, str]]:
    remaining = latest_expiry - timezone.now()
    return [
        (days, label)
        for days, label in EXPIRY_CHOICES
        if days != NEVER and timedelta(days=int(days)) < remaining
    ]


class GrantLimitsForm(LimitsForm):
    """A grant's limits, and the share of a stream after which it is paused automatically."""

    share = forms.IntegerField(
        required=False,
        min_value=0,
        max_value=100,
        label="Pause automatically after this percentage of a stream",
        widget=forms.NumberInput(attrs={"class": "limit"}),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["share"].widget.attrs["placeholder"] = str(settings.PDPP_TRIPWIRE_SHARE)
        self.fields["share"].help_text = (
            f"Counted over {settings.PDPP_TRIPWIRE_HOURS} hours, in streams of at least"
            f" {settings.PDPP_TRIPWIRE_RECORDS:,} records. Enter 0 to never pause. If empty, the"
            f" default of {settings.PDPP_TRIPWIRE_SHARE} applies."
        )

    @property
    @override
    def boxes(self) -> list[BoundField]:
        return [self["share"], *super().boxes]


def current_limits(limits: Sequence[QuotaUsage], *, share: int | None) -> dict[str, Any]:
    """Return the initial values of GrantLimitsForm."""
    values = {
        limit_field_name(limit.measure, limit.period): -(-limit.most // UNITS[limit.measure][1])
        for limit in limits
    }
    return {**values, "share": share}


def usage_texts(limits: Sequence[QuotaUsage]) -> list[str]:
    """Return ``12 of 100 records this hour`` or ``12 of 100 records today`` for each limit."""
    return [
        f"{format_amount(limit.measure, limit.used)} of"
        f" {describe_amount(limit.measure, limit.most)}"
        f" {'today' if limit.period == 'day' else f'this {limit.period}'}"
        for limit in limits
    ]


TOKEN_CHOICES = ((MCP, "an AI agent, such as Claude or Codex"), (REST, "my own app or script"))


class TokensForm(forms.Form):
    """The resources to create tokens for."""

    tokens = forms.MultipleChoiceField(
        label="Create a token for",
        choices=TOKEN_CHOICES,
        initial=[MCP],
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": "Select at least one."},
    )


MAX_REPORTED_KEYS = 5
FORM_FIELDS = {"fields": "chosen", "resources": "record_keys", "since": "since", "until": "until"}
"""Maps the parameter of an API error to the form field that shows it."""
DATE_VALIDATORS = (MinValueValidator(date(1800, 1, 1)), MaxValueValidator(date(2200, 12, 31)))


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


TERMS_PREFIX = "terms"
LIMITS_PREFIX = "limits"


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
    """The forms of one source: its connections, and each of its streams for the selected ones."""

    source: GrantableSource
    connections_form: ConnectionsForm
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


def _stream_forms(
    source: GrantableSource,
    connections: Sequence[Connection],
    data: QueryDict | None,
    *,
    included: bool = False,
) -> list[StreamForm]:
    """Return the forms of the streams of a source; `included` is their initial state."""
    return [
        StreamForm(
            data,
            prefix=f"{source.prefix}-{number}",
            stream=stream,
            connection_ids=frozenset(connection.pk for connection in connections),
            declaration=source.declaration,
            bounds=source.bounds[stream.name],
            included=included,
        )
        for number, stream in enumerate(source.declaration.streams.values())
        if stream.name in source.bounds
    ]


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


class DraftForms:
    """Bind the posted form to the sources that may be granted.

    Without `data` the forms have their initial values; `selected` then selects all connections, and
    `expires` an end.
    """

    def __init__(
        self,
        sources: Sequence[GrantableSource],
        data: QueryDict | None,
        *,
        latest_expiry: datetime | None = None,
        selected: bool = False,
        expires: str = "",
    ) -> None:
        if data is None:
            data = _initial_data(sources, latest_expiry=latest_expiry, selected=selected)
            if expires:
                data[f"{TERMS_PREFIX}-expires"] = expires
        if "pick" in data:
            bound = [_bind(source, data) for source in sources]
            streams = [form for source in bound for form in source.streams]
            data = select_view(data, str(data["pick"]), forms=streams)
        self.sources = [_bind(source, data) for source in sources]
        self.terms = ExpiryForm(data, prefix=TERMS_PREFIX, latest_expiry=latest_expiry)
        self.limits = LimitsForm(data, prefix=LIMITS_PREFIX)
        self.selected = [source for source in self.sources if source.connections]

    def check(self) -> bool:
        """Return whether grants can be issued from the forms; fills in all errors."""
        sources = [source.check() for source in self.selected]
        return self.limits.is_valid() and all([bool(sources), *sources, self.terms.is_valid()])

    @property
    def has_errors(self) -> bool:
        """Return whether the posted forms have errors."""
        forms = [form for source in self.selected for form in source.streams]
        in_forms = any(form.errors for form in (*forms, self.terms, self.limits))
        return in_forms or any(source.error for source in self.selected)

    def requests(self, now: datetime) -> list[GrantRequest]:
        """Return the grants to issue, one for each selected source. Call `check` first."""
        return [source.request(self.terms, now) for source in self.selected]

    @property
    def is_all_demo(self) -> bool:
        """Return whether there is only demo data to choose from."""
        return bool(self.sources) and all(each.source.is_demo for each in self.sources)

    @property
    def is_empty(self) -> bool:
        """Return whether no connection is selected."""
        return not self.selected


def is_form_field(sources: Iterable[GrantableSource], name: str) -> bool:
    """Return whether the forms over these sources have a field with that name."""
    prefixes = [*(source.prefix for source in sources), TERMS_PREFIX, LIMITS_PREFIX]
    return any(name.startswith(f"{prefix}-") for prefix in prefixes)


def _bind(source: GrantableSource, data: QueryDict) -> SourceForms:
    form = ConnectionsForm(data, source=source, selected=False)
    ids = set(form.cleaned_data["connections"]) if form.is_valid() else set()
    selected = [connection for connection in source.connections if connection.pk in ids]
    return SourceForms(source, form, selected, _stream_forms(source, selected, data))


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
        yield from _stream_forms(source, source.connections, None, included=True)
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
