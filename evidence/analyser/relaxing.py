"""Relaxing: what a query can do without, first its function words, then any of its words.

Quoted words, prefixes, words of one field, alternatives and exclusions stay as they were asked for.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from evidence.analyser.function_words import FunctionWords, content_of_run
from evidence.analyser.patterns import pattern
from evidence.analyser.queries import And, Leaf, Node, Not, Or, Query
from evidence.analyser.words import DENSE_RUN


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
