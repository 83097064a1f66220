"""What a model has to do, and which one this installation has.

``PDPP_EMBEDDER`` names a class by its dotted path; it is made once a process, without arguments. Any
model fits that runs on this machine: nothing here may reach the network.
"""

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from typing import Protocol, cast

from django.conf import settings
from django.utils.module_loading import import_string

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
