"""PDPP_EMBEDDER names a directory with a sentence model in ONNX format."""

import itertools
import math
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from pytest_django.fixtures import Settings

from evidence.search import embedding
from evidence.search.embedding import Embedder, Vector, configured_embedder
from tests.world import PERSONAL, World, mail

write_model = pytest.importorskip(
    "tests.search.onnx_models", reason="needs the semantic extra and onnx: make test-all"
).write_model

E5_PROMPTS = {"query": "query: ", "passage": "passage: "}
DAY = "2026-04-01T09:00:00Z"


@pytest.fixture
def load(settings: Settings, tmp_path: Path) -> Callable[..., Embedder]:
    """Write a model and return it as the installation's."""
    numbers = itertools.count()

    def load(**options: Any) -> Embedder:
        settings.PDPP_EMBEDDER = str(write_model(tmp_path / str(next(numbers)), **options))
        embedder = configured_embedder()
        assert embedder is not None
        return embedder

    return load


def similarity(one: Vector, other: Vector) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("file", ["model.onnx", "onnx/model.onnx"])
def test_directory_gives_vectors_of_the_models_dimension(
    load: Callable[..., Embedder], file: str
) -> None:
    model = load(file=file, dimension=12)

    vectors = model.embed(["the monthly rent", "", "a cat sleeps"])

    assert model.dimension == 12
    assert [len(vector) for vector in vectors] == [12] * 3
    assert [round(math.hypot(*vector), 6) for vector in vectors] == [1.0, 0.0, 1.0]
    assert model.embed_query("  ") == [0.0] * 12


def test_vector_is_independent_of_the_other_texts(load: Callable[..., Embedder]) -> None:
    model = load()
    texts = ["the monthly rent", "cat", "a tooth and a crown " * 100]
    assert [model.embed([text])[0] for text in texts] == model.embed(texts)


def test_similar_meanings_are_above_the_floor(load: Callable[..., Embedder]) -> None:
    model = load()
    (rent, cat) = model.embed(["the monthly rent", "a cat sleeps"])
    asked = model.embed_query("expensive dwelling")
    assert similarity(asked, rent) > similarity(asked, cat)
    assert similarity(asked, rent) > model.floor


def test_texts_of_one_meaning_are_nearer_than_those_of_one_language(
    load: Callable[..., Embedder],
) -> None:
    model = load(dimension=128, languages=True)
    in_french, of_cats = model.embed(["rent-2", "cat-0"])
    asked = model.embed_query("rent-0")
    assert similarity(asked, in_french) > 2 * similarity(asked, of_cats)


def test_prompts_of_the_model_precede_queries_and_passages(load: Callable[..., Embedder]) -> None:
    model = load(prompts=E5_PROMPTS)
    query, (passage,) = model.embed_query("rent"), model.embed(["rent"])
    assert query != passage
    assert (query[3] > 0, query[4]) == (True, 0.0)
    assert (passage[3], passage[4] > 0) == (0.0, True)


@pytest.mark.parametrize(
    ("options", "is_first_token"),
    [
        ({}, False),
        ({"pooling": {"pooling_mode_mean_tokens": True}}, False),
        ({"pooling": {"pooling_mode_cls_token": True}}, True),
    ],
)
def test_pooling_of_the_model_applies(
    load: Callable[..., Embedder], options: dict[str, Any], is_first_token: bool
) -> None:
    first = [0.0] * 7 + [1.0]
    assert (load(start=0.25, **options).embed(["rent cat"])[0] == first) is is_first_token


def test_pooled_output_of_the_model_is_used(load: Callable[..., Embedder]) -> None:
    model = load(pooled=True)
    assert model.embed(["rent cat cat cat"]) == model.embed(["rent cat"])


def test_texts_are_cut_at_the_models_maximum(load: Callable[..., Embedder]) -> None:
    model = load(max_tokens=3)
    assert model.embed(["rent cat tooth crown"]) == model.embed(["rent cat"])


