"""Record values as text that shows everything that is in them and does nothing."""

import json
import unicodedata

LONGEST = 20_000
_JOINERS = frozenset("\u200c\u200d")
"""Ordinary parts of several scripts and of emoji."""
_LAYOUT = frozenset("\n\t")


def plain(value: object) -> str:
    """A string as it is, anything else as JSON; characters that do not show are spelled out."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
    return "".join(map(_shown, text.replace("\r\n", "\n")))


def _shown(char: str) -> str:
    if char in _LAYOUT or char in _JOINERS or unicodedata.category(char)[0] != "C":
        return char
    return f"⟨U+{ord(char):04X}⟩"


def beginning(text: str, *, longest: int = LONGEST) -> tuple[str, int]:
    """The first ``longest`` characters, and how many are left out."""
    return text[:longest], max(0, len(text) - longest)


def line(value: object, *, longest: int = 120) -> str:
    """A value on one short line."""
    text, left_out = beginning(" ".join(plain(value).split()), longest=longest)
    return f"{text}…" if left_out else text
