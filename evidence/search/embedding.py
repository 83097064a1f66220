"""Load the embedding model of this installation and split texts for it.

``PDPP_EMBEDDER`` is a directory with a sentence model in ONNX format, or the dotted path of a class,
instantiated once per process without arguments. The model must run on this machine: nothing here may
use the network.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, cast

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string
from typing_extensions import override

from evidence.page_cutter import grapheme_floor

NONE = "none"
ONNX_MODEL: Final = "evidence.search.onnx_model.OnnxModel"
"""Loaded only if PDPP_EMBEDDER is a directory."""

Vector = Sequence[float]
"""A unit vector, or all zeros for a text without meaning to the model."""


class Embedder(Protocol):
    """Computes vectors of ``dimension`` numbers from texts.

    Vectors are compared only if they have the same ``model_id``. ``needs`` lists the packages that
    the model imports. Texts are unrelated if the dot product of their vectors is below ``floor``.
    Hybrid search weighs matching words ``lexical_weight`` times as much as similar meaning.
    """

    needs: tuple[str, ...]
    dimension: int
    lexical_weight: int = 3

    @property
    def floor(self) -> float: ...

    @property
    def model_id(self) -> str: ...

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector per passage, in order, independent of the other passages."""
        ...

    def embed_query(self, text: str) -> Vector:
        """Return the vector of a query. Some models put another prefix before queries."""
        return self.embed([text])[0]


def configured_embedder() -> Embedder | None:
    """Return the model of this installation, or None if it is disabled or not installed.

    Raises ImproperlyConfigured if PDPP_EMBEDDER names no usable model.
    """
    return _load(settings.PDPP_EMBEDDER)


@cache
def _load(path: str) -> Embedder | None:
    if path == NONE:
        return None
    if "/" in path:
        model = cast("Callable[[Path], Embedder]", import_string(ONNX_MODEL))
        return model(Path(path).expanduser())
    try:
        embedder_class = cast("type[Embedder]", import_string(path))
    except ImportError as error:
        raise ImproperlyConfigured(
            "PDPP_EMBEDDER takes a directory such as ./models/e5, a class, or none;"
            f" got {path!r} ({error})."
        ) from error
    return embedder_class() if all(map(find_spec, embedder_class.needs)) else None


MAX_PASSAGE_CHARS: Final = 240
"""Code points of the longest passage: a few sentences, and the snippet of a hit."""
_CLOSING = r"[\"'\u201d\u2019\u00bb)\]]*"
_CLOSING_WIDE = r"[\u300d\u300f\uff09\u201d]*"
_SENTENCE_END = re.compile(
    rf"[.!?\u2026]+{_CLOSING}\s+|[\u3002\uff01\uff1f]+{_CLOSING_WIDE}\s*|\n\s*"
)
_WORD_END = re.compile(r"\s+")


class PassageRange(NamedTuple):
    """Start and end of a passage in code points of the text."""

    start: int
    end: int


def split_passages(text: str) -> Iterator[PassageRange]:
    """Yield the passages of a text, in order, without overlap or surrounding white space.

    A passage ends with the last sentence that ends in its second half, otherwise with a word,
    otherwise at a grapheme boundary.
    """
    at = _skip_space(text, 0)
    while at < len(text):
        end = len(text) if len(text) - at <= MAX_PASSAGE_CHARS else _passage_end(text, at)
        length = len(text[at:end].rstrip())
        if length:
            yield PassageRange(at, at + length)
        at = _skip_space(text, end)


def _passage_end(text: str, at: int) -> int:
    for ending in (_SENTENCE_END, _WORD_END):
        ends = [
            found.end()
            for found in ending.finditer(text, at + MAX_PASSAGE_CHARS // 2, at + MAX_PASSAGE_CHARS)
        ]
        if ends:
            return ends[-1]
    return max(grapheme_floor(text, at + MAX_PASSAGE_CHARS), at + 1)


def _skip_space(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


TOKENIZER: Final = "tokenizers/l2_supercat_tokenizer_config.json"
WEIGHTS: Final = "weights/l2_supercat_256.safetensors"
BATCH_SIZE: Final = 256


class WordLlama(Embedder):
    """The static model bundled in the wordllama wheel: 256 dimensions, loaded at the first text.

    Takes about 100 µs per passage on one core.
    """

    needs = ("wordllama", "tokenizers", "safetensors", "numpy")
    dimension = 256
    floor = 0.25
    lexical_weight = 30

    @cached_property
    @override
    def model_id(self) -> str:
        return f"wordllama-{version('wordllama')}/l2_supercat_256"

    @override
    def embed(self, texts: Sequence[str]) -> list[Vector]:
        vectors: list[Vector] = []
        for start in range(0, len(texts), BATCH_SIZE):
            batch = list(texts[start : start + BATCH_SIZE])
            encodings = self._tokenizer.encode_batch(batch, add_special_tokens=False)
            vectors += [self._mean(encoding.ids) for encoding in encodings]
        return vectors

    def _mean(self, tokens: list[int]) -> Vector:
        if not tokens:
            return [0.0] * self.dimension
        # float64, so that the sum does not depend on the order of addition.
        mean = self._weights[tokens].mean(axis=0, dtype="float64")
        length = float((mean @ mean) ** 0.5)
        vector: list[float] = (mean / (length or 1.0)).tolist()
        return vector

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(_package_dir() / TOKENIZER))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return tokenizer

    @cached_property
    def _weights(self) -> Any:
        from safetensors.numpy import load_file

        (weights,) = load_file(_package_dir() / WEIGHTS).values()
        return weights


def _package_dir() -> Path:
    """Return the directory of the package without importing it."""
    spec = find_spec("wordllama")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("wordllama is missing; install requirements-semantic.txt.")
    return Path(spec.submodule_search_locations[0])
