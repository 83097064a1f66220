"""The bodies of search (contract 3.9): hits, their evidence, and what is said of the whole."""

import hashlib
from typing import Any

from evidence.analyser.passages import marked, plain
from evidence.api.envelopes import instant, origin_of, record_route, source_labels, window_read
from evidence.api.params import Notice
from evidence.reading.hits import Excerpt, Hit
from evidence.reading.search import Found

Json = dict[str, Any]


def hit(found: Hit) -> Json:
    """One result. Without a proven text match there is no snippet and no excerpt (B3)."""
    visible, record = found.visible, found.record
    body: Json = {
        "object": "search_result",
        "stream": visible.stream.name,
        "record_key": record.record_key,
        "connector_id": visible.source.connector_key,
        **source_labels(visible, record),
        "emitted_at": instant(record.emitted_at),
        "version": record.version,
        "origin": origin_of(visible, record),
        "matched_fields": list(dict.fromkeys(excerpt.field for excerpt in found.excerpts)),
        "record_url": record_route(visible.stream.name, record.record_key)
        + f"?connection_id={record.connection.connection_id}",
        "score": {
            "kind": "field_impact",
            "value": found.match.rank.score,
            "order": "higher_is_better",
        },
        "evidence_excerpts": [_excerpt(found, excerpt) for excerpt in found.excerpts],
    }
    if found.title is not None:
        body["title"] = found.title
    if found.authored_at is not None:
        body["authored_at"] = found.authored_at
    if found.excerpts:
        best = found.excerpts[0]
        body["snippet"] = {"field": best.field, "text": marked(best.text, best.passage)}
    return body


def meta(found: Found) -> Json:
    """Counts and recall, never more certain than they are."""
    accuracy = "lower_bound" if found.lower_bound else "exact"
    body: Json = {
        "count": found.count,
        "count_accuracy": accuracy,
        "recall": {
            "complete": found.complete,
            "ranking_scope": "all_matches",
            "truncated": not found.complete,
        },
    }
    body["match"] = "all_words" if found.any_word is None else "any_word"
    if found.suggestions:
        body["suggestions"] = {word: list(each) for word, each in found.suggestions.items()}
    if not found.hits:
        body["hint"] = _hint(found)
    elif found.any_word is not None:
        body["note"] = _note(found)
    return body


def _note(found: Found) -> str:
    note = "No record has all the words; these have at least one of them, those with more first."
    return f"{note} {_also_spelt(found)}" if found.any_word else note


def _also_spelt(found: Found) -> str:
    words = ", ".join(
        f"{word!r} (also looked for as {' or '.join(map(repr, others))})"
        for word, others in found.suggestions.items()
    )
    return f"Nothing visible has {words}."


def _hint(found: Found) -> str:
    if found.suggestions:
        words = "; ".join(
            f"{' or '.join(map(repr, others))} instead of {word!r}"
            for word, others in found.suggestions.items()
        )
        return f"Nothing visible matches. What is visible has {words}."
    return (
        "Nothing visible matches. Try fewer or other words, a prefix such as invoi*, "
        "or GET /v1/schema for the streams there are."
    )


def skipped(found: Found) -> list[Notice]:
    """Streams that were asked for by name but have no searchable granted field."""
    if not found.skipped:
        return []
    names = sorted({visible.stream.name for visible in found.skipped})
    return [
        Notice(
            "source_skipped_not_applicable",
            "Streams without a searchable field were passed over.",
            "streams",
            {"streams": names},
        )
    ]


def _excerpt(found: Hit, excerpt: Excerpt) -> Json:
    visible, record, passage = found.visible, found.record, excerpt.passage
    first = passage.marks[0] if passage.marks else (passage.start, passage.start)
    read = window_read(
        visible.stream.name, record.record_key, excerpt.field, record.connection.connection_id
    )
    return {
        "object": "evidence_excerpt",
        "field_path": excerpt.field,
        "preview_text": marked(excerpt.text, passage),
        "plain_text": plain(excerpt.text, passage),
        "start_chars": passage.start,
        "end_chars": passage.end,
        "match_start_chars": first[0],
        "match_end_chars": first[1],
        "total_chars": len(excerpt.text),
        "truncated": passage.start > 0 or passage.end < len(excerpt.text),
        "provenance": "lexical_match",
        "field_sha256": hashlib.sha256(excerpt.text.encode()).hexdigest(),
        "read": read,
    }
