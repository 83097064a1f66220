"""Verify many candidates of one query, in most cases without tokenizing their texts.

Each chunk of a text becomes one letter that says which word of the query it is. A phrase occurs where
its letters occur in sequence. A chunk that is more than one word, such as a URL with a word of the
query in it, has no letter, so `verify` decides for its record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import repeat

from evidence.search.analysis.chunks import POSITIONS, UNIT, is_cacheable
from evidence.search.analysis.matcher import (
    CHARS_PER_UNIT,
    PatternMatcher,
    is_ordered,
    is_plain,
    is_written_in,
    merge_filters,
    term_filter,
)
from evidence.search.analysis.query_tree import (
    And,
    Leaf,
    Node,
    Not,
    Or,
    Query,
    TermSet,
    compile_leaf,
)
from evidence.search.analysis.segmentation import NO_WORD, TermFilter, Token
from evidence.search.analysis.tokenizer import (
    BLOCK_CHARS,
    UNITS_PER_TEXT,
    WorkLimit,
    chunk_terms,
    find_tokens,
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
    """Decides which records satisfy one query, as `verify` does."""

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
        self._is_plain = all(map(is_plain, patterns.values()))
        term_sets = dict.fromkeys(step.terms for p in patterns.values() for step in p.steps)
        letters = {terms: chr(_FIRST_LETTER + n) for n, terms in enumerate(term_sets)}
        self._wanted = {
            leaf: (
                "".join(letters[step.terms] for step in pattern.steps),
                is_ordered(leaf, languages=languages),
            )
            for leaf, pattern in patterns.items()
        }
        self._encoder = _ChunkEncoder(letters, languages)

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
            letters, units = self._encoder.encode(block.split())
            parts += letters
            work.spend(len(block) // CHARS_PER_UNIT + units)
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


class _ChunkEncoder:
    """Maps chunks to letters, and counts the units of work of the chunks that are new.

    The letters of other words are not stored, because a small dictionary is much faster.
    """

    def __init__(self, letters: Mapping[TermSet, str], languages: tuple[str, ...]) -> None:
        self._letter_of = letters
        accepted = merge_filters(letters)
        # A chunk without a word, such as a dash, does not separate two words of a phrase.
        self._filter = TermFilter(accepted.terms | {NO_WORD}, accepted.prefixes)
        self._terms = chunk_terms(languages)
        self._matches = match_cache(languages, accepted)
        self._known: set[str] = set()
        self._letters: dict[str, str] = {}

    def encode(self, chunks: Sequence[str]) -> tuple[Iterator[str], int]:
        """Return the letters and the units, which do not depend on the caches of the process."""
        new = set(chunks) - self._known
        if len(self._known) + len(new) > _CACHED_LETTERS:
            self._known.clear()
            self._letters.clear()
            new = set(chunks)
        long = {raw for raw in new if not is_cacheable(raw)}
        new -= long
        self._known |= new
        units = len(new) + sum([len(raw) // 2 for raw in new])
        for raw in [*long, *self._accepted(new)]:
            self._letters[raw], of_chunk = self._letter(raw)
            units += of_chunk
        return map(self._letters.get, chunks, repeat(_OTHER_WORD)), units

    def _accepted(self, chunks: Iterable[str]) -> Iterator[str]:
        terms = self._terms
        if self._filter.prefixes:
            return (raw for raw in chunks if self._filter.accepts(terms[raw]))
        excludes = self._filter.terms.isdisjoint
        return (raw for raw in chunks if not excludes(terms[raw]))

    def _letter(self, raw: str) -> tuple[str, int]:
        """Return the letter of a chunk and the units of its analysis."""
        if raw in _SEPARATORS:
            return _SEPARATORS[raw], 0
        matches = self._matches[raw]
        if isinstance(matches, int):
            return _OTHER_WORD if matches & POSITIONS else "", matches // UNIT
        terms = matches.tokens[0].terms
        accepting = [own for own in self._letter_of if own.accepts(terms)]
        is_one_word = matches.positions == len(matches.tokens) == len(accepting) == 1
        letter = self._letter_of[accepting[0]] if is_one_word else _SEVERAL_WORDS
        return letter, matches.packed_counts // UNIT


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


def verify(
    texts: Mapping[str, str],
    query: Query,
    *,
    languages: tuple[str, ...],
    work: WorkLimit | None = None,
) -> bool:
    """Return whether a record satisfies the query; `texts` maps its field names to texts.

    As in the index, the words of a query may be in different fields; a phrase must be in one.
    Returns False if `work` is exhausted before the result is certain.
    """
    work = work or WorkLimit()
    states = {leaf: _LeafState(leaf, languages=languages) for leaf in query.positive_leaves()}
    for leaf in query.negative_leaves():
        # "-e-mail" must not exclude a text in which "e" and "mail" are far apart.
        states[leaf] = _LeafState(replace(leaf, phrase=True), languages=languages)
    for name, text in texts.items():
        in_field = [pair for pair in states.items() if pair[0].field in (None, name)]
        for leaf, state in in_field:
            if leaf.exact and not state.matched:
                work.spend(len(text) // CHARS_PER_UNIT)
                state.matched = is_written_in(leaf, text)
        active = [state for leaf, state in in_field if not leaf.exact]
        accepted = term_filter([state.pattern for state in active])
        for state in active:
            state.start_text()
        tokens = find_tokens(text, languages=languages, term_filter=accepted, work=work)
        for token in tokens if active else ():
            work.spend(len(active))
            for state in active:
                state.feed(token)
            if work.exhausted or all(state.matched for state in active):
                break
        if work.exhausted:
            return False
    return is_satisfied(query.root, {leaf: state.matched for leaf, state in states.items()})


class _LeafState:
    """Tracks whether one leaf has matched in the texts of a record."""

    def __init__(self, leaf: Leaf, *, languages: tuple[str, ...]) -> None:
        self.pattern = compile_leaf(leaf, languages=languages)
        self._is_ordered = is_ordered(leaf, languages=languages)
        self.matched = False
        self._seen: set[TermSet] = set()
        self.start_text()

    def start_text(self) -> None:
        """Discard partial matches, which must not continue in the next text."""
        self._matcher = PatternMatcher(self.pattern)

    def feed(self, token: Token) -> None:
        """Process one token."""
        if self.matched:
            return
        if self._is_ordered:
            self.matched = any(True for _ in self._matcher.feed(token))
            return
        self._seen.update(step.terms for step in self._matcher.steps(token))
        self.matched = all(
            any(self._seen.issuperset(alternative) for alternative in group.alternatives)
            for group in self.pattern.groups
        )


def is_satisfied(node: Node, matched: Mapping[Leaf, bool]) -> bool:
    """Return whether a node is satisfied, given which leaves matched."""
    match node:
        case Leaf():
            return matched[node]
        case Not():
            return not is_satisfied(node.node, matched)
        case And():
            return all(is_satisfied(child, matched) for child in node.nodes)
        case Or():
            return any(is_satisfied(child, matched) for child in node.nodes)
