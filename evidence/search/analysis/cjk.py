"""Tokenize text of scripts that are written without spaces into characters and their neighbors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from evidence.search.analysis.segmentation import (
    Chunk,
    ChunkMatches,
    TermFilter,
    Token,
    cjk_characters,
    make_chunk,
)


def cjk_chunk(characters: Sequence[str]) -> Chunk:
    """Tokenize a CJK run into unigrams and bigrams; offsets count folded code points."""
    tokens: list[Token] = []
    start = 0
    for position, character in enumerate(characters):
        end = start + len(character)
        if position + 1 < len(characters):
            following = characters[position + 1]
            bigram = (character + following,)
            tokens.append(Token(start, end + len(following), bigram, position, 2, "bigram"))
        tokens.append(Token(start, end, (character,), position, 1, "unigram"))
        start = end
    return make_chunk(tuple(tokens), positions=len(characters), length=cjk_length(len(characters)))


def cjk_matches(form: str, *, term_filter: TermFilter) -> ChunkMatches:
    """Return the tokens of a CJK run that the filter accepts."""
    characters = cjk_characters(form)
    if not any(term in form for term in term_filter.cjk):
        return ChunkMatches((), len(characters))
    if characters is form:
        tokens = sorted(_find_terms(form, term_filter.cjk), key=lambda t: (t.start, -t.end))
    else:
        tokens = [t for t in cjk_chunk(characters).tokens if term_filter.accepts(t.terms)]
    return ChunkMatches(tokens, len(characters))


def _find_terms(form: str, terms: Iterable[str]) -> Iterator[Token]:
    """Find terms in a run without combining marks, where each character is one position."""
    for term in terms:
        width = len(term)
        at = form.find(term)
        while at >= 0:
            yield Token(at, at + width, (term,), at, width, "unigram" if width == 1 else "bigram")
            at = form.find(term, at + 1)


def cjk_length(characters: int) -> int:
    """Return the length in words: two CJK characters count as about one word."""
    return (characters + 1) // 2
