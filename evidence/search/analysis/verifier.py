"""Verify many candidates of one query, in most cases without tokenizing their texts.

Each chunk of a text becomes one letter that says which word of the query it is. A phrase occurs where
its letters occur in sequence. A chunk that is more than one word, such as a URL with a word of the
query in it, has no letter, so `matcher.verify` decides for its record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from evidence.search.analysis.chunks import POSITIONS, UNIT, is_cacheable
from evidence.search.analysis.matcher import (
    CHARS_PER_UNIT,
    is_ordered,
    is_satisfied,
    is_written_in,
    merge_filters,
    verify,
)
from evidence.search.analysis.query_tree import Leaf, Pattern, Query, TermSet, compile_leaf
from evidence.search.analysis.segmentation import NO_WORD, TermFilter
from evidence.search.analysis.terms import cache_put
from evidence.search.analysis.tokenizer import (
    BLOCK_CHARS,
    UNITS_PER_TEXT,
    WorkLimit,
    chunk_terms,
    match_cache,
    split_blocks,
)

MAX_UNITS_PER_RECORD = UNITS_PER_TEXT // 4

_OTHER_WORD = "."
_SEVERAL_WORDS = "?"
_FIELD_END = ";"
_RECORD_END = "|"
_SEPARATORS = {"\0": _FIELD_END, "\0\0": _RECORD_END}
"""Chunks that no text contains, because PostgreSQL stores no U+0000, and their letters."""
_SEPARATOR_CHARS = len(" \0\0 ")
_FIRST_LETTER = 0x100
_CACHED_LETTERS = 65_536


class Verifier:
    """Decides which records satisfy one query, as `matcher.verify` does."""

    def __init__(self, query: Query, *, languages: tuple[str, ...]) -> None:
        self._query = query
        self._languages = languages
        excluded = {leaf: replace(leaf, phrase=True) for leaf in query.negative_leaves()}
        self._leaves = {leaf: leaf for leaf in query.positive_leaves()} | excluded
        patterns = {
            leaf: compile_leaf(leaf, languages=languages)
            for leaf in self._leaves.values()
            if not leaf.exact
        }
        self._is_plain = all(map(_is_plain, patterns.values()))
        term_sets = dict.fromkeys(step.terms for p in patterns.values() for step in p.steps)
        letters = {terms: chr(_FIRST_LETTER + n) for n, terms in enumerate(term_sets)}
        self._wanted = {
            leaf: (
                "".join(letters[step.terms] for step in pattern.steps),
                is_ordered(leaf, languages=languages),
            )
            for leaf, pattern in patterns.items()
        }
        self._letters = _LetterCache(letters, languages)

    def verify_all(
        self, records: Sequence[Mapping[str, str]], *, work: WorkLimit
    ) -> Iterator[bool | None]:
        """Yield whether each record satisfies the query; a record maps its field names to texts.

        Yields None if the work limit of a record is exhausted before the result is certain, and ends
        when `work` is.
        """
        for group in _group_by_size(records):
            if work.exhausted:
                return
            max_units = MAX_UNITS_PER_RECORD if len(group) == 1 else work.left
            with work.share(max_units=max_units) as part:
                letters = self._letters_of(group, part)
            is_read = len(group) > 1 or not part.exhausted
            for texts, of_record in zip(group, letters, strict=True):
                with work.share(max_units=MAX_UNITS_PER_RECORD) as part:
                    verified = is_read and self._verify(texts, of_record, part)
                yield verified if is_read and not part.exhausted else None

    def _letters_of(self, group: Sequence[Mapping[str, str]], work: WorkLimit) -> Sequence[str]:
        """Return the letters of each record, with a separator between its fields."""
        if not self._is_plain:
            return [_SEVERAL_WORDS] * len(group)
        if not self._wanted:
            return [""] * len(group)
        if len(group) == 1:
            return [_FIELD_END.join(self._encode(text, work) for text in group[0].values())]
        joined = " \0\0 ".join(" \0 ".join(texts.values()) for texts in group)
        return self._encode(joined, work).split(_RECORD_END)

    def _encode(self, text: str, work: WorkLimit) -> str:
        """Return the letters of a text, or of its beginning if `work` is exhausted."""
        parts: list[str] = []
        for _, block in split_blocks(text):
            if work.exhausted:
                break
            parts += map(self._letters.__getitem__, block.split())
            work.spend(len(block) // CHARS_PER_UNIT + self._letters.take_units())
        return "".join(parts)

    def _verify(self, texts: Mapping[str, str], letters: str, work: WorkLimit) -> bool:
        if _SEVERAL_WORDS in letters:
            return verify(texts, self._query, languages=self._languages, work=work)
        matched = {
            leaf: self._matches(compared, texts, letters, work)
            for leaf, compared in self._leaves.items()
        }
        return is_satisfied(self._query.root, matched)

    def _matches(self, leaf: Leaf, texts: Mapping[str, str], letters: str, work: WorkLimit) -> bool:
        if leaf.exact:
            searched = [texts[name] for name in texts if leaf.field in (None, name)]
            work.spend(sum(map(len, searched)) // CHARS_PER_UNIT)
            return any(is_written_in(leaf, text) for text in searched)
        wanted, in_order = self._wanted[leaf]
        if leaf.field is not None:
            fields = dict(zip(texts, letters.split(_FIELD_END), strict=False))
            letters = fields.get(leaf.field, "")
        return wanted in letters if in_order else all(map(letters.__contains__, wanted))


class _LetterCache(dict[str, str]):
    """Maps a chunk to its letter, and counts the units of work of the chunks that are new."""

    def __init__(self, letters: Mapping[TermSet, str], languages: tuple[str, ...]) -> None:
        super().__init__()
        self._letter_of = letters
        accepted = merge_filters(letters)
        # A chunk without a word, such as a dash, does not separate two words of a phrase.
        self._filter = TermFilter(accepted.terms | {NO_WORD}, accepted.prefixes)
        self._terms = chunk_terms(languages)
        self._matches = match_cache(languages, accepted)
        self._units = 0

    def take_units(self) -> int:
        """Return the units since the last call. They do not depend on the caches of the process."""
        units, self._units = self._units, 0
        return units

    def __missing__(self, raw: str) -> str:
        if not is_cacheable(raw):
            return self._letter(raw)
        self._units += 1 + len(raw) // 2
        accepted = self._filter.accepts(self._terms[raw])
        letter = self._letter(raw) if accepted else _OTHER_WORD
        cache_put(self, raw, letter, max_size=_CACHED_LETTERS)
        return letter

    def _letter(self, raw: str) -> str:
        if raw in _SEPARATORS:
            return _SEPARATORS[raw]
        matches = self._matches[raw]
        if isinstance(matches, int):
            self._units += matches // UNIT
            return _OTHER_WORD if matches & POSITIONS else ""
        self._units += matches.packed_counts // UNIT
        terms = matches.tokens[0].terms
        accepting = [own for own in self._letter_of if own.accepts(terms)]
        if matches.positions == len(matches.tokens) == len(accepting) == 1:
            return self._letter_of[accepting[0]]
        return _SEVERAL_WORDS


def _group_by_size(records: Sequence[Mapping[str, str]]) -> Iterator[list[Mapping[str, str]]]:
    """Yield the records in groups that fit into one block of text, longer ones alone."""
    group: list[Mapping[str, str]] = []
    chars = 0
    for texts in records:
        size = sum(map(len, texts.values())) + _SEPARATOR_CHARS * (len(texts) + 1)
        if group and chars + size > BLOCK_CHARS:
            yield group
            group, chars = [], 0
        group.append(texts)
        chars += size
    if group:
        yield group


def _is_plain(pattern: Pattern) -> bool:
    """Return whether a pattern is a sequence of single words, without compounds and CJK bigrams."""
    return bool(pattern.steps) and all(
        (step.source, step.target, step.overlapping) == (at, at + 1, False)
        for at, step in enumerate(pattern.steps)
    )
