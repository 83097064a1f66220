"""A model for tests: a vector with a number for each word, the same one for words of one subject."""

import math
import re
from collections.abc import Sequence
from zlib import crc32

from typing_extensions import override

from evidence.search.embedding import Embedder, Vector

SUBJECTS = (("rent", "apartment", "dwelling", "expensive", "flat", "cost", "costs", "lease"),)
FUNCTION_WORDS = {"a", "does", "how", "is", "of", "the", "what", "your"}
SUBJECT_OF = {word: number for number, words in enumerate(SUBJECTS) for word in words}


class Words(Embedder):
    """Texts are similar if they share words, or words of one subject."""

    dimension = 256
    floor = 0.1
    model_id = "words"

    @override
    def embed(self, texts: Sequence[str]) -> list[Vector]:
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> Vector:
        numbers = [0] * self.dimension
        for word in re.findall(r"\w+", text.lower()):
            if word in FUNCTION_WORDS:
                continue
            others = crc32(word.encode()) % (self.dimension - len(SUBJECTS)) + len(SUBJECTS)
            numbers[SUBJECT_OF.get(word, others)] += 1
        length = math.hypot(*numbers) or 1.0
        return [number / length for number in numbers]


class Letters(Words):
    """A model of another dimension: the frequency of each letter."""

    dimension = 26
    model_id = "letters"

    @override
    def _vector(self, text: str) -> Vector:
        counts = [text.lower().count(chr(97 + number)) for number in range(26)]
        length = math.hypot(*counts) or 1.0
        return [count / length for count in counts]
