"""The model that ships inside the wheel of ``wordllama``: a vector for each token, averaged.

Only the two data files of that package are used. Its code is never imported: it cannot find its own
tokenizer offline and would ask a server for it.
"""

from collections.abc import Sequence
from functools import cached_property
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from evidence.embedding.embedder import Vector

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
