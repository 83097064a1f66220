"""What a model has to do, and which one this installation has.

``PDPP_EMBEDDER`` names a class by its dotted path; it is made once a process, without arguments. Any
model fits that runs on this machine: nothing here may reach the network.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, cast

from django.conf import settings
from django.utils.module_loading import import_string

from evidence.search.analysis.graphemes import grapheme_floor

NONE = "none"

Vector = Sequence[float]
"""Of length one, or all zeros for a text that says nothing to the model."""


class Embedder(Protocol):
    """Turns texts into vectors of ``dimension`` numbers.

    ``model_id`` names whatever decides the vectors: those of two models are never compared.
    ``needs`` are the packages that it imports. Texts whose vectors have a product below ``floor``
    have nothing to do with each other.
    """

    needs: tuple[str, ...]
    dimension: int
    floor: float

    @property
    def model_id(self) -> str: ...

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        """One vector for each text, in order; the same for the same text, whatever its company."""
        ...


def chosen() -> Embedder | None:
    """The model of this installation; None where it has none or wants none."""
    return _made(settings.PDPP_EMBEDDER)


@cache
def _made(path: str) -> Embedder | None:
    if path == NONE:
        return None
    kind = cast("type[Embedder]", import_string(path))
    if not all(map(find_spec, kind.needs)):
        return None
    return kind()


WIDTH: Final = 240
"""Code points that a passage has at most: a few sentences, and the snippet of a hit."""
_CLOSING = r"[\"'\u201d\u2019\u00bb)\]]*"
_CLOSING_WIDE = r"[\u300d\u300f\uff09\u201d]*"
_SENTENCE_END = re.compile(
    rf"[.!?\u2026]+{_CLOSING}\s+|[\u3002\uff01\uff1f]+{_CLOSING_WIDE}\s*|\n\s*"
)
_WORD_END = re.compile(r"\s+")


class Stretch(NamedTuple):
    """From ``start`` to ``end`` in code points of the text."""

    start: int
    end: int


def stretches(text: str) -> Iterator[Stretch]:
    """The passages of a text, in order and without overlap; none has white space at its ends.

    Each ends with a sentence if one ends in its second half, else with a word, else before a
    grapheme.
    """
    at = _after_space(text, 0)
    while at < len(text):
        end = len(text) if len(text) - at <= WIDTH else _end(text, at)
        kept = len(text[at:end].rstrip())
        if kept:
            yield Stretch(at, at + kept)
        at = _after_space(text, end)


def _end(text: str, at: int) -> int:
    for ending in (_SENTENCE_END, _WORD_END):
        ends = [found.end() for found in ending.finditer(text, at + WIDTH // 2, at + WIDTH)]
        if ends:
            return ends[-1]
    return max(grapheme_floor(text, at + WIDTH), at + 1)


def _after_space(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


TOKENIZER: Final = "tokenizers/l2_supercat_tokenizer_config.json"
WEIGHTS: Final = "weights/l2_supercat_256.safetensors"
TEXTS_AT_ONCE: Final = 256


class WordLlama:
    """256 dimensions; about 100 µs a passage on one core, loaded at the first text."""

    needs = ("wordllama", "tokenizers", "safetensors", "numpy")
    dimension = 256
    floor = 0.25

    @cached_property
    def model_id(self) -> str:
        return f"wordllama-{version('wordllama')}/l2_supercat_256"

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        vectors: list[Vector] = []
        for start in range(0, len(texts), TEXTS_AT_ONCE):
            some = list(texts[start : start + TEXTS_AT_ONCE])
            found = self._tokenizer.encode_batch(some, add_special_tokens=False)
            vectors += [self._mean(each.ids) for each in found]
        return vectors

    def _mean(self, tokens: list[int]) -> Vector:
        if not tokens:
            return [0.0] * self.dimension
        # Twice the precision, so that the sum does not hang on the order of adding up.
        mean = self._weights[tokens].mean(axis=0, dtype="float64")
        length = float((mean @ mean) ** 0.5)
        vector: list[float] = (mean / (length or 1.0)).tolist()
        return vector

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(_home() / TOKENIZER))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return tokenizer

    @cached_property
    def _weights(self) -> Any:
        from safetensors.numpy import load_file

        (weights,) = load_file(_home() / WEIGHTS).values()
        return weights


def _home() -> Path:
    """Where the package lies, found without running any of it."""
    spec = find_spec("wordllama")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("wordllama: see requirements-semantic.txt")
    return Path(spec.submodule_search_locations[0])
