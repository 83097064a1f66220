"""Read a prepared corpus: records, their connections, and known facts about them.

A corpus is a directory of records.jsonl, connections.json, manifests/*.json and truth.json. The last
lists the records with each rare word, and counts records by common word and by month.
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
    """A connection and its stream."""

    connection_id: str
    stream: str


@dataclass(frozen=True)
class Corpus:
    """The directory of a corpus, and the content of its truth.json."""

    path: Path
    truth: Mapping[str, Any]
    connections: tuple[Connection, ...]

    @property
    def size(self) -> int:
        size: int = self.truth["n"]
        return size

    @property
    def name(self) -> str:
        """The size and the beginning of the digest, which identify a corpus."""
        return f"{self.size}-{self.truth['sha256'][:12]}"

    @cached_property
    def words(self) -> list[str]:
        """The words with known frequency, most frequent first."""
        frequencies = self.truth["common_df"]
        return sorted(frequencies, key=lambda word: -sum(frequencies[word].values()))

    @property
    def largest(self) -> Connection:
        """The connection with the most records."""
        return max(self.connections, key=lambda each: self.truth["counts"][each.connection_id])

    @cached_property
    def time_fields(self) -> Mapping[str, str]:
        """The consent time field by connection_id."""
        keys = {
            each["connection_id"]: each["connector_key"] for each in _read_connections(self.path)
        }
        time_fields = {}
        for file in self.path.glob("manifests/*.json"):
            document = json.loads(file.read_text())
            fields = {each["name"]: each["consent_time_field"] for each in document["streams"]}
            for where in self.connections:
                if keys[where.connection_id] == document["connector_key"]:
                    time_fields[where.connection_id] = fields[where.stream]
        return time_fields

    @cached_property
    def narrow_days(self) -> tuple[date, date]:
        """The first and last day of 1 % of the time range, in its middle."""
        months = sorted({month for found in self.truth["month_counts"].values() for month in found})
        first, last = (date.fromisoformat(f"{month}-01") for month in (months[0], months[-1]))
        days = (last - first).days + 31
        start = first + timedelta(days=days // 2)
        return start, start + timedelta(days=max(1, round(days * NARROW_SHARE)) - 1)


def prepared_under(path: Path) -> list[Path]:
    """Return the directory if it is a corpus, else the corpora in it, smallest first.

    Raises FileNotFoundError if there is none.
    """
    if (path / TRUTH).exists():
        return [path]
    truths = sorted(path.glob(f"*/{TRUTH}"), key=lambda file: json.loads(file.read_text())["n"])
    if not truths:
        raise FileNotFoundError(f"{path} and its folders contain no corpus: there is no {TRUTH}.")
    return [file.parent for file in truths]


def prepared(path: Path) -> Corpus:
    """Read the corpus in a directory. Raises OSError if it is none."""
    connections = tuple(
        Connection(each["connection_id"], each["stream"]) for each in _read_connections(path)
    )
    return Corpus(path, json.loads((path / TRUTH).read_text()), connections)


def _read_connections(path: Path) -> list[dict[str, str]]:
    connections: list[dict[str, str]] = json.loads((path / "connections.json").read_text())
    return connections
