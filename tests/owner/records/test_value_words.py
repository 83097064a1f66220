"""Values of records as people write them."""

from dataclasses import replace
from typing import Any

import pytest

from evidence.declarations.parser import parse_declaration
from owner.text import value_text
from tests.world import MAIL

TEXT = parse_declaration(MAIL).streams["messages"].fields["subject"]


@pytest.mark.parametrize(
    ("changes", "value", "words"),
    [
        ({"name": "folder"}, "inbox", "Inbox"),
        ({"name": "category"}, "direct_debit", "Direct debit"),
        ({"name": "box", "role": "direction"}, "sent", "Sent"),
        ({"name": "size", "schema": {"enum": ["small"]}}, "small", "Small"),
        ({"name": "folder"}, "projects/2024", "projects/2024"),
        ({"name": "folder"}, "INBOX", "INBOX"),
        ({"name": "note"}, "inbox", "inbox"),
    ],
)
def test_a_word_of_a_list_begins_with_a_capital(
    changes: dict[str, Any], value: str, words: str
) -> None:
    assert value_text(replace(TEXT, **changes), value) == words