def test_model_id_changes_with_every_file_that_matters(tmp_path: Path) -> None:
    options: list[dict[str, Any]] = [
        {},
        {"dimension": 9},
        {"prompts": E5_PROMPTS},
        {"pooling": {"pooling_mode_cls_token": True}},
        {"max_tokens": 100},
    ]
    models = [
        embedding.OnnxModel(write_model(tmp_path / str(number), **each))
        for number, each in enumerate(options)
    ]
    assert len({model.model_id for model in models}) == len(options)
    assert embedding.OnnxModel(write_model(tmp_path / "copy")).model_id == models[0].model_id


def test_model_never_uses_the_network(
    load: Callable[..., Embedder], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setattr(socket, "getaddrinfo", refused)
    assert any(load().embed(["rent"])[0])


def damage(directory: Path, name: str, text: str | None) -> None:
    """Remove a file or replace its text; an empty name is the directory itself."""
    if not name:
        directory.rename(directory.with_name("elsewhere"))
    elif text is None:
        (directory / name).unlink()
    else:
        (directory / name).write_text(text)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("", None, "is not a directory"),
        ("model.onnx", None, "no model.onnx and no onnx/model.onnx"),
        ("tokenizer.json", None, "no tokenizer.json"),
        ("model.onnx", "a page", "model.onnx is damaged"),
        ("tokenizer.json", "{}", "tokenizer.json is damaged"),
        ("1_Pooling/config.json", "{", "config.json is damaged"),
        (
            "1_Pooling/config.json",
            '{"word_embedding_dimension": 384}',
            "vectors of 8 numbers, not 384",
        ),
        (
            "1_Pooling/config.json",
            '{"pooling_mode_max_tokens": true}',
            "only mean and cls",
        ),
    ],
)
def test_unusable_directory_is_reported_at_startup(
    settings: Settings, tmp_path: Path, name: str, text: str | None, said: str
) -> None:
    directory = write_model(tmp_path / "model", pooling={"word_embedding_dimension": 8})
    damage(directory, name, text)
    settings.PDPP_EMBEDDER = str(directory)
    with pytest.raises(CommandError, match=f"PDPP_EMBEDDER.*{said}.*docs/search.md"):
        call_command("run")


def test_missing_package_is_reported_at_startup(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.PDPP_EMBEDDER = str(write_model(tmp_path / "model"))
    monkeypatch.setattr(embedding, "NEEDS", ("onnxruntime", "no_such_package_anywhere"))
    with pytest.raises(CommandError, match=r"PDPP_EMBEDDER.*no_such_package.*make semantic"):
        call_command("run")


@pytest.mark.parametrize("value", ["e5", "evidence.search.embedding.Nothing"])
def test_name_of_nothing_is_reported_at_startup(settings: Settings, value: str) -> None:
    settings.PDPP_EMBEDDER = value
    with pytest.raises(CommandError, match=f"PDPP_EMBEDDER takes a directory .* got '{value}'"):
        call_command("run")


def test_doctor_reports_an_unusable_model(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.PDPP_EMBEDDER = str(tmp_path / "nothing")
    settings.PDPP_PUBLIC_URL = "http://127.0.0.1:1"
    with pytest.raises(SystemExit):
        call_command("doctor", settings.PDPP_PUBLIC_URL)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("FAIL  Load the embedding model: PDPP_EMBEDDER names")


@pytest.mark.parametrize("mode", ["semantic", "hybrid"])
def test_search_uses_the_model_and_replaces_vectors_of_another(
    embedded: World, load: Callable[..., Embedder], mode: str
) -> None:
    embedded.put(
        (PERSONAL, "messages", mail("home", DAY, body_text="The dwelling is expensive")),
        (PERSONAL, "messages", mail("animal", DAY, body_text="A cat sleeps")),
    )
    for options in ({}, {"dimension": 11, "prompts": E5_PROMPTS}):
        load(**options)
        assert embedded.get("/v1/search", q="tooth", mode=mode).status == 400
        embedded.embed()
        answer = embedded.get("/v1/search", q="monthly apartment", mode=mode)
        assert answer.ids.index("home") < answer.ids.index("animal")
