# ruff: noqa: RUF001 - letters that look like others are what is tested here
"""Test which words share a term, per language."""

import pytest
import regex

from evidence.search.analysis.segmentation import fold, is_cjk
from evidence.search.analysis.tokenizer import tokenize


def terms(text: str, *languages: str) -> set[str]:
    return {term for token in tokenize(text, languages=languages) for term in token.terms}


@pytest.mark.parametrize(
    ("language", "one", "other"),
    [
        ("en", "running", "runs"),
        ("en", "Universities", "university"),
        ("en", "John's", "john"),
        ("en", "café", "CAFE"),
        ("de", "Häuser", "Haus"),
        ("de", "Haeuser", "häuser"),
        ("de", "Straße", "STRASSE"),
        ("fr", "l'hôtel", "Hotels"),
        ("fr", "réservées", "réservée"),
        ("es", "habitación", "habitaciones"),
        ("es", "habitación", "habitacion"),
        ("it", "città", "citta"),
        ("it", "dell'appartamento", "appartamenti"),
        ("nl", "huizen", "huis"),
        ("pt", "coração", "coracao"),
        ("pt", "reuniões", "reunião"),
        ("pt-BR", "reservas", "reserva"),
        ("ru", "книги", "книга"),
        ("ru", "ёлка", "елка"),
        ("pl", "łódź", "lodz"),
        ("da", "smørrebrød", "smorrebrod"),
        ("el", "Ελλάδας", "ελλαδα"),
        ("tr", "evlerimizde", "ev"),
        ("ar", "العَرَبِيَّة", "العربية"),
        ("he", "שָׁלוֹם", "שלום"),
    ],
)
def test_inflections_and_spellings_of_a_word_share_a_term(
    language: str, one: str, other: str
) -> None:
    assert terms(one, language) & terms(other, language)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ﬁne", "fine"),
        ("１２３", "123"),
        ("٣٤", "34"),
        ("ﾃｷｽﾄ", "テキスト"),
        ("pass\u200bword", "password"),
        ("soft\u00adware", "software"),
        ("\u2067hidden\u2069", "hidden"),
        ("don’t", "don't"),
        ("e‑mail", "e-mail"),
        ("e-mail", "email"),
        ("O'Brien", "obrien"),
        ("U.S.A.", "USA"),
        ("İstanbul", "istanbul"),
        ("m²", "m2"),
        ("e\u0301te\u0301", "été"),
        ("か\u3099", "が"),
        ("각", "각"),
        ("👍🏽", "👍"),
    ],
)
def test_spelling_variants_share_a_term_in_any_language(one: str, other: str) -> None:
    assert terms(one) & terms(other)


@pytest.mark.parametrize(
    ("language", "one", "other"),
    [("en", "lease", "lead"), ("de", "Maus", "Haus"), ("ja", "が", "か"), ("hi", "कल", "काल")],
)
def test_different_words_share_no_term(language: str, one: str, other: str) -> None:
    assert not terms(one, language) & terms(other, language)


def test_unknown_language_has_no_stemming() -> None:
    assert terms("Running", "xx") == {"running"}


def test_each_configured_language_adds_its_stem() -> None:
    assert terms("Häuser", "en", "de") == {"hauser", "haus"}


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("日本語", {"日本", "本語"}),
        ("東京タワー", {"東京", "京タ", "タワ", "ワー"}),
        ("学校へ", {"学校", "校へ"}),
        ("북한산", {"북한", "한산"}),
        ("人々", {"人々"}),
        ("ไทย", {"ไท", "ทย"}),
    ],
)
def test_cjk_text_becomes_unigrams_and_bigrams(text: str, pairs: set[str]) -> None:
    assert terms(text) == pairs | set(text)


