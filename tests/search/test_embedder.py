"""The model, and how another takes its place."""

import math
import socket
from collections.abc import Sequence

import pytest
from pytest_django.fixtures import Settings

from evidence.search.embedding import Vector, WordLlama, chosen


class Letters:
    """A model of 26 dimensions: how often each letter stands in a text."""

    needs = ()
    dimension = 26
    floor = 0.5
    model_id = "letters"

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        counts = [[text.lower().count(chr(97 + n)) for n in range(26)] for text in texts]
        lengths = [math.hypot(*each) or 1.0 for each in counts]
        return [[n / length for n in each] for each, length in zip(counts, lengths, strict=True)]


class Unknown(Letters):
    needs = ("no_such_package_anywhere",)


def test_the_model_is_named_by_the_settings(settings: Settings) -> None:
    settings.PDPP_EMBEDDER = f"{__name__}.Letters"
    assert isinstance(chosen(), Letters)


def test_no_model_is_wanted(settings: Settings) -> None:
    settings.PDPP_EMBEDDER = "none"
    assert chosen() is None


def test_without_its_packages_there_is_no_model(settings: Settings) -> None:
    settings.PDPP_EMBEDDER = f"{__name__}.Unknown"
    assert chosen() is None


def test_vectors_have_length_one_and_do_not_hang_on_their_company() -> None:
    model = WordLlama()
    texts = ["The lease is signed.", "", "京都のお土産", "A much longer text, " * 50]

    together = model.embed(texts)

    assert [len(each) for each in together] == [model.dimension] * 4
    assert [round(math.hypot(*each), 6) for each in together] == [1.0, 0.0, 1.0, 1.0]
    assert [model.embed([text])[0] for text in texts] == together


def test_what_means_the_same_is_near() -> None:
    model = WordLlama()
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


def test_the_model_never_reaches_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setattr(socket, "getaddrinfo", refused)
    assert any(WordLlama().embed(["hello"])[0])
