"""Find where the words and phrases of a query occur in a text, and verify many candidates of one query.

Most candidates are verified without tokenizing their texts. Each chunk of a text becomes one letter that
says which word of the query it is. A phrase occurs where its letters occur in sequence. A chunk that is
more than one word, such as a URL with a word of the query in it, has no letter, so `verify` decides for
its record.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice, repeat
from typing import NamedTuple

import regex

from evidence.search.analysis.query import (
    And,
    Leaf,
    Node,
    Not,
    Or,
    Pattern,
    PatternStep,
    Query,
    TermSet,
    compile_leaf,
)
from evidence.search.analysis.segmentation import NO_WORD, TermFilter, Token, is_cjk
from evidence.search.analysis.tokenizer import (
    BLOCK_CHARS,
    POSITIONS,
    UNIT,
    UNITS_PER_TEXT,
    WorkLimit,
    chunk_terms,
    find_tokens,
    is_cacheable,
    match_cache,
    split_blocks,
)

_WORD_CHARACTER = r"[\p{L}\p{N}\p{M}_]"
_EDGE_SIGNS = regex.compile(r"^[^\p{L}\p{N}]+|[^\p{L}\p{N}\p{M}]+$")
_CACHED_PATTERNS = 256
CHARS_PER_UNIT = 32
"""Characters that the search for exact words reads per unit of work."""


def exact_matches(leaf: Leaf, text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each occurrence of a leaf as written: its accents, endings and signs.

    An exact leaf, `"=Théo"`, finds its candidates by the index and is then compared with the text.
    """
    pattern = _pattern(leaf.text, leaf.prefix, 0)
    return (match.span() for match in pattern.finditer(text))


def is_written_in(leaf: Leaf, text: str) -> bool:
    """Return whether a text contains a leaf as written; only an exact leaf compares case."""
    if leaf.exact:
        return next(exact_matches(leaf, text), None) is not None
    word = _EDGE_SIGNS.sub("", leaf.text) or leaf.text
    return _pattern(word, leaf.prefix, regex.IGNORECASE).search(text) is not None


@lru_cache(maxsize=_CACHED_PATTERNS)
def _pattern(written: str, prefix: bool, flags: int) -> regex.Pattern[str]:  # noqa: FBT001
    """Return a pattern for whole words. Scripts without spaces have no word boundaries."""
    words = written.split()
    forms = dict.fromkeys(
        r"\s+".join(regex.escape(unicodedata.normalize(form, word)) for word in words)
        for form in ("NFC", "NFD")
    )
    before = "" if is_cjk(written) else f"(?<!{_WORD_CHARACTER})"
    after = "" if prefix or is_cjk(written[-1:]) else f"(?!{_WORD_CHARACTER})"
    return regex.compile(f"{before}(?:{'|'.join(forms)}){after}", flags)


def needs_verification(query: Query, *, languages: tuple[str, ...]) -> bool:
    """Return whether index results need a check of the text: lexemes do not store word order."""
    excluded = any(
        leaf.exact or not compile_leaf(leaf, languages=languages).atomic
        for leaf in query.negative_leaves()
    )
    return excluded or any(
        leaf.exact or is_ordered(leaf, languages=languages) for leaf in query.positive_leaves()
    )


def term_filter(patterns: Sequence[Pattern]) -> TermFilter:
    """Return a filter that accepts every term that a step of the patterns can take."""
    return merge_filters(step.terms for pattern in patterns for step in pattern.steps)


def merge_filters(term_sets: Iterable[TermSet]) -> TermFilter:
    """Return a filter that accepts every term of the term sets."""
    term_sets = list(term_sets)
    return TermFilter(
        frozenset(term for terms in term_sets if not terms.prefix for term in terms.terms),
        tuple({term for terms in term_sets if terms.prefix for term in terms.terms}),
    )


class PatternMatcher:
    """Matches a pattern against the tokens of one text, given in order."""

    def __init__(self, pattern: Pattern) -> None:
        self._end = pattern.end
        self._exact: dict[str, list[PatternStep]] = defaultdict(list)
        self._prefix: list[PatternStep] = []
        for step in pattern.steps:
            if step.terms.prefix:
                self._prefix.append(step)
            for term in () if step.terms.prefix else step.terms.terms:
                self._exact[term].append(step)
        self.max_steps = max(map(len, self._exact.values()), default=0) + len(self._prefix)
        """Upper bound of steps per token: a query can repeat one word a thousand times."""
        # Partial matches: text position -> pattern position -> start offset of the match.
        self._partial: dict[int, dict[int, int]] = {}

    def feed(self, token: Token) -> Iterator[tuple[int, int]]:
        """Yield start and end of the matches that `token` completes."""
        partial = self._partial.get(token.position, {})
        for step in self.steps(token):
            start = token.start if step.source == 0 else partial.get(step.source)
            if start is None:
                continue
            if step.target == self._end:
                yield start, token.end
                continue
            following = token.position + (
                step.target - step.source if step.overlapping else token.width
            )
            self._partial.setdefault(following, {}).setdefault(step.target, start)
        for passed in [at for at in self._partial if at < token.position]:
            del self._partial[passed]

    def steps(self, token: Token) -> Sequence[PatternStep]:
        """Return the steps that `token` can take."""
        exact = {step: None for term in token.terms for step in self._exact.get(term, ())}
        by_prefix = (
            s for s in self._prefix if any(t.startswith(s.terms.terms) for t in token.terms)
        )
        return [*exact, *by_prefix]


