"""Test that the fast verification of candidates decides as the tokens of their texts do."""

from typing import Final

import pytest
from hypothesis import assume, given, reject
from hypothesis import strategies as st

from evidence.search.analysis import matcher
from evidence.search.analysis.matcher import Verifier, verify
from evidence.search.analysis.query import QueryError, parse
from evidence.search.analysis.tokenizer import BLOCK_CHARS, WorkLimit

PHRASE: Final = parse('"signed lease"')
FIELDS: Final = ("subject", "body")
LANGUAGES = st.sampled_from([(), ("en",), ("en", "de"), ("fr", "en")])
WORDS: Final = st.sampled_from(
    (
        "the", "lease", "Leases", "leasing", "signed", "sign", "deposit", "THE", "e-mail", "email",
        "mail", "Straße", "strasse", "café", "cafe\u0301", "l'hôtel", "hotel", "京都", "京都駅", "京",
        "12.50", "12", "50", "1\u00a0234", "1234", "½", "№", "http://a.example/lease", "a@lease.example",
        "x", "-", "—", "...", "🦘", "die", "dies",
    )
)  # fmt: skip
STORED: Final = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
SEPARATORS: Final = st.sampled_from(
    (" ", " ", " ", "\n", ", ", " - ", "-", "/", "", "\u00a0", "\u200b")
)


@st.composite
def texts(draw: st.DrawFn) -> str:
    words = draw(st.lists(st.tuples(WORDS, SEPARATORS), max_size=12))
    return "".join(word + separator for word, separator in words)


@st.composite
def terms(draw: st.DrawFn) -> str:
    words = draw(st.lists(WORDS, min_size=1, max_size=3))
    template = draw(
        st.sampled_from(('"{}"', '"{}"', '-"{}"', '"={}"', "{}", "{}*", "-{}", 'body:"{}"'))
    )
    return template.format(draw(SEPARATORS).join(words))


queries = st.tuples(st.lists(terms(), min_size=1, max_size=3), st.sampled_from((" ", " OR "))).map(
    lambda parts: parts[1].join(parts[0])
)
records = st.dictionaries(st.sampled_from(FIELDS), st.one_of(texts(), st.text(STORED, max_size=30)))


@given(queries, st.lists(records, min_size=1, max_size=4), LANGUAGES)
def test_decisions_are_those_of_the_tokens(
    q: str, candidates: list[dict[str, str]], languages: tuple[str, ...]
) -> None:
    try:
        query = parse(q, fields=FIELDS)
    except QueryError:
        reject()
    expected = [verify(texts, query, languages=languages) for texts in candidates]
    decided = Verifier(query, languages=languages).verify_all(candidates, work=WorkLimit())
    assert list(decided) == expected


@given(queries, st.lists(records, min_size=1, max_size=4), LANGUAGES)
def test_order_of_the_languages_makes_no_difference(
    q: str, candidates: list[dict[str, str]], languages: tuple[str, ...]
) -> None:
    try:
        query = parse(q, fields=FIELDS)
    except QueryError:
        reject()
    decided, spent = [], []
    for ordered in (languages, languages[::-1]):
        work = WorkLimit()
        decided.append(list(Verifier(query, languages=ordered).verify_all(candidates, work=work)))
        spent.append(work.left)
    assert decided[0] == decided[1]
    assert spent[0] == spent[1]


def test_forgotten_words_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matcher, "_CACHED_LETTERS", 3)
    candidates = [
        {"body": text + " filler" * BLOCK_CHARS}
        for text in ("a signed lease", "signed here: a lease", "b signed lease", "lease signed c")
    ]
    decided = Verifier(PHRASE, languages=("en",)).verify_all(candidates, work=WorkLimit())
    assert list(decided) == [True, False, True, False]


@pytest.mark.slow
@given(st.lists(texts(), min_size=1, max_size=3), st.sampled_from([3, 700, 1_500]))
def test_long_texts_are_decided_as_short_ones(parts: list[str], repeated: int) -> None:
    candidates = [{"body": f"{part} x " * repeated + "signed lease"[: len(part)]} for part in parts]
    assume(any(len(each["body"]) > BLOCK_CHARS // 8 for each in candidates))
    expected = [verify(each, PHRASE, languages=("en",)) for each in candidates]
    decided = Verifier(PHRASE, languages=("en",)).verify_all(candidates, work=WorkLimit())
    assert list(decided) == expected


@pytest.mark.parametrize(
    "text", ["the signed lease", "signed - lease", "signed http://a.example/lease"]
)
def test_work_depends_on_the_text_alone(text: str) -> None:
    left = []
    for _ in range(2):
        work = WorkLimit()
        list(Verifier(PHRASE, languages=("en",)).verify_all([{"body": text * 50}], work=work))
        left.append(work.left)
    assert left[0] == left[1] < WorkLimit().left


def test_candidate_beyond_the_work_limit_is_undecided() -> None:
    work = WorkLimit(100)
    [decided] = Verifier(PHRASE, languages=()).verify_all(
        [{"body": "signed lease " * 10_000}], work=work
    )
    assert decided is None
    assert work.exhausted
