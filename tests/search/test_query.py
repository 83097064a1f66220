"""Test the search syntax and its errors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.search.analysis.query import And, Leaf, Node, Not, Or, Query, QueryError, parse
from evidence.search.analysis.query_relaxation import match_any_word
from tests.search.texts import MIXED


def outcome(q: str) -> Query | QueryError:
    try:
        return parse(q, fields={"a", "b"})
    except QueryError as refused:
        return refused


def shown(node: Node) -> str:
    """A tree as one line: AND as juxtaposition in brackets."""
    match node:
        case Leaf():
            text = f'"{node.text}"' if node.phrase else node.text
            return f"{node.field + ':' if node.field else ''}{text}{'*' if node.prefix else ''}"
        case Not():
            return f"-{shown(node.node)}"
        case And():
            return f"[{' '.join(map(shown, node.nodes))}]"
        case Or():
            return f"({' | '.join(map(shown, node.nodes))})"


@pytest.mark.parametrize(
    ("q", "tree"),
    [
        ("lease", "lease"),
        ("signed lease", "[signed lease]"),
        ('"signed the lease" paris', '["signed the lease" paris]'),
        ("„unterschriebener Vertrag“", '"unterschriebener Vertrag"'),
        ("inv*", "inv*"),
        ("lease -draft", "[lease -draft]"),
        ('lease -"first draft"', '[lease -"first draft"]'),
        ("lease OR rent", "(lease | rent)"),
        ("lease paris OR rent lyon", "([lease paris] | [rent lyon])"),
        ("(lease OR rent) lyon", "[(lease | rent) lyon]"),
        ("lease AND rent", "[lease rent]"),
        ("lease NOT draft", "[lease -draft]"),
        ("lease (-draft)", "[lease -draft]"),
        ("lease -(draft OR copy)", "[lease -(draft | copy)]"),
        ("subject:lease", "subject:lease"),
        ('subject:"the lease" -subject:draft', '[subject:"the lease" -subject:draft]'),
        ("subject:(lease OR inv*)", "(subject:lease | subject:inv*)"),
        ("e-mail", "e-mail"),
        ("猫 OR 犬", "(猫 | 犬)"),
        ("👍", "👍"),
    ],
)
def test_operators_parse_to_the_expected_tree(q: str, tree: str) -> None:
    assert shown(parse(q, fields={"subject"}).root) == tree


@pytest.mark.parametrize(
    ("q", "tree"),
    [
        ('27" monitor', "[27 monitor]"),
        ('"signed the lease', "[signed the lease]"),
        (":) lease", "lease"),
        ("(lease", "lease"),
        ("lease) -", "lease"),
        ("() lease", "lease"),
        ("OR lease", "[OR lease]"),
        ("lease OR", "[lease OR]"),
        ("Portland, OR", "[Portland, OR]"),
        ("NOT", "NOT"),
        ("lease - rent", "[lease rent]"),
        ("http://x.example/a", "http://x.example/a"),
        ("12:30", "12:30"),
        ("sender:ana", "sender:ana"),
        ("subject:", "subject:"),
        ("subject: lease", "[subject: lease]"),
        ("le*se", "le*se"),
        ("* lease", "lease"),
        ("lease or rent", "[lease or rent]"),
    ],
)
def test_invalid_syntax_is_text(q: str, tree: str) -> None:
    assert shown(parse(q, fields={"subject"}).root) == tree


@pytest.mark.parametrize(
    ("q", "code", "position"),
    [
        ("", "empty_query", 0),
        ('  "!!" ()', "empty_query", 0),
        ("-draft", "only_negative", 0),
        ("lease OR -draft", "only_negative", 9),
        ("lease -(-draft)", "only_negative", 8),
        ("(-draft) OR lease", "only_negative", 1),
        ("lease a*", "prefix_too_short", 6),
        ("x" * 1_001, "query_too_long", 1_000),
        ("word " * 33, "too_many_terms", 160),
        (f'"{"word " * 33}"', "too_many_terms", 1),
        ("語" * 70, "too_many_terms", 0),
        ("(" * 20 + "lease" + ")" * 20, "too_deep", 16),
    ],
)
def test_invalid_query_error_has_a_position(q: str, code: str, position: int) -> None:
    with pytest.raises(QueryError) as refused:
        parse(q)
    assert (refused.value.code, refused.value.position) == (code, position)
    assert refused.value.message


def test_long_cjk_query_is_valid() -> None:
    question = "先日の会議でご説明いただいた資料はどこにありますか教えてください"
    assert shown(parse(question).root) == question


@given(st.one_of(MIXED, st.text(alphabet='ab "()-:*|ORANDT語', max_size=60)))
def test_any_text_parses_or_raises_query_error(q: str) -> None:
    query = outcome(q)
    if isinstance(query, QueryError):
        assert 0 <= query.position <= len(q)
        return
    for leaf in (*query.positive_leaves(), *query.negative_leaves()):
        assert q[leaf.position :].startswith(leaf.text)
    assert list(query.positive_leaves())


def test_relaxed_query_matches_any_word_and_keeps_exclusions() -> None:
    query = parse('"signed the lease" inv* -draft (paris OR lyon)')
    assert shown(match_any_word(query).root) == "[(signed | lease | inv* | paris | lyon) -draft]"


def test_relaxing_one_word_has_no_effect() -> None:
    assert match_any_word(parse("lease")).root == parse("lease").root


@pytest.mark.parametrize("q", ["-", "-. -. ", "-("])
def test_minus_without_a_word_is_an_empty_query(q: str) -> None:
    with pytest.raises(QueryError, match="contains no word"):
        parse(q)