def test_every_cjk_letter_is_one_unigram() -> None:
    letter = regex.compile(
        r"(?V1)[[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]&&\p{L}]"
    )
    letters = filter(letter.match, map(chr, range(0x0E00, 0x10000)))
    folded = [(each, fold(each)) for each in letters]
    assert [each for each, form in folded if form and not any(map(is_cjk, form))] == []


def test_adjacent_scripts_are_separate_words() -> None:
    assert {"tokyo", "2024", "年", "3", "月"} <= terms("Tokyo2024年3月") | terms("Tokyo 2024年3月")
    assert {"iphone", "を買", "買っ"} <= terms("iPhoneを買った")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,234.56", "1234.56"),
        ("1.234,56", "1234.56"),
        ("1\u202f234,56", "1234.56"),
        ("1'234.56", "1234.56"),
        ("1234.56", "1234.56"),
        ("12.50", "12.5"),
        ("€12,50", "12.5"),
        ("12.50EUR", "12.5"),
        ("12.00", "12"),
        ("1,234,567", "1234567"),
        ("1,234", "1234"),
        ("1.234", "1.234"),
        ("1,234.56", "1234"),
        ("1,234.56", "56"),
    ],
)
def test_numbers_match_with_any_separators(text: str, expected: str) -> None:
    assert expected in terms(text)


@pytest.mark.parametrize(
    "text", ["2024-03-05", "2024/3/5", "05.03.2024", "5.3.2024", "2024-03-05T10:20:30Z", "5/3/2024"]
)
def test_numeric_dates_share_one_term(text: str) -> None:
    assert "2024-03-05" in terms(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("INV-2024/0017", {"inv-2024/0017", "inv-2024", "inv", "2024", "0017"}),
        ("(INV-2024/0017).", {"inv-2024/0017", "inv", "0017"}),
        ("Ana.Gomez+shop@mail.example.com", {
            "ana.gomez+shop@mail.example.com", "mail.example.com", "ana.gomez", "ana", "gomez",
            "shop", "mail", "example", "com",
        }),
        ("<mailto:ana@example.com>", {"ana@example.com", "example.com", "ana"}),
        ("https://www.Example.com/Shop/item-7?ref=x9.", {
            "example.com/shop/item-7?ref=x9", "example.com", "example", "shop", "item", "7", "x9",
        }),
        ("report_final.pdf", {"report_final.pdf", "report", "final", "pdf"}),
        ("192.168.1.10", {"192.168.1.10", "192", "10"}),
        ("well-known", {"wellknown", "well", "known"}),
        ("12:30", {"12:30", "12", "30"}),
        ("10:30-11:45", {"10:30", "11:45", "10", "45"}),
        ("10.50-12.50", {"10.5", "12.5"}),
        ("a-" * 200 + "b", {"a", "b"}),
    ],
)  # fmt: skip
def test_compounds_match_as_a_whole_and_by_part(text: str, expected: set[str]) -> None:
    assert expected <= terms(text)


def test_url_ends_where_cjk_text_starts() -> None:
    assert {"example.com/a1", "です"} <= terms("サイトはhttps://example.com/a1です。")


def test_very_long_word_has_a_short_unique_term() -> None:
    one, other = (terms("x" * 5_000 + end) for end in "ab")
    assert one != other
    assert all(len(term) <= 64 for term in one | other)


@pytest.mark.parametrize(
    ("text", "expected"), [("2½", {"2", "1/2"}), ("№5", {"no", "5"}), ("word¼", {"word", "1/4"})]
)
def test_sign_that_is_a_word_does_not_join_its_neighbor(text: str, expected: set[str]) -> None:
    assert expected <= terms(text)


@pytest.mark.parametrize("text", ["http://", "www.,", "https:///?", "@", "-.-"])
def test_empty_compound_has_no_tokens(text: str) -> None:
    assert terms(text) <= {"http", "https", "www"}


def test_punctuation_has_no_tokens() -> None:
    assert not terms("!!! -- … () $ \x00 \u200b \ud800 ©")
