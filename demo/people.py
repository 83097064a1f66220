"""The people of the demo data, and access to its TOML files."""

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
def load_toml(name: str) -> dict[str, Any]:
    """Return the parsed content of a TOML file under demo/."""
    return tomllib.loads((HERE / name).read_text(encoding="utf-8"))


def name_and_address(person: str, *, box: str) -> tuple[str, str]:
    """Return name and address of an id in texts/cast.toml or of a literal `Name <address>`."""
    literal = _ADDRESS.fullmatch(person)
    if literal:
        return literal["name"], literal["address"]
    entry = load_toml("texts/cast.toml")[person]
    kinds = ("work", "mail") if box == "work" else ("mail", "work")
    return entry["name"], next(entry[kind] for kind in kinds if kind in entry)


def first_name(person: str) -> str:
    name: str = load_toml("texts/cast.toml")[person]["name"]
    return name.split(" ", maxsplit=1)[0]


def since(person: str) -> date:
    """Return the day from which the person appears in records."""
    first_day: date = load_toml("texts/cast.toml")[person].get("since", date.min)
    return first_day
