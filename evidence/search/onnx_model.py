"""Run a sentence model in ONNX format from a directory on this machine.

The directory is laid out as sentence-transformers saves a model: ``model.onnx`` (or
``onnx/model.onnx``) and ``tokenizer.json``. Read where present: ``1_Pooling/config.json`` (mean or
first token), ``sentence_bert_config.json`` (maximum number of tokens) and
``config_sentence_transformers.json`` (texts to put before queries and passages).
"""

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Final

from django.core.exceptions import ImproperlyConfigured
from typing_extensions import override

from evidence.search.embedding import Embedder, Vector

NEEDS: Final = ("onnxruntime", "tokenizers", "numpy")
MODEL_FILES: Final = ("model.onnx", "onnx/model.onnx")
TOKENIZER: Final = "tokenizer.json"
POOLING: Final = "1_Pooling/config.json"
PROMPTS: Final = "config_sentence_transformers.json"
LENGTH: Final = "sentence_bert_config.json"
MEAN_POOLING: Final = "pooling_mode_mean_tokens"
CLS_POOLING: Final = "pooling_mode_cls_token"
MAX_TOKENS: Final = 512

UNRELATED: Final = (
    ("when does the train to the coast leave", "The dentist filled two teeth on Monday."),
    ("monthly rent of the flat", "Knead the dough and let it rise overnight."),
    ("who scored the first goal", "Your parcel waits at the post office."),
    ("Passwort für das WLAN", "La abuela cumple ochenta años en mayo."),
    ("prix du billet d'avion", "Der Gärtner schneidet die Hecke im Herbst."),
    ("receta de sopa de tomate", "Le contrat de travail commence en septembre."),
    ("猫の病院の予約", "The printer on the second floor is out of paper."),
    ("银行账户余额", "Wir wandern am Samstag um den See."),
)
"""Queries and passages that have nothing in common."""


class OnnxModel(Embedder):
    """A sentence model in a directory. Raises ImproperlyConfigured if it cannot run."""

    needs = NEEDS

    def __init__(self, directory: Path) -> None:
        if missing := [name for name in NEEDS if find_spec(name) is None]:
            raise ImproperlyConfigured(
                f"PDPP_EMBEDDER names a model, which needs {' and '.join(missing)}. Run: make semantic"
            )
        self._directory = directory
        if not directory.is_dir():
            raise self._error("which is not a directory")
        pooling = self._read_settings(POOLING)
        self._first_token = self._is_first_token(pooling)
        prompts = self._read_settings(PROMPTS).get("prompts") or {}
        self._query_prompt = prompts.get("query", "")
        self._passage_prompt = prompts.get("passage", prompts.get("document", ""))
        self.dimension = len(self._vector("dimension"))
        declared = pooling.get("word_embedding_dimension", self.dimension)
        if declared != self.dimension:
            raise self._error(
                f"with vectors of {self.dimension} numbers, not {declared} ({POOLING})"
            )

    @cached_property
    @override
    def model_id(self) -> str:
        """A digest of all files that determine the vectors."""
        weights = self._model_file.with_name(f"{self._model_file.name}_data")
        others = (self._directory / name for name in (TOKENIZER, POOLING, PROMPTS, LENGTH))
        digest = hashlib.sha256()
        for path in (self._model_file, weights, *others):
            digest.update(b"-")
            if path.is_file():
                with path.open("rb") as file:
                    digest.update(hashlib.file_digest(file, "sha256").digest())
        return f"onnx-{digest.hexdigest()[:32]}"

    @cached_property
    @override
    def floor(self) -> float:
        """Mean and one standard deviation of the similarity of unrelated texts.

        It differs between models: for some, any two texts are more similar than 0.7.
        """
        passages = self.embed([passage for _, passage in UNRELATED])
        similarities = [
            sum(a * b for a, b in zip(self.embed_query(query), passage, strict=True))
            for query, _ in UNRELATED
            for passage in passages
        ]
        return fmean(similarities) + stdev(similarities)

    @override
    def embed(self, texts: Sequence[str]) -> list[Vector]:
        # Each text runs alone. In a batch, padding and quantization let texts change each other's
        # vectors, so hidden texts could change the ranking of visible ones.
        vectors = {
            text: self._prompted(self._passage_prompt, text) for text in dict.fromkeys(texts)
        }
        return [vectors[text] for text in texts]

    @override
    def embed_query(self, text: str) -> Vector:
        return self._prompted(self._query_prompt, text)

    def _prompted(self, prompt: str, text: str) -> Vector:
        return self._vector(prompt + text) if text.strip() else [0.0] * self.dimension

    def _vector(self, text: str) -> Vector:
        """Return the pooled output for a text, normalized."""
        encoding = self._tokenizer.encode(text)
        inputs = {
            "input_ids": [encoding.ids],
            "attention_mask": [encoding.attention_mask],
            "token_type_ids": [encoding.type_ids],
        }
        session, names, output = self._session
        try:
            (result,) = session.run([output], {name: inputs[name] for name in names})
        except Exception as error:
            raise self._error(f"which does not run ({error})") from error
        tokens = result[0].astype("float64")
        if tokens.ndim == 2:
            tokens = tokens[0] if self._first_token else tokens.mean(axis=0)
        length = float((tokens @ tokens) ** 0.5)
        vector: list[float] = (tokens / (length or 1.0)).tolist()
        return vector

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        path = self._first_file(TOKENIZER)
        try:
            tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:
            raise self._error(f"whose {TOKENIZER} is damaged ({error})") from error
        declared = (tokenizer.truncation or {}).get("max_length", MAX_TOKENS)
        tokenizer.no_padding()
        tokenizer.enable_truncation(self._read_settings(LENGTH).get("max_seq_length") or declared)
        return tokenizer

    @cached_property
    def _session(self) -> tuple[Any, list[str], str]:
        """The loaded model, the names of its inputs, and the output to use."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # requests and imports use the other cores
        options.enable_cpu_mem_arena = False  # the arena keeps the memory of the longest text
        options.log_severity_level = 4  # errors are raised
        try:
            session = onnxruntime.InferenceSession(
                str(self._model_file), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            raise self._error(f"whose {self._model_file.name} is damaged ({error})") from error
        inputs = [each.name for each in session.get_inputs()]
        outputs = [each.name for each in session.get_outputs()]
        pooled = "sentence_embedding"
        return session, inputs, pooled if pooled in outputs else outputs[0]

    @cached_property
    def _model_file(self) -> Path:
        return self._first_file(*MODEL_FILES)

    def _first_file(self, *names: str) -> Path:
        for name in names:
            if (path := self._directory / name).is_file():
                return path
        raise self._error(f"which has no {' and no '.join(names)}")

    def _read_settings(self, name: str) -> dict[str, Any]:
        path = self._directory / name
        try:
            values: dict[str, Any] = json.loads(path.read_bytes()) if path.is_file() else {}
        except ValueError as error:
            raise self._error(f"whose {name} is damaged ({error})") from error
        return values

    def _is_first_token(self, pooling: dict[str, Any]) -> bool:
        modes = [
            name for name, on in pooling.items() if name.startswith("pooling_mode") and on is True
        ]
        if modes not in ([], [MEAN_POOLING], [CLS_POOLING]):
            raise self._error(f"with {' and '.join(modes)}; only mean and cls are supported")
        return modes == [CLS_POOLING]

    def _error(self, problem: str) -> ImproperlyConfigured:
        return ImproperlyConfigured(
            f"PDPP_EMBEDDER names {self._directory}, {problem}. Download a sentence model in ONNX"
            " format into it (docs/search.md), or set PDPP_EMBEDDER=none."
        )
