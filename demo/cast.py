"""Who is who in the demo life."""

from __future__ import annotations

import re
import tomllib
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
_ADDRESS = re.compile(r"(?P<name>.*?)\s*<(?P<address>[^<>]*)>")


@cache
def text_file(name: str) -> dict[str, Any]:
    """The parsed contents of one file under demo/."""
    return tomllib.loads((HERE / name).read_text(encoding="utf-8"))


def name_and_address(person: str, *, box: str) -> tuple[str, str]:
    """`person` is an id of texts/cast.toml or a literal `Name <address>`."""
    literal = _ADDRESS.fullmatch(person)
    if literal:
        return literal["name"], literal["address"]
    entry = text_file("texts/cast.toml")[person]
    kinds = ("work", "mail") if box == "work" else ("mail", "work")
    return entry["name"], next(entry[kind] for kind in kinds if kind in entry)


def first_name(person: str) -> str:
    name: str = text_file("texts/cast.toml")[person]["name"]
    return name.split(" ", maxsplit=1)[0]


def since(person: str) -> date:
    """The day from which the person is around."""
    known: date = text_file("texts/cast.toml")[person].get("since", date.min)
    return known
