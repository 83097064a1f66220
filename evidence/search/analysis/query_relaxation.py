"""Relaxing: what a query can do without, first its function words, then any of its words.

Quoted words, prefixes, words of one field, alternatives and exclusions stay as they were asked for.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from evidence.search.analysis.folding import fold, strip_marks
from evidence.search.analysis.query_tree import And, Leaf, Node, Not, Or, Query, pattern
from evidence.search.analysis.segmentation import DENSE_RUN

_DATA = Path(__file__).with_name("stop_words.toml")
_EDGES = "().,;:!?\u00bf\u00a1\"'[]\u2026\u00ab\u00bb\u201e\u201c\u201d\u2018\u2019"
_JOINTS = re.compile("['\u2019\\-\u2010]")
# People ask in it whatever the language of their records.
_ALWAYS = "en"
_KANA = re.compile("[\u3041-\u30fa]")


@dataclass(frozen=True, slots=True)
class _Language:
    words: frozenset[str]
    doubtful: frozenset[str]
    before: frozenset[str]
    after: frozenset[str]

    def among(self, forms: frozenset[str]) -> frozenset[str]:
        """Those of the words of a query that are function words of this language."""
        sure = forms & self.words
        return sure | (forms & self.doubtful) if sure else sure

    def core(self, written: str) -> tuple[int, int] | None:
        """Where the one word is that apostrophes and hyphens join to function words."""
        pieces = list(_pieces(written))
        while len(pieces) > 1 and pieces[0][2] in self.before:
            del pieces[0]
        while len(pieces) > 1 and pieces[-1][2] in self.after:
            del pieces[-1]
        return pieces[0][:2] if len(pieces) == 1 else None


class FunctionWords:
    """The function words of one query, given all its words and the languages of its readers."""

    def __init__(self, words: Collection[str], *, languages: Collection[str]) -> None:
        spoken = {language.replace("_", "-").split("-")[0].lower() for language in languages}
        known = _languages()
        self._languages = [known[name] for name in sorted(spoken | {_ALWAYS}) if name in known]
        forms = frozenset(map(_form, words))
        self._forms = frozenset[str]().union(*(each.among(forms) for each in self._languages))

    def has(self, word: str) -> bool:
        return _form(word) in self._forms

    def core(self, word: str) -> tuple[int, int]:
        """The part of a word that is left without what an apostrophe or hyphen joins to it."""
        if not _JOINTS.search(word):
            return 0, len(word)
        found = (each.core(word) for each in self._languages)
        return next((core for core in found if core and core != (0, len(word))), (0, len(word)))


def content_of_run(run: str) -> Iterator[tuple[int, int]]:
    """The stretches of a run without spaces that function words leave; all of it if none is left."""
    cut = _cuts("ja" if _KANA.search(run) else "zh")
    kept: list[tuple[int, int]] = []
    reach = 0
    for found in (*cut.finditer(run), None):
        start, end = found.span() if found else (len(run), len(run))
        if start > reach and not (start - reach == 1 and _KANA.match(run, reach)):
            kept.append((reach, start))
        reach = end
    yield from kept or [(0, len(run))]


def _pieces(written: str) -> Iterator[tuple[int, int, str]]:
    start = 0
    for joint in (*_JOINTS.finditer(written), None):
        end = joint.start() if joint else len(written)
        yield start, end, _form(written[start:end])
        start = joint.end() if joint else end


def _form(word: str) -> str:
    return strip_marks(fold(word.strip(_EDGES)))


@cache
def _languages() -> dict[str, _Language]:
    return {
        name: _language(entry)
        for name, entry in tomllib.loads(_DATA.read_text(encoding="utf-8")).items()
        if "words" in entry
    }


def _language(entry: dict[str, str]) -> _Language:
    doubtful, before, after = (
        frozenset(entry.get(name, "").split()) for name in ("doubtful", "before", "after")
    )
    return _Language(frozenset(entry["words"].split()) - doubtful, doubtful, before, after)


@cache
def _cuts(language: str) -> re.Pattern[str]:
    """Words of several characters anywhere; particles where they follow Han, katakana or a word."""
    entry = tomllib.loads(_DATA.read_text(encoding="utf-8"))[language]
    words = sorted(entry["words_in_runs"].split(), key=len, reverse=True)
    particles = "".join(entry.get("particles", "").split())
    longer = "|".join(map(re.escape, words))
    if not particles:
        return re.compile(f"(?:{longer})+")
    follows = "(?<=[\u30a1-\u30ff\u3400-\u9fff\u3005])"
    rest = f"(?:{longer}|[{particles}])*"
    return re.compile(f"(?:{longer}){rest}|{follows}[{particles}]{rest}")


def essential(query: Query, *, languages: Collection[str]) -> Query:
    """The same query without its function words, unless it has nothing else."""
    words = [leaf.text for leaf in query.wanted() if _plain(leaf)]
    root = _without(query.root, FunctionWords(words, languages=languages))
    return query if root is None else Query(root)


def relax(
    query: Query,
    *,
    languages: Collection[str] = (),
    spellings: Mapping[str, Sequence[str]] | None = None,
) -> Query:
    """The same query when any of its words will do. What it excludes stays excluded.

    A run without spaces is any two neighbours of its content, or a character that stands alone. A
    word with other spellings may be any of those.
    """
    words = dict.fromkeys(word for leaf in query.wanted() for word in _words(leaf))
    known = FunctionWords([word.text for word in words], languages=languages)
    content = [word for word in words if not (_plain(word) and known.has(word.text))]
    chosen = [one for word in content or words for one in _spelt(word, spellings or {})]
    return Query(_all_of([_any_of(chosen), *_exclusions(query.root)]))


def _plain(leaf: Leaf) -> bool:
    return not (leaf.phrase or leaf.prefix or leaf.field)


def _without(node: Node, known: FunctionWords) -> Node | None:
    """A node without function words; None where nothing is left to look for."""
    match node:
        case Leaf():
            return _core(node, known) if _plain(node) else node
        case Not():
            return node
        case And():
            kept = [each for child in node.nodes if (each := _without(child, known))]
            wanted = any(not isinstance(each, Not) for each in kept)
            return _all_of(kept) if wanted else None
        case Or():
            branches = [_without(child, known) or child for child in node.nodes]
            return Or(tuple(branches))


def _core(leaf: Leaf, known: FunctionWords) -> Leaf | None:
    if known.has(leaf.text):
        return None
    start, end = known.core(leaf.text)
    if (start, end) == (0, len(leaf.text)):
        return leaf
    core = _part(leaf, start, end)
    return None if known.has(core.text) else core


def _spelt(leaf: Leaf, spellings: Mapping[str, Sequence[str]]) -> Iterator[Leaf]:
    yield leaf
    for other in spellings.get(leaf.text, ()) if _plain(leaf) else ():
        yield replace(leaf, text=other)


def _words(leaf: Leaf) -> Iterator[Leaf]:
    """What may stand for a leaf: the words of a phrase, the parts of a run, else itself."""
    if leaf.prefix or not (leaf.phrase or DENSE_RUN.search(leaf.text)):
        yield leaf
        return
    for found in re.finditer(r"\S+", leaf.text):
        for start, end in _stretches(found.group()):
            word = replace(_part(leaf, found.start() + start, found.start() + end), phrase=False)
            if pattern(word, languages=()).groups:
                yield word


def _stretches(written: str) -> Iterator[tuple[int, int]]:
    """The runs of a stretch without white space in pairs, and what stands between them."""
    reach = 0
    for run in DENSE_RUN.finditer(written):
        if run.start() > reach:
            yield reach, run.start()
        for start, end in content_of_run(run.group()):
            yield from _pairs(run.start() + start, run.start() + end)
        reach = run.end()
    if reach < len(written):
        yield reach, len(written)


def _pairs(start: int, end: int) -> Iterator[tuple[int, int]]:
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
