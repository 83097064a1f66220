"""A prepared corpus: records, the connections they came through, and what is true of them.

A directory of records.jsonl, connections.json, manifests/*.json and truth.json. The truth says which
records hold each rare word, how many hold each common one, and how many fall into each month.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

NARROW_SHARE = 0.01
TRUTH = "truth.json"


@dataclass(frozen=True)
class Connection:
    connection_id: str
    stream: str


@dataclass(frozen=True)
class Corpus:
    """One directory. `truth` is truth.json as it is."""

    path: Path
    truth: Mapping[str, Any]
    connections: tuple[Connection, ...]

    @property
    def size(self) -> int:
        size: int = self.truth["n"]
        return size

    @property
    def name(self) -> str:
        """Tells corpora apart: their size and the beginning of their digest."""
        return f"{self.size}-{self.truth['sha256'][:12]}"

    @cached_property
    def words(self) -> list[str]:
        """The words whose frequency is known, the most frequent first."""
        known = self.truth["common_df"]
        return sorted(known, key=lambda word: -sum(known[word].values()))

    @property
    def largest(self) -> Connection:
        """The connection with the most records; the first of them in the order of the file."""
        return max(self.connections, key=lambda each: self.truth["counts"][each.connection_id])

    @cached_property
    def time_fields(self) -> Mapping[str, str]:
        """connection_id -> the field that its records are dated by."""
        keys = {each["connection_id"]: each["connector_key"] for each in _listed(self.path)}
        dated = {}
        for file in self.path.glob("manifests/*.json"):
            document = json.loads(file.read_text())
            fields = {each["name"]: each["consent_time_field"] for each in document["streams"]}
            for where in self.connections:
                if keys[where.connection_id] == document["connector_key"]:
                    dated[where.connection_id] = fields[where.stream]
        return dated

    @cached_property
    def narrow_days(self) -> tuple[date, date]:
        """The first and the last day of about one hundredth of the time range, from its middle."""
        months = sorted({month for found in self.truth["month_counts"].values() for month in found})
        first, last = (date.fromisoformat(f"{month}-01") for month in (months[0], months[-1]))
        days = (last - first).days + 31
        start = first + timedelta(days=days // 2)
        return start, start + timedelta(days=max(1, round(days * NARROW_SHARE)) - 1)


def prepared_under(path: Path) -> list[Path]:
    """The directory itself where it is a corpus, else those in it that are; the smallest first.

    Raises `FileNotFoundError` where there is none.
    """
    if (path / TRUTH).exists():
        return [path]
    found = sorted(path.glob(f"*/{TRUTH}"), key=lambda file: json.loads(file.read_text())["n"])
    if not found:
        raise FileNotFoundError(f"{path} holds no corpus: no {TRUTH}, and none a folder below.")
    return [file.parent for file in found]


def prepared(path: Path) -> Corpus:
    """The corpus in a directory. Raises `OSError` where it is none."""
    connections = tuple(Connection(each["connection_id"], each["stream"]) for each in _listed(path))
    return Corpus(path, json.loads((path / TRUTH).read_text()), connections)


def _listed(path: Path) -> list[dict[str, str]]:
    listed: list[dict[str, str]] = json.loads((path / "connections.json").read_text())
    return listed
