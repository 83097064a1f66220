"""The form in which the owner chooses what a grant includes: consent, give access, and narrow.

What one rendering of the form would grant is signed, so that only what the owner saw can be allowed.
Expiry and limits are not signed: they apply as the owner typed them.
"""

import hashlib
import hmac
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from django.http import HttpRequest

from evidence.access.crypto import key_for
from evidence.access.grant_terms import serialize_terms
from evidence.access.grant_text import join_words, merge_descriptions, quote_labels
from evidence.models.owners import current_owner
from owner.grants.draft import DraftForms, SourceDraft, SourceForms
from owner.grants.grantable_sources import readable_connections
from owner.grants.preview import PreviewsByForm, StreamPreview, preview_sources
from owner.grants.stream_form import StreamForm
from owner.text import one_line, pluralize

FORM_FIELDS = frozenset(
    {"csrfmiddlewaretoken", "decision", "pick", "form_token", "review_signature"}
)
MAX_BRIEF_LABELS = 3
MAX_BRIEF_LABEL = 24
"""Characters of a name: two lines of a phone contain the counts and three names."""
HAS_ERRORS = "Correct the fields marked below."


@dataclass(frozen=True, slots=True)
class StreamRow:
    form: StreamForm
    preview: StreamPreview | None


@dataclass(frozen=True, slots=True)
class SourceRow:
    forms: SourceForms
    streams: list[StreamRow]

    @property
    def previews(self) -> list[StreamPreview]:
        """Return the previews of the streams that are included."""
        return [row.preview for row in self.streams if row.preview is not None]

    @property
    def is_expanded(self) -> bool:
        """Return whether to show its streams: they have an error, a restriction, or one is left out."""
        draft = self.forms.draft
        is_selected = bool(draft.connections)
        return is_selected and (
            len(draft.included) < len(draft.streams)
            or any(form.is_expanded for form in draft.streams)
        )


@dataclass(frozen=True, slots=True)
class ReviewedForms:
    """The forms as posted. `subject` is any JSON value that identifies what is decided on."""

    request: HttpRequest
    forms: DraftForms
    subject: object

    @property
    def form_token(self) -> str:
        """Return the token of the posted rendering."""
        return str(self.request.POST.get("form_token", ""))

    def find_error(self, *, nothing_selected: str, changed: str) -> str:
        """Return an empty string if the owner has seen exactly what an approval would grant."""
        if self.forms.is_empty:
            return nothing_selected
        if not self.forms.check():
            return HAS_ERRORS
        signature = self.request.POST.get("review_signature", "")
        if not self.form_token or not verify_review(signature, self._signature(self.form_token)):
            return changed
        return ""

    def context(self, *, error: str = "") -> dict[str, Any]:
        """Return the context of ``owner/grants/edit.html``."""
        forms, form_token = self.forms, secrets.token_urlsafe(16)
        is_complete = forms.check()
        if not is_complete and not forms.is_empty and forms.has_errors:
            error = error or HAS_ERRORS
        previews = preview_sources(forms.draft.sources)
        rows = source_rows(forms.sources, previews)
        return {
            "error": error,
            "rows": rows,
            "is_all_demo": forms.is_all_demo,
            "terms": forms.terms,
            "limits": forms.limits,
            "max_usage": forms.limits.limits_text if forms.limits.has_valid_limits else "",
            "sentences": merge_descriptions(preview.words for preview in previews.values()),
            "hidden_parts": [*describe_hidden(forms, previews)],
            "expires": forms.terms.expiry_text if forms.terms.is_valid() else "",
            "brief": _brief(rows),
            "form_token": form_token,
            "review_signature": self._signature(form_token) if is_complete else "",
        }

    def _signature(self, form_token: str) -> str:
        return review_signature(
            self.forms.draft.sources,
            subject=self.subject,
            form_token=form_token,
            user_pk=self.request.user.pk,
        )


def review_signature(
    sources: Sequence[SourceDraft], *, subject: object, form_token: str, user_pk: object
) -> str:
    """Sign what one rendering of a form would grant, for one user."""
    reviewed = {
        "subject": subject,
        "form_token": form_token,
        "user": user_pk,
        "sources": [_granted_rights(source) for source in sources],
    }
    content = orjson.dumps(reviewed, option=orjson.OPT_SORT_KEYS)
    return hmac.digest(key_for("consent revision"), content, hashlib.sha256).hex()


def _granted_rights(source: SourceDraft) -> dict[str, object]:
    return {
        "source": source.source.source.pk,
        "declaration": source.source.declaration_pk,
        "labels": [[connection.pk, connection.display_name] for connection in source.connections],
        "streams": serialize_terms(source.terms, time_fields={}),
    }


def verify_review(signature: str, expected: str) -> bool:
    """Compare two signatures in constant time."""
    return hmac.compare_digest(signature.encode(), expected.encode())


def _brief(rows: Sequence[SourceRow]) -> tuple[str, str] | None:
    """Return ``("1,204 records", "Mail and Chat")``: counts and sources; None if nothing is selected."""
    read = [row for row in rows if row.previews]
    if not read:
        return None
    labels = [one_line(row.forms.draft.label, max_length=MAX_BRIEF_LABEL) for row in read]
    if len(labels) > MAX_BRIEF_LABELS:
        labels = [
            *labels[: MAX_BRIEF_LABELS - 1],
            f"{len(labels) - MAX_BRIEF_LABELS + 1} more sources",
        ]
    count = sum(preview.count for row in read for preview in row.previews)
    return pluralize(count, "record"), join_words(labels)


def source_rows(sources: Sequence[SourceForms], previews: PreviewsByForm) -> list[SourceRow]:
    """Combine the forms of each source with the previews of its streams."""
    return [
        SourceRow(
            source,
            [StreamRow(form, previews.get(str(form.prefix))) for form in source.draft.streams],
        )
        for source in sources
    ]


def describe_hidden(forms: DraftForms, previews: PreviewsByForm) -> Iterator[str]:
    """Yield what stays hidden: records and fields, streams, and connections."""
    for preview in previews.values():
        if preview.hidden_text:
            yield f"{preview.words.label}: {preview.hidden_text}"
    selected: set[str] = set()
    for source in forms.draft.sources:
        selected.update(source.connection_ids)
        excluded = [form.label for form in source.streams if form.terms is None and not form.errors]
        if excluded:
            yield f"{source.label}: all of {quote_labels(excluded)}"
    others = [row.label for row in readable_connections(current_owner()) if row.pk not in selected]
    if others:
        yield f"Everything in {quote_labels(others)}"
