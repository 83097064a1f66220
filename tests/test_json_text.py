"""JSON text has no invisible characters, and its values are unchanged."""

import json
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence import page_cutter

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda member: st.lists(member, max_size=4) | st.dictionaries(st.text(), member, max_size=4),
    max_leaves=20,
)
SOFT = "\u00ad"
DRAWS_NOTHING = {0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0}


@given(JSON)
def test_text_parses_to_the_same_value(value: object) -> None:
    assert json.loads(page_cutter.dumps(value)) == value


def test_invisible_characters_are_escaped() -> None:
    survivors = [
        f"{code:x}"
        for code in range(0x7F, sys.maxunicode + 1)
        if unicodedata.category(chr(code)) in {"Cf", "Zl", "Zp"} or code in DRAWS_NOTHING
        if chr(code) in page_cutter.dumps(chr(code))
    ]

    assert survivors == []


@pytest.mark.parametrize(
    ("hidden", "output"),
    [
        ("a\u202eb", '"a\\u202eb"'),
        ("\u200b", '"\\u200b"'),
        ("\U000e0041", '"\\udb40\\udc41"'),
        ("\ufe0f", '"\\ufe0f"'),
        ("\x7f", '"\\u007f"'),
        ("\u2028", '"\\u2028"'),
        (SOFT, '"\\u00ad"'),
    ],
)
def test_bidi_tag_and_invisible_characters_are_escaped(hidden: str, output: str) -> None:
    assert page_cutter.dumps(hidden) == output


@pytest.mark.parametrize("text", ["Lindenstraße", "京都", "😀", "שלום", "e\u0301", "a b"])
def test_visible_characters_are_unchanged(text: str) -> None:
    assert page_cutter.dumps(text) == f'"{text}"'


def test_lone_surrogates_and_huge_integers_are_serialized() -> None:
    value = {"a": "\ud800x", "b": 2**200}

    text = page_cutter.dumps(value)

    assert json.loads(text) == value
    assert text.encode()


def test_sizes_count_utf8_bytes_and_quotes() -> None:
    assert page_cutter.json_size({"a": "日"}) == len('{"a":"日"}'.encode())
    assert page_cutter.wire_size('{"a":1}') == len(r'"{\"a\":1}"')
