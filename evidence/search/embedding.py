"""Load the sentence model of this installation, and split texts for it.

``PDPP_EMBEDDER`` is ``none``, a directory with a sentence model in ONNX format, or the dotted path of a
class, instantiated once per process without arguments. The model must run on this machine: nothing
here may use the network.

A directory is laid out as sentence-transformers saves a model: ``model.onnx`` (or
``onnx/model.onnx``) and ``tokenizer.json``. Read where present: ``1_Pooling/config.json`` (mean or
first token), ``sentence_bert_config.json`` (maximum number of tokens) and
``config_sentence_transformers.json`` (texts to put before queries and passages).
"""

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Final, NamedTuple, Protocol, cast

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string
from typing_extensions import override

from evidence.page_cutter import grapheme_floor

NONE = "none"

Vector = Sequence[float]
"""A unit vector, or all zeros for a text without meaning to the model."""


class Embedder(Protocol):
    """Computes vectors of ``dimension`` numbers from texts.

    Vectors are compared only if they have the same ``model_id``. Texts are unrelated if the dot
    product of their vectors is below ``floor``.
    """

    dimension: int

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
    """Return the model of this installation, or None if it has none.

    Raises ImproperlyConfigured if PDPP_EMBEDDER names no usable model.
    """
    return _load(settings.PDPP_EMBEDDER)


@cache
def _load(path: str) -> Embedder | None:
    if path == NONE:
        return None
    if "/" in path:
        return OnnxModel(Path(path).expanduser())
    try:
        embedder_class = cast("type[Embedder]", import_string(path))
    except ImportError as error:
        raise ImproperlyConfigured(
            "PDPP_EMBEDDER takes a directory such as ./models/e5, a class, or none;"
            f" got {path!r} ({error})."
        ) from error
    return embedder_class()


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


TRANSLATIONS: Final = (
    ("The train to the city leaves at eight.", "Der Zug in die Stadt fährt um acht ab.",
     "Le train pour la ville part à huit heures.", "El tren a la ciudad sale a las ocho.",
     "O comboio para a cidade parte às oito.", "Поезд в город отправляется в восемь.",
     "去城里的火车八点出发。", "町行きの電車は八時に出ます。"),
    ("Please send me the invoice for the repair.", "Bitte schicken Sie mir die Rechnung für die Reparatur.",
     "Merci de m'envoyer la facture de la réparation.", "Por favor, envíeme la factura de la reparación.",
     "Por favor envie-me a fatura da reparação.", "Пришлите мне, пожалуйста, счёт за ремонт.",
     "请把修理的发票发给我。", "修理の請求書を送ってください。"),
    ("My daughter has a fever and stays at home.", "Meine Tochter hat Fieber und bleibt zu Hause.",
     "Ma fille a de la fièvre et reste à la maison.", "Mi hija tiene fiebre y se queda en casa.",
     "A minha filha tem febre e fica em casa.", "Моя дочь больна и остаётся дома.",
     "我女儿发烧待在家里。", "娘は熱があるので家にいます。"),
    ("We planted tomatoes in the garden.", "Wir haben Tomaten im Garten gepflanzt.",
     "Nous avons planté des tomates dans le jardin.", "Hemos plantado tomates en el jardín.",
     "Plantámos tomates no jardim.", "Мы посадили помидоры в саду.",
     "我们在花园里种了西红柿。", "庭にトマトを植えました。"),
    ("The meeting was moved to Thursday.", "Die Besprechung wurde auf Donnerstag verschoben.",
     "La réunion a été déplacée à jeudi.", "La reunión se ha aplazado al jueves.",
     "A reunião foi adiada para quinta-feira.", "Совещание перенесли на четверг.",
     "会议改到了星期四。", "会議は木曜日に変更されました。"),
    ("I forgot my password and cannot log in.", "Ich habe mein Passwort vergessen und kann mich nicht anmelden.",
     "J'ai oublié mon mot de passe et je ne peux pas me connecter.", "He olvidado mi contraseña y no puedo entrar.",
     "Esqueci a senha e não consigo entrar.", "Я забыл пароль и не могу войти.",
     "我忘了密码不能登录。", "パスワードを忘れてログインできません。"),
)  # fmt: skip
"""Sentences, each in the same languages."""
LANGUAGE_SHARE: Final = 16
"""At most one of so many dimensions is taken for a mark of language."""
LEAST_DIFFERENCE: Final = 0.05
"""Languages whose vectors differ by less are not told apart by a model."""


class OnnxModel(Embedder):
    """A sentence model in a directory, without what it says of a text's language.

    Multilingual models put texts of one language near each other, whatever they say, so that a question
    found everything in its own language first: with multilingual-e5-small, nDCG@10 over the demo's questions
    about texts in another language was 0.35, and is 0.66 without (bench/RESULTS.md).

    Raises ImproperlyConfigured if the model cannot run.
    """

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
        digest = hashlib.sha256(repr(TRANSLATIONS).encode())
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
        if not text.strip():
            return [0.0] * self.dimension
        vector, marks = self._vector(prompt + text), self._language_marks
        rest: list[float] = _normalized(vector - marks.T @ (marks @ vector)).tolist()
        return rest

    @cached_property
    def _language_marks(self) -> Any:
        """Orthogonal unit vectors along which translations of a sentence differ. Embeds TRANSLATIONS."""
        import numpy

        prompt = self._passage_prompt
        vectors = numpy.array(
            [[self._vector(prompt + text) for text in same] for same in TRANSLATIONS]
        )
        languages = (vectors - vectors.mean(axis=1, keepdims=True)).mean(axis=0)
        _, differences, marks = numpy.linalg.svd(languages, full_matrices=False)
        return marks[differences > LEAST_DIFFERENCE][: self.dimension // LANGUAGE_SHARE]

    def _vector(self, text: str) -> Any:
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
        return _normalized(tokens)

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


def _normalized(vector: Any) -> Any:
    return vector / (float((vector @ vector) ** 0.5) or 1.0)
