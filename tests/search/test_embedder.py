"""Test the embedding model and how to replace it."""

import math
import socket
from collections.abc import Sequence

import pytest
from pytest_django.fixtures import Settings
from typing_extensions import override

from evidence.search.embedding import Embedder, Vector, WordLlama, configured_embedder
from tests.tools import needs_extra


class Letters(Embedder):
    """A model of 26 dimensions: the frequency of each letter."""

    needs: tuple[str, ...] = ()
    dimension = 26
    floor = 0.5
    model_id = "letters"

    @override
    def embed(self, texts: Sequence[str]) -> list[Vector]:
        counts = [[text.lower().count(chr(97 + n)) for n in range(26)] for text in texts]
        lengths = [math.hypot(*each) or 1.0 for each in counts]
        return [[n / length for n in each] for each, length in zip(counts, lengths, strict=True)]


class Unknown(Letters):
    needs = ("no_such_package_anywhere",)


@pytest.fixture
def model() -> WordLlama:
    pytest.importorskip("wordllama", reason=needs_extra("semantic"))
    return WordLlama()


def test_setting_names_the_embedder_class(settings: Settings) -> None:
    settings.PDPP_EMBEDDER = f"{__name__}.Letters"
    assert isinstance(configured_embedder(), Letters)


def test_none_disables_the_embedder(settings: Settings) -> None:
    settings.PDPP_EMBEDDER = "none"
    assert configured_embedder() is None


def test_embedder_without_its_packages_is_disabled(settings: Settings) -> None:
    settings.PDPP_EMBEDDER = f"{__name__}.Unknown"
    assert configured_embedder() is None


def test_vectors_are_normalized_and_independent_of_the_batch(model: WordLlama) -> None:
    texts = ["The lease is signed.", "", "京都のお土産", "A much longer text, " * 50]

    together = model.embed(texts)

    assert [len(each) for each in together] == [model.dimension] * 4
    assert [round(math.hypot(*each), 6) for each in together] == [1.0, 0.0, 1.0, 1.0]
    assert [model.embed([text])[0] for text in texts] == together


def test_similar_meanings_have_near_vectors(model: WordLlama) -> None:
    asked, near, far = model.embed(
        [
            "when do I see the dentist",
            "Your dental appointment is on Monday",
            "The budget deck is ready",
        ]
    )

    def product(one: Vector, other: Vector) -> float:
        return sum(a * b for a, b in zip(one, other, strict=True))

    assert product(asked, near) > model.floor > product(asked, far)


def test_embedder_never_uses_the_network(model: WordLlama, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setattr(socket, "getaddrinfo", refused)
    assert any(model.embed(["hello"])[0])
