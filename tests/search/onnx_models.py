"""A small sentence model in ONNX format: one vector per word, the same for words of one subject."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from evidence.search.embedding import TRANSLATIONS

SUBJECTS = (
    ("rent", "monthly", "apartment", "dwelling", "expensive", "lease", "deposit", "flat"),
    ("dentist", "tooth", "crown"),
    ("cat", "sleeps"),
    ("query:",),
    ("passage:",),
)
START = "[CLS]"
UNKNOWN = "[UNK]"


def write_model(
    directory: Path,
    *,
    file: str = "model.onnx",
    dimension: int = 8,
    pooled: bool = False,
    start: float = 0.0,
    **settings: Any,
) -> Path:
    """Write a model, its tokenizer and JSON files: `prompts`, `pooling` and `max_tokens`.

    With `languages`, vectors depend mostly on the language, and `rent-2` is the word for rent in the third.
    """
    path = directory / file
    path.parent.mkdir(parents=True, exist_ok=True)
    words = [START, UNKNOWN, *(word for subject in SUBJECTS for word in subject)]
    spoken = {
        word: (number, subject)
        for number, texts in enumerate(zip(*TRANSLATIONS, strict=True))
        for subject, saying in (
            (0, f"rent-{number}"),
            (2, f"cat-{number}"),
            (None, " ".join(texts)),
        )
        for word in saying.lower().split()
    }
    words += spoken if settings.get("languages") else ()
    vocabulary = {word: number for number, word in enumerate(words)}
    vectors = np.zeros((len(words), dimension), "float32")
    vectors[0, dimension - 1] = start
    for number, subject in enumerate(SUBJECTS):
        for place, word in enumerate(subject):
            vectors[vocabulary[word], number] = 1 - place / 100
    for word in spoken.keys() & vocabulary.keys():
        number, of_subject = spoken[word]
        vectors[vocabulary[word], [-2 - number]] = 2
        vectors[vocabulary[word], [] if of_subject is None else [of_subject]] = 1
    onnx.save(_graph(vectors, pooled=pooled), path)
    _tokenizer(vocabulary).save(str(directory / "tokenizer.json"))
    if "prompts" in settings:
        values: dict[str, Any] = {"prompts": settings["prompts"]}
        (directory / "config_sentence_transformers.json").write_text(json.dumps(values))
    if "pooling" in settings:
        (directory / "1_Pooling").mkdir(exist_ok=True)
        (directory / "1_Pooling/config.json").write_text(json.dumps(settings["pooling"]))
    if "max_tokens" in settings:
        values = {"max_seq_length": settings["max_tokens"]}
        (directory / "sentence_bert_config.json").write_text(json.dumps(values))
    return directory


def _tokenizer(vocabulary: dict[str, int]) -> Tokenizer:
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{START} $A", special_tokens=[(START, vocabulary[START])]
    )
    return tokenizer


def _graph(vectors: Any, *, pooled: bool) -> onnx.ModelProto:
    shape = ["batch", "tokens"]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, shape)
        for name in ("input_ids", "attention_mask")
    ]
    nodes = [helper.make_node("Gather", ["vectors", "input_ids"], ["last_hidden_state"])]
    width = vectors.shape[1]
    outputs = [
        helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, [*shape, width])
    ]
    if pooled:
        nodes.append(
            helper.make_node(
                "ReduceMax", ["last_hidden_state", "axis"], ["sentence_embedding"], keepdims=0
            )
        )
        outputs.append(
            helper.make_tensor_value_info("sentence_embedding", TensorProto.FLOAT, ["batch", width])
        )
    initializers = [
        numpy_helper.from_array(vectors, "vectors"),
        numpy_helper.from_array(np.array([1], "int64"), "axis"),
    ]
    graph = helper.make_graph(nodes, "words", inputs, outputs, initializers)
    opset = [helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=opset, ir_version=9)
