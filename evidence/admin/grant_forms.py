"""The forms behind "Give access": who, what of each stream, and on which terms."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django import forms
from django.core.validators import MaxValueValidator, MinValueValidator
from django.forms.boundfield import BoundWidget
from typing_extensions import override

from evidence import limits
from evidence.access.describing import field_detail, field_label, stream_label, through_day
from evidence.access.handing_over import MCP, REST
from evidence.access.resolving import StreamRequest, resolved
from evidence.access.scope import StreamTerms
from evidence.admin.clients import printable
from evidence.declarations.types import Field, SourceDeclaration, StreamDeclaration
from evidence.models.clients import Client
from evidence.models.connections import Connection
from evidence.refusals import Refusal

FORM_FIELDS = {"fields": "chosen", "resources": "record_keys", "since": "since", "until": "until"}
"""Parameter of a refusal -> field of the form that shows it."""

NEVER = "never"
ENDS = (
    ("1", "in 24 hours"),
    ("7", "in 7 days"),
    ("30", "in 30 days"),
    ("90", "in 90 days"),
    ("180", "in half a year"),
    ("365", "in a year"),
    (NEVER, "never; I will end it myself"),
)
TOKENS = (
    (MCP, "an AI agent, such as Claude or Codex"),
    (REST, "a program or script of mine"),
)
A_DAY = (MinValueValidator(date(1800, 1, 1)), MaxValueValidator(date(2200, 12, 31)))


class WhoForm(forms.Form):
    """The client, known or new, and the connections."""

    client = forms.ChoiceField(label="Known client", required=False)
    new_client = forms.CharField(
        label="New client",
        required=False,
        max_length=limits.LABEL_MAX_CHARS,
        help_text="Name it so that you will know it again, such as “Claude on my laptop”.",
    )
    connections = forms.MultipleChoiceField(
        label="Which of your connections may it read?",
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": "Tick at least one connection."},
    )

    def __init__(
        self, data: Any = None, *, clients: Sequence[Client], connections: Sequence[Connection]
    ) -> None:
        super().__init__(data)
        self._clients = {client.pk: client for client in clients}
        self._connections = connections
        named = [(client.pk, client.display_name) for client in clients]
        _choices(self, "client", [("", "A new client"), *named])
        _choices(self, "connections", [(each.pk, each.display_name) for each in connections])

    def clean_new_client(self) -> str:
        name = printable(self.cleaned_data["new_client"].strip())
        if any(client.display_name == name for client in self._clients.values()):
            raise forms.ValidationError("There is a client of that name; choose it in the list.")
        return name

    @override
    def clean(self) -> None:
        if self.errors:
            return
        known, new = self.cleaned_data["client"], self.cleaned_data["new_client"]
        if known and new:
            self.add_error("new_client", "Choose a known client or name a new one, not both.")
        if not known and not new:
            self.add_error("new_client", "Give the new client a name, or choose a known one.")

    @property
    def groups(self) -> list[tuple[str, list[BoundWidget]]]:
        """The boxes of the connections, under the names of their sources."""
        together: dict[str, list[BoundWidget]] = {}
        for box, connection in zip(self["connections"], self._connections, strict=True):
            together.setdefault(connection.source.display_name, []).append(box)
        return list(together.items())

    @property
    def known_client(self) -> Client | None:
        return self._clients.get(self.cleaned_data["client"])

    @property
    def client_name(self) -> str:
        known = self.known_client
        name: str = self.cleaned_data["new_client"] if known is None else known.display_name
        return name


class StreamForm(forms.Form):
    """What of one stream. Nothing of it where it is not included."""

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
    ) -> None:
        super().__init__(data, prefix=prefix)
        self.stream = stream
        self._declaration = declaration
        self._connection_ids = connection_ids
        self.terms: StreamTerms | None = None
        self.request: StreamRequest | None = None
        _choices(self, "chosen", [(field.name, field_label(field)) for field in self.choosable])
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
        return [field for field in stream.fields.values() if field.name not in stream.primary_key]

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
        keys = [line.strip() for line in self.cleaned_data["record_keys"].splitlines()]
        wanted = list(dict.fromkeys(filter(None, keys)))
        long = [key for key in wanted if len(key.encode()) > limits.RECORD_KEY_MAX_BYTES]
        if long:
            raise forms.ValidationError(
                f"A record key has at most {limits.RECORD_KEY_MAX_BYTES} bytes."
            )
        return wanted or None

    @override
    def clean(self) -> None:
        if self.errors or not self.cleaned_data["included"]:
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
        chosen = self.cleaned_data.get("chosen")
        return StreamRequest(
            name=self.stream.name,
            fields=None if chosen is None else chosen,
            resources=self.cleaned_data.get("record_keys"),
            since=None if since is None else _midnight(since),
            until=None if until is None else through_day(_midnight(until)),
        )


class TokensForm(forms.Form):
    tokens = forms.MultipleChoiceField(
        label="Make a token for",
        choices=TOKENS,
        initial=[MCP],
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": "Tick at least one."},
    )


class TermsForm(TokensForm):
    """What holds for all of it."""

    purpose = forms.CharField(
        label="What for?",
        required=False,
        max_length=1000,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="In your own words, to remember later why you gave it.",
    )
    ends = forms.ChoiceField(label="Access ends", choices=ENDS, initial="90")
    field_order = ("purpose", "ends", "tokens")

    def ends_at(self, now: datetime) -> datetime | None:
        days = self.cleaned_data["ends"]
        return None if days == NEVER else now + timedelta(days=int(days))


def _choices(form: forms.Form, name: str, choices: Sequence[tuple[str, str]]) -> None:
    field = form.fields[name]
    if not isinstance(field, forms.ChoiceField):
        raise TypeError(f"{name} offers no choices")
    field.choices = choices


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time.min, UTC)
