"""Relax a query without results: drop stop words, then match any word.

Quoted words, prefixes, field restrictions, alternatives and exclusions do not change.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from evidence.search.analysis.query import And, Leaf, Node, Not, Or, Query, compile_leaf
from evidence.search.analysis.segmentation import CJK_RUN, fold, strip_marks
from evidence.search.analysis.terms import stop_word_lists

_EDGES = "().,;:!?\u00bf\u00a1\"'[]\u2026\u00ab\u00bb\u201e\u201c\u201d\u2018\u2019"
_JOINERS = re.compile("['\u2019\\-\u2010]")
# People also search in this language, whatever the languages of their records.
_DEFAULT_LANGUAGE = "en"
_KANA = re.compile("[\u3041-\u30fa]")


@dataclass(frozen=True, slots=True)
class _Language:
    """The stop words of one language; stop_words.toml explains the four lists."""

    words: frozenset[str]
    doubtful: frozenset[str]
    before: frozenset[str]
    after: frozenset[str]

    def select(self, forms: frozenset[str]) -> frozenset[str]:
        """Return the words of a query that are stop words of this language."""
        certain = forms & self.words
        return certain | (forms & self.doubtful) if certain else certain

    def core(self, raw: str) -> tuple[int, int] | None:
        """Return the range of the only word that apostrophes or hyphens join to stop words."""
        pieces = list(_split_at_joiners(raw))
        while len(pieces) > 1 and pieces[0][2] in self.before:
            del pieces[0]
        while len(pieces) > 1 and pieces[-1][2] in self.after:
            del pieces[-1]
        return pieces[0][:2] if len(pieces) == 1 else None


class StopWords:
    """The stop words of one query, from all its words and the languages of the connections."""

    def __init__(self, words: Collection[str], *, languages: Collection[str]) -> None:
        names = {language.replace("_", "-").split("-")[0].lower() for language in languages}
        known = _languages()
        self._languages = [
            known[name] for name in sorted(names | {_DEFAULT_LANGUAGE}) if name in known
        ]
        forms = frozenset(map(_form, words))
        self._forms = frozenset[str]().union(
            *(language.select(forms) for language in self._languages)
        )

    def contains(self, word: str) -> bool:
        return _form(word) in self._forms

    def core(self, word: str) -> tuple[int, int]:
        """Return the range of a word without stop words joined by an apostrophe or hyphen."""
        if not _JOINERS.search(word):
            return 0, len(word)
        cores = (language.core(word) for language in self._languages)
        return next((core for core in cores if core and core != (0, len(word))), (0, len(word)))


def content_ranges(run: str) -> Iterator[tuple[int, int]]:
    """Yield the ranges of a CJK run without stop words; the whole run if nothing is left."""
    stop_words = _stop_word_pattern("ja" if _KANA.search(run) else "zh")
    ranges: list[tuple[int, int]] = []
    at = 0
    for match in (*stop_words.finditer(run), None):
        start, end = match.span() if match else (len(run), len(run))
        if start > at and not (start - at == 1 and _KANA.match(run, at)):
            ranges.append((at, start))
        at = end
    yield from ranges or [(0, len(run))]


def _split_at_joiners(raw: str) -> Iterator[tuple[int, int, str]]:
    start = 0
    for joiner in (*_JOINERS.finditer(raw), None):
        end = joiner.start() if joiner else len(raw)
        yield start, end, _form(raw[start:end])
        start = joiner.end() if joiner else end


def _form(word: str) -> str:
    return strip_marks(fold(word.strip(_EDGES)))


@cache
def _languages() -> dict[str, _Language]:
    return {name: _language(entry) for name, entry in stop_word_lists().items() if "words" in entry}


def _language(entry: Mapping[str, str]) -> _Language:
    doubtful, before, after = (
        frozenset(entry.get(name, "").split()) for name in ("doubtful", "before", "after")
    )
    return _Language(frozenset(entry["words"].split()) - doubtful, doubtful, before, after)


@cache
def _stop_word_pattern(language: str) -> re.Pattern[str]:
    """Match words of several characters anywhere, particles after Han, katakana or such words."""
    entry = stop_word_lists()[language]
    words = sorted(entry["words_in_runs"].split(), key=len, reverse=True)
    particles = "".join(entry.get("particles", "").split())
    longer = "|".join(map(re.escape, words))
    if not particles:
        return re.compile(f"(?:{longer})+")
    follows = "(?<=[\u30a1-\u30ff\u3400-\u9fff\u3005])"
    rest = f"(?:{longer}|[{particles}])*"
    return re.compile(f"(?:{longer}){rest}|{follows}[{particles}]{rest}")


def without_stop_words(query: Query, *, languages: Collection[str]) -> Query:
    """Return the query without its stop words, unless it has no other words."""
    words = [leaf.text for leaf in query.positive_leaves() if _is_plain(leaf)]
    root = _remove_stop_words(query.root, StopWords(words, languages=languages))
    return query if root is None else Query(root)


def has_operators(query: Query) -> bool:
    """Return whether a query says more than words: OR, a phrase, an exact word or an exclusion."""
    nodes = query.root.nodes if isinstance(query.root, And) else (query.root,)
    return not all(isinstance(node, Leaf) and not (node.phrase or node.exact) for node in nodes)


def match_any_word(
    query: Query,
    *,
    languages: Collection[str] = (),
    spellings: Mapping[str, Sequence[str]] | None = None,
    weights: Mapping[str, int] | None = None,
) -> Query:
    """Return a query that matches any word of this one, with `weights` by word. Exclusions remain.

    A CJK run matches by any bigram of its content, or by a single character between stop words. A
    word with other `spellings` matches by any of them.
    """
    words = dict.fromkeys(word for leaf in query.positive_leaves() for word in _words(leaf))
    stop_words = StopWords([word.text for word in words], languages=languages)
    content = [word for word in words if not (_is_plain(word) and stop_words.contains(word.text))]
    leaves = [
        leaf
        for word in content or words
        for leaf in _with_spellings(word, spellings or {}, weights or {})
    ]
    return Query(_all_of([_any_of(leaves), *_exclusions(query.root)]))


def _is_plain(leaf: Leaf) -> bool:
    return not (leaf.phrase or leaf.prefix or leaf.field)


def _remove_stop_words(node: Node, stop_words: StopWords) -> Node | None:
    """Return a node without stop words, or None if nothing positive is left."""
    match node:
        case Leaf():
            return _core(node, stop_words) if _is_plain(node) else node
        case Not():
            return node
        case And():
            rest = [left for child in node.nodes if (left := _remove_stop_words(child, stop_words))]
            is_positive = any(not isinstance(left, Not) for left in rest)
            return _all_of(rest) if is_positive else None
        case Or():
            branches = [_remove_stop_words(child, stop_words) or child for child in node.nodes]
            return Or(tuple(branches))


def _core(leaf: Leaf, stop_words: StopWords) -> Leaf | None:
    if stop_words.contains(leaf.text):
        return None
    start, end = stop_words.core(leaf.text)
    if (start, end) == (0, len(leaf.text)):
        return leaf
    core = _part(leaf, start, end)
    return None if stop_words.contains(core.text) else core


def _with_spellings(
    leaf: Leaf, spellings: Mapping[str, Sequence[str]], weights: Mapping[str, int]
) -> Iterator[Leaf]:
    """Yield a word and its spellings, with the weight of the most frequent one."""
    others = spellings.get(leaf.text, ()) if _is_plain(leaf) else ()
    weight = min(weights.get(text, 1) for text in others or [leaf.text])
    for text in (leaf.text, *others):
        yield replace(leaf, text=text, weight=weight)


def _words(leaf: Leaf) -> Iterator[Leaf]:
    """Yield the leaves that can replace a leaf: words of a phrase, parts of a CJK run, or itself."""
    if leaf.prefix or leaf.exact or not (leaf.phrase or CJK_RUN.search(leaf.text)):
        yield leaf
        return
    for match in re.finditer(r"\S+", leaf.text):
        for start, end in _word_ranges(match.group()):
            word = replace(_part(leaf, match.start() + start, match.start() + end), phrase=False)
            if compile_leaf(word, languages=()).groups:
                yield word


def _word_ranges(raw: str) -> Iterator[tuple[int, int]]:
    """Yield the bigrams of the CJK runs in a chunk, and the ranges between the runs."""
    at = 0
    for run in CJK_RUN.finditer(raw):
        if run.start() > at:
            yield at, run.start()
        for start, end in content_ranges(run.group()):
            yield from _bigrams(run.start() + start, run.start() + end)
        at = run.end()
    if at < len(raw):
        yield at, len(raw)


def _bigrams(start: int, end: int) -> Iterator[tuple[int, int]]:
    if end - start == 1:
        yield start, end
    for at in range(start, end - 1):
        yield at, at + 2


def _part(leaf: Leaf, start: int, end: int) -> Leaf:
    return replace(leaf, text=leaf.text[start:end], position=leaf.position + start)


def _all_of(nodes: Sequence[Node]) -> Node:
    return nodes[0] if len(nodes) == 1 else And(tuple(nodes))


def _any_of(nodes: Sequence[Node]) -> Node:
    return nodes[0] if len(nodes) == 1 else Or(tuple(nodes))


def _exclusions(node: Node) -> Iterator[Node]:
    if isinstance(node, Not):
        yield node
    elif isinstance(node, And):
        for child in node.nodes:
            yield from _exclusions(child)