def is_ordered(leaf: Leaf, *, languages: tuple[str, ...]) -> bool:
    """Return whether the words of a leaf must follow one another."""
    return leaf.phrase and not compile_leaf(leaf, languages=languages).atomic


# The search for a leaf ends after so many occurrences.
_MAX_OCCURRENCES = 200
# Common words are also searched around this many occurrences of each rare word.
_MAX_NEIGHBORHOODS = 20
# Characters read after a neighborhood, so that its last word is complete.
_MAX_WORD_CHARS = 256


class TextMatch(NamedTuple):
    """One occurrence, in code points of the text; `leaf` is the index of the matching leaf."""

    start: int
    end: int
    leaf: int


def find_matches(
    text: str,
    leaves: Sequence[Leaf],
    *,
    languages: tuple[str, ...],
    around: int,
    work: WorkLimit,
) -> list[TextMatch]:
    """Return where the leaves occur, in order. Leaves without a full match match word by word.

    A very frequent leaf matches at its first occurrences and within `around` characters of the
    others. Text beyond the `work` limit is not searched.
    """
    searches = [
        _LeafMatches(leaf, index, languages) for index, leaf in enumerate(leaves) if not leaf.exact
    ]
    _scan(text, searches, languages=languages, work=work)
    matches = {match for search in searches for match in search.matches()}
    for index, leaf in enumerate(leaves):
        if leaf.exact:
            work.spend(len(text) // CHARS_PER_UNIT)
            spans = islice(exact_matches(leaf, text), _MAX_OCCURRENCES)
            matches |= {TextMatch(start, end, index) for start, end in spans}
    common = [search for search in searches if search.done]
    rare = [
        m for search in searches if not search.done for m in search.matches()[:_MAX_NEIGHBORHOODS]
    ]
    if common and rare:
        for match in rare:
            near = _nearby(text, common, match=match, languages=languages, around=around, work=work)
            matches.update(near)
    return sorted(matches)


def _scan(
    text: str, searches: Sequence[_LeafMatches], *, languages: tuple[str, ...], work: WorkLimit
) -> None:
    """Feed tokens to the searches until all are done, or the text or `work` ends."""
    start = 0
    while searches and not work.exhausted:
        accepted = term_filter([search.pattern for search in searches])
        tokens = find_tokens(
            text, languages=languages, term_filter=accepted, work=work, start=start
        )
        for token in tokens:
            work.spend(len(searches))
            for search in searches:
                search.feed(token)
            if any(search.done for search in searches):
                start = token.end
                break
        else:
            return
        searches = [search for search in searches if not search.done]
        for search in searches:
            search.restart()


def _nearby(
    text: str,
    searches: Sequence[_LeafMatches],
    *,
    match: TextMatch,
    languages: tuple[str, ...],
    around: int,
    work: WorkLimit,
) -> Iterator[TextMatch]:
    """Yield the matches of common leaves around a match of a rare leaf."""
    if work.exhausted:
        return
    nearby = [_LeafMatches(search.leaf, search.index, languages) for search in searches]
    accepted = term_filter([search.pattern for search in nearby])
    # A slice, so that the cost does not depend on the length of the rest.
    start, end = max(0, match.start - around), match.end + around
    shift = max(0, start - 1)
    window = text[shift : end + _MAX_WORD_CHARS]
    tokens = find_tokens(
        window, languages=languages, term_filter=accepted, work=work, start=start - shift
    )
    for token in tokens:
        if token.start + shift > end or token.end == len(window) < len(text) - shift:
            break
        work.spend(len(nearby))
        for search in nearby:
            search.feed(token)
    for search in nearby:
        yield from (m._replace(start=m.start + shift, end=m.end + shift) for m in search.matches())


class _LeafMatches:
    """Collects the matches of one leaf in a text."""

    def __init__(self, leaf: Leaf, index: int, languages: tuple[str, ...]) -> None:
        self.leaf = leaf
        self.index = index
        self.pattern = compile_leaf(leaf, languages=languages)
        self._matcher = PatternMatcher(self.pattern)
        self._full: list[TextMatch] = []
        self._partial: list[TextMatch] = []

    @property
    def done(self) -> bool:
        return len(self._full) >= _MAX_OCCURRENCES

    def feed(self, token: Token) -> None:
        for start, end in self._matcher.feed(token):
            self._full.append(TextMatch(start, end, self.index))
        if len(self._partial) < _MAX_OCCURRENCES and self._matcher.steps(token):
            self._partial.append(TextMatch(token.start, token.end, self.index))

    def restart(self) -> None:
        """Discard partial matches, because token positions restart at zero."""
        self._matcher = PatternMatcher(self.pattern)

    def matches(self) -> list[TextMatch]:
        """Return the full matches or, if there are none and the leaf is no phrase, the partial ones."""
        return self._full or ([] if self.leaf.phrase else self._partial)


def is_plain(pattern: Pattern) -> bool:
    """Return whether a pattern is a sequence of single words, without compounds and CJK bigrams."""
    return bool(pattern.steps) and all(
        (step.source, step.target, step.overlapping) == (at, at + 1, False)
        for at, step in enumerate(pattern.steps)
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
