# ruff: noqa: RUF001 - letters that look like others are what is tested here
"""Texts for properties: every script we promise something for, and everything that breaks things."""

from collections.abc import Sequence

from hypothesis import strategies as st

from evidence.search.analysis.tsquery import LEXEME_END, IndexedField, encode_lexemes

LANGUAGES = ("en", "de")

_SNIPPETS = (
    "running", "Häuser", "l'hôtel", "don't", "O’Brien", "e-mail", "INV-2024/0017", "1,234.56",
    "1.234,50", "1\u202f234,50", "2024-03-05", "03/04/2024", "2024-03-05T10:20:30Z", "12:30",
    "ana.gomez+x@mail.example.com", "https://www.example.com/a/b?x=1#y", "www.example.com", "U.S.A.",
    "snake_case", "日本語", "テキスト", "ﾃｷｽﾄﾞ", "学校", "학교에서", "한국어", "ไทยแลนด์", "हिन्दी",
    "שָׁלוֹם", "العَرَبِيَّة", "ёлка", "Ελλάδα", "ﬁne", "Straße", "１２３", "pass\u200bword", "\u2067abc\u2069",
    "e\u0301", "\u0301", "👍🏽", "👨‍👩‍👧", "🇩🇪", "İstanbul", "ǆ", "㍿", "½", "m²", "C++", "<mark>", "</mark>",
    "$", "''", "\\", "\x00", "\ud800", "…", "°", "-", "_", "@", "://", "www.", "a" * 70, "か\u3099", "각",
)  # fmt: skip
_SPACES = (" ", "\n", "\t", "\u3000", "\u00a0", "", "", ". ", ", ", "-", "/", "'", "@", ":", ".")

MIXED = st.lists(
    st.one_of(st.sampled_from(_SNIPPETS), st.sampled_from(_SPACES), st.text(max_size=6)),
    max_size=40,
).map("".join)
"""Text of many scripts, with signs where they matter, and arbitrary code points between."""


def lexemes(
    fields: Sequence[IndexedField], *, languages: tuple[str, ...], codes: int = 1
) -> list[str]:
    return encode_lexemes(fields, languages=languages, codes=codes).text.split(LEXEME_END)[:-1]
