"""Encode the order of the words of a text, one byte per word, to skip texts without a phrase.

A text can only contain the phrase "kind regards" if the byte of a form of "kind" is directly followed
by the byte of a form of "regards". Different words can have the same byte, so `verifier.verify` decides.

A token that needs more than its one byte, such as "e-mail", which is also "email", adds its other
bytes to the end, between wildcards that stand for any neighbor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final
from zlib import crc32

from evidence.search.analysis.segmentation import Token, is_cjk
from evidence.search.analysis.terms import Vocabulary, cache_put

ANY_WORD: Final = 0
_OTHERS: Final = b"\x01"
"""Surrounds the other bytes of a chunk; no stored order contains it."""
_NO_WORD: Final = 2
_FIRST_BYTE: Final = 3
_CACHED_ORDERS: Final = 65_536
_CACHED_LONG_ORDERS: Final = 256
_CACHED_TERMS: Final = 65_536

ANY_ORDER: Final = bytes((ANY_WORD, ANY_WORD))
"""The order of a text that may contain any phrase."""


class TermBytes(dict[str, int]):
    """Maps a term to the byte of its root, or to zero if it has none: CJK text and signs."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__()
        self._vocabulary = vocabulary

    def __missing__(self, term: str) -> int:
        byte = 0
        if term.isalnum() and not is_cjk(term):
            root = self._vocabulary.root(term).encode("utf-8", "surrogatepass")
            byte = _FIRST_BYTE + crc32(root) % (256 - _FIRST_BYTE)
        cache_put(self, term, byte, max_size=_CACHED_TERMS)
        return byte


class OrderCache(dict[str, bytes]):
    """Maps a chunk to the order of its words; `analyze` computes it."""

    def __init__(self, analyze: Callable[[str], bytes]) -> None:
        super().__init__()
        self._analyze = analyze
        self._long: dict[str, bytes] = {}

    def __missing__(self, raw: str) -> bytes:
        return self._long.get(raw) or self._analyze(raw)

    def put(self, raw: str, order: bytes, *, is_cacheable: bool) -> None:
        """Store an order until the chunk is read again; of long chunks only a few."""
        if is_cacheable:
            cache_put(self, raw, order, max_size=_CACHED_ORDERS)
        else:
            cache_put(self._long, raw, order, max_size=_CACHED_LONG_ORDERS)


def order_of_word(terms: Iterable[str], bytes_of: TermBytes) -> bytes:
    """Return the order of a single word with these terms."""
    return _pack([_NO_WORD], {0: dict.fromkeys(map(bytes_of.__getitem__, terms))}, {})


def order_of_tokens(tokens: Sequence[Token], positions: int, bytes_of: TermBytes) -> bytes:
    """Return the order of the tokens of a chunk with so many positions."""
    words: dict[int, dict[int, None]] = {}
    others: dict[int, None] = {}
    for token in tokens:
        found = dict.fromkeys(map(bytes_of.__getitem__, token.terms))
        is_first = token.width == 1 and token.position < positions
        if is_first and token.position not in words:
            words[token.position] = found
        else:
            others |= found
    return _pack([_NO_WORD] * positions, words, others)


def _pack(order: list[int], words: dict[int, dict[int, None]], others: dict[int, None]) -> bytes:
    for position, found in words.items():
        known = [byte for byte in found if byte]
        if known:
            order[position] = known[0]
            others |= dict.fromkeys(known[1:])
    rest = bytes(byte for byte in others if byte)
    return _OTHERS + rest + _OTHERS + bytes(order) if rest else bytes(order)


def join_orders(orders: Iterable[bytes]) -> bytes:
    """Return the order of a text from those of its chunks."""
    joined = b"".join(orders)
    pieces = joined.split(_OTHERS)
    if len(pieces) == 1:
        return joined
    tail = [_NO_WORD, ANY_WORD]
    for byte in sorted(set(b"".join(pieces[1::2]))):
        tail += byte, ANY_WORD
    return b"".join(pieces[::2]) + bytes(tail)


def join_texts(orders: Iterable[bytes]) -> bytes:
    """Return the order of several texts, whose words are no neighbors."""
    return bytes((_NO_WORD,)).join(orders)
