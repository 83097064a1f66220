"""The setting that names the model of an installation."""

from pytest_django.fixtures import Settings

from evidence.search.embedding import configured_embedder
from tests.embedder import Letters


def test_setting_names_the_embedder_class(settings: Settings) -> None:
    settings.PDPP_EMBEDDER = "tests.embedder.Letters"
    assert isinstance(configured_embedder(), Letters)


def test_an_installation_has_no_embedder_unless_it_names_one(settings: Settings) -> None:
    assert settings.PDPP_EMBEDDER == "none"
    assert configured_embedder() is None
