"""Find words as written: with their accents, endings and signs.

An exact leaf, `"=Théo"`, finds its candidates by the index and is then compared with the text.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import lru_cache

import regex

from evidence.search.analysis.query_tree import Leaf
from evidence.search.analysis.segmentation import is_cjk

_WORD_CHARACTER = r"[\p{L}\p{N}\p{M}_]"
_EDGE_SIGNS = regex.compile(r"^[^\p{L}\p{N}]+|[^\p{L}\p{N}\p{M}]+$")
_CACHED_PATTERNS = 256
CHARS_PER_UNIT = 32
"""Characters that the search for exact words reads per unit of work."""


def exact_matches(leaf: Leaf, text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each occurrence of a leaf, exactly as written."""
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
