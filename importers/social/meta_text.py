"""Repair texts of Facebook and Instagram, which export each byte of UTF-8 as a character."""

import re
from typing import Any

from importers.core.json_nodes import Json
from importers.core.results import ParsedItem, ReceiptCode

_SEQUENCE = re.compile(
    "[\u00c2-\u00df][\u0080-\u00bf]|[\u00e0-\u00ef][\u0080-\u00bf]{2}|[\u00f0-\u00f4][\u0080-\u00bf]{3}"
)
"""The bytes of a character, read as Latin-1."""
_CONTROL = re.compile("[\u0080-\u009f]")
_CUT_TAIL = re.compile(
    "(?:[\u00c2-\u00f4]|[\u00e0-\u00f4][\u0080-\u00bf]|[\u00f0-\u00f4][\u0080-\u00bf]{2})$"
)


def repair_text(text: str) -> tuple[str, bool]:
    """Return the text, repaired if it is broken, and whether that is certain.

    A text whose characters are all the bytes of valid UTF-8 is broken: no language writes so. One with
    other characters is right, unless it also has such bytes, which leaves a doubt.
    """
    if text.isascii():
        return text, True
    has_sequences = bool(_SEQUENCE.search(text))
    if has_sequences:
        for candidate in (text, _CUT_TAIL.sub("", text)):
            try:
                return candidate.encode("latin-1").decode("utf-8"), True
            except UnicodeError:
                continue
    return text, not (has_sequences or _CONTROL.search(text))


def repair_node(node: Any, item: ParsedItem) -> Any:
    """Return a JSON value with all its texts repaired; a doubt has one receipt."""
    doubts: list[str] = []
    repaired = _repair(node, doubts)
    if doubts:
        item.add_issue(ReceiptCode.UNSURE_CHARSET, detail=doubts[0][:40])
    return repaired


def _repair(node: Any, doubts: list[str]) -> Any:
    if isinstance(node, str):
        text, is_sure = repair_text(node)
        if not is_sure:
            doubts.append(node)
        return text
    if isinstance(node, dict):
        return {_repair(name, doubts): _repair(value, doubts) for name, value in node.items()}
    if isinstance(node, list):
        return [_repair(value, doubts) for value in node]
    return node


def repaired_object(node: Json, item: ParsedItem) -> Json:
    """Return an object with all its texts repaired."""
    repaired = repair_node(node, item)
    return repaired if isinstance(repaired, dict) else {}
