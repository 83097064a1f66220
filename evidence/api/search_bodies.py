"""The bodies of search (contract 3.9): hits, their evidence, and what is said of the whole."""

import hashlib
from typing import Any

from evidence.access.ranking.vectors import MILLIONTHS
from evidence.api.envelopes import instant, origin_of, record_route, source_labels, window_read
from evidence.api.query_parameters import Notice
from evidence.search.analysis.highlighter import marked, plain
from evidence.search.query_planner import HYBRID, LEXICAL
from evidence.search.results import Excerpt, Found, Hit

Json = dict[str, Any]

UNEMBEDDED = "The newest records there are not yet found by their meaning; by their words they are."
OUTDATED = (
    "The words there are being indexed anew; until that is done, records with another form of a"
    " word may be missing, and the exact words are found."
)


def hit(found: Hit, *, mode: str) -> Json:
    """One result. Without a proven text match there is no excerpt (B3); the snippet of a hit that
    is near in meaning says so, and where to read on."""
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
        **_ranking(found, mode),
        "evidence_excerpts": [_excerpt(found, excerpt) for excerpt in found.excerpts],
    }
    if found.title is not None:
        body["title"] = found.title
    if found.authored_at is not None:
        body["authored_at"] = found.authored_at
    if found.excerpts:
        best = found.excerpts[0]
        body["snippet"] = {"field": best.field, "text": marked(best.text, best.passage)}
    elif found.nearest is not None:
        body["snippet"] = _passage(found, found.nearest)
    return body


def _ranking(found: Hit, mode: str) -> Json:
    """Why a hit stands where it does."""
    scores = {}
    if found.rank is not None:
        scores["lexical"] = {
            "kind": "field_impact",
            "value": found.rank.score,
            "order": "higher_is_better",
        }
    if found.near is not None:
        scores["semantic"] = {
            "kind": "semantic_distance",
            "value": round(1 - found.near.points / MILLIONTHS, 6),
            "order": "lower_is_better",
        }
    if mode != HYBRID:
        retrieval = {} if mode == LEXICAL else {"retrieval_mode": mode}
        return retrieval | {"score": scores[mode]}
    return {"retrieval_mode": mode, "retrieval_sources": list(scores), "scores": scores}


def meta(found: Found, *, mode: str) -> Json:
    """Counts and recall, never more certain than they are."""
    body: Json = {"recall": _recall(found)}
    if found.count is not None:
        body["count"] = found.count
        body["count_accuracy"] = _accuracy(found)
    if mode != LEXICAL:
        body["search_mode"] = mode
    if found.lexical:
        body["match"] = "all_words" if found.any_word is None else "any_word"
    if found.suggestions:
        body["suggestions"] = {word: list(each) for word, each in found.suggestions.items()}
    if found.waiting or found.reindexing:
        body["index_maintenance"] = _maintenance(found)
    if not found.hits:
        body["hint"] = _hint(found)
    elif found.any_word is not None:
        body["note"] = _note(found)
    return body


def _accuracy(found: Found) -> str:
    """Words that are indexed in another way may be missed, and may be found wrongly."""
    if found.reindexing:
        return "estimated"
    return "lower_bound" if found.lower_bound else "exact"


def _recall(found: Found) -> Json:
    complete = found.complete and not (found.waiting or found.reindexing)
    body: Json = {
        "complete": complete,
        "ranking_scope": "all_matches" if found.window is None else "candidate_window",
        "truncated": not complete,
    }
    return body | ({} if found.window is None else {"candidate_window_limit": found.window})


def _maintenance(found: Found) -> Json:
    notes = (
        (found.waiting, UNEMBEDDED),
        (found.reindexing, OUTDATED),
    )
    return {
        "pending_scopes": [
            {"connection_id": connection_id, "stream": stream}
            for connection_id, stream in sorted({*found.waiting, *found.reindexing})
        ],
        "note": " ".join(note for scopes, note in notes if scopes),
    }


def _note(found: Found) -> str:
    note = "No record has all the words; these have at least one of them, those with more first."
    return f"{note} {_also_spelt(found)}" if found.suggestions else note


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


def _passage(found: Hit, nearest: Excerpt) -> Json:
    """A passage that is near in meaning, which proves nothing: no excerpt, but where to read it."""
    record, start = found.record, nearest.passage.start
    read = window_read(
        found.visible.stream.name,
        record.record_key,
        nearest.field,
        record.connection.connection_id,
    )
    return {
        "field": nearest.field,
        "text": plain(nearest.text, nearest.passage),
        "provenance": "semantic_passage",
        "start_chars": start,
        "end_chars": nearest.passage.end,
        "total_chars": len(nearest.text),
        "read": {**read, "offset_chars": start},
    }


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
