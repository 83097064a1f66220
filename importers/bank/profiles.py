"""Know the tables of banks by their headers, and suggest what the columns of other tables are.

Each file in ``profiles`` is about one bank; ``profiles/README.md`` describes it.
"""

import re
import tomllib
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path

from importers.bank.amounts import currency_code

FIELDS = ("date", "amount", "debit", "credit", "direction", "currency", "counterparty", "payer",
          "counterparty_account", "memo", "kind", "category", "check_number", "reference",
          "account", "status", "effect", "fee", "balance")  # fmt: skip
_FOLDER = Path(__file__).parent
_CURRENCY = re.compile(r"\s*[(\[]\s*([^()\[\]]{1,6})\s*[)\]]|\b(?:in|en)\s+(\S{1,4})$|\s(\S{1,5})$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A table of a bank. ``header`` are names that it must have, ``columns`` names by field.

    - ``only``: the table has no other columns than those.
    - ``date_order``, ``decimal`` and ``signs`` are as in the options of an import, where the bank
      always writes them alike.
    - ``pockets``: each value of these columns is an account of its own.
    - ``reversed``: kinds of bookings in which the payer gets the money.
    - ``account`` and ``currency`` are those of a table that does not name them.
    - ``fee``: the column of fees is a ``booking`` beside the amount, or one ``with its sign``.
    - ``refuse`` says why this table is not read.
    """

    bank: str
    level: str
    header: frozenset[str]
    columns: Mapping[str, str]
    only: bool = False
    date_order: str | None = None
    decimal: str | None = None
    signs: str | None = None
    pockets: tuple[str, ...] = ()
    reversed: tuple[str, ...] = ()
    account: str | None = None
    currency: str | None = None
    fee: str = ""
    refuse: str = ""

    def fits(self, names: list[str]) -> bool:
        known = self.header | set(self.columns.values())
        return self.header <= set(names) and not (self.only and set(names) - known - {""})

    def indexes(self, names: list[str]) -> dict[str, int]:
        """Return the position of the column of each field that the table has."""
        return {f: names.index(name) for f, name in self.columns.items() if name in names}


@dataclass(frozen=True, slots=True)
class Words:
    """The words of ``words.toml``."""

    columns: Mapping[str, list[str]]
    cells: Mapping[str, frozenset[str]]
    headers: Mapping[str, frozenset[str]]
    file_names: Mapping[str, frozenset[str]] = field(default_factory=dict)


@cache
def words() -> Words:
    found = tomllib.loads((_FOLDER / "words.toml").read_text(encoding="utf-8"))
    sets = {name: {key: frozenset(each) for key, each in found[name].items()}
            for name in ("cells", "headers", "file_names")}  # fmt: skip
    return Words(found["columns"], **sets)


@cache
def layouts() -> tuple[Layout, ...]:
    """Return the layouts of all profiles, those with more names in their header first."""
    found = []
    for path in sorted((_FOLDER / "profiles").glob("*.toml")):
        profile = tomllib.loads(path.read_text(encoding="utf-8"))
        found += [_parse(profile, values) for values in profile["layouts"]]
    return tuple(sorted(found, key=lambda each: -len(each.header)))


def _parse(profile: Mapping[str, str], values: Mapping[str, object]) -> Layout:
    """Raises ``TypeError`` or ``ValueError`` for an invalid profile."""
    columns, header = values.get("columns", {}), values["header"]
    if not isinstance(columns, dict) or not isinstance(header, list) or columns.keys() - {*FIELDS}:
        raise ValueError(f"{profile['bank']}: columns takes {', '.join(FIELDS)}.")
    named = {"level": profile["level"], **values}
    others = {k: v for k, v in named.items() if k not in ("header", "columns", "pockets")}
    pockets = values.get("pockets", [])
    return Layout(
        bank=profile["bank"],
        header=frozenset(plain_name(name)[0] for name in header),
        columns={f: plain_name(name)[0] for f, name in columns.items()},
        pockets=tuple(plain_name(name)[0] for name in pockets) if isinstance(pockets, list) else (),
        **others,  # type: ignore[arg-type] # a TypeError names what is unknown
    )


def find_layout(header: tuple[str, ...]) -> Layout | None:
    """Return the layout of a known header."""
    names = [plain_name(name)[0] for name in header]
    return next((layout for layout in layouts() if layout.fits(names)), None)


def suggest_columns(header: tuple[str, ...]) -> dict[str, int]:
    """Return the column that each field may be, for the owner to confirm."""
    names = [plain_name(name)[0] for name in header]
    columns: dict[str, int] = {}
    for name, known in words().columns.items():
        found = [names.index(each) for each in known if each in names]
        free = [index for index in found if index not in columns.values()]
        if free and (name != "account" or names[free[0]] in words().headers["own_account"]):
            columns[name] = free[0]
    if "amount" in columns and {"debit", "credit"} <= columns.keys():
        columns.pop("amount")  # without a sign, or in another currency
    elif "amount" in columns:
        columns.pop("debit", None)
        columns.pop("credit", None)
    return columns


def has_money(columns: Mapping[str, int]) -> bool:
    return "date" in columns and bool(columns.keys() & {"amount", "debit", "credit"})


@lru_cache(maxsize=4_096)
def plain_name(header: str) -> tuple[str, str | None]:
    """Return a column name without accents and currency, and the currency."""
    text = " ".join(header.replace("_", " ").replace("\u00a0", " ").split()).strip(" :;\"'")
    text = text.lstrip("#")
    currency = None
    if match := _CURRENCY.search(text):
        currency = currency_code(match[1] or match[2] or match[3])
        if currency or (match[1] and match[1].strip() in ("$", "¥", "kr")):
            text = (text[: match.start()] + text[match.end() :]).strip()
    decomposed = unicodedata.normalize("NFKD", text.lower().replace("ß", "ss").replace("ł", "l"))
    bare = "".join(char for char in decomposed if not unicodedata.combining(char))
    bare = bare.replace("ø", "o").replace("\u0131", "i").replace("æ", "ae")
    return " ".join(bare.split()), currency
