"""Matches before their rows are read: what was asked of which stream, and where a match stands."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, TypeAlias

from evidence.access.rows import VisibleRecords

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Terms:
    """A query in the words of one stream: who matches, and per word the queries of each tier.

    ``tiers`` goes from the highest tier to the lowest; each text is a tsquery.
    """

    matching: str
    tiers: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Branch:
    """One stream with the terms that ask for its granted fields only. ``narrow``: so few rows are
    visible at all that each may be asked whether it matches."""

    visible: VisibleRecords
    terms: Terms
    narrow: bool = False

    @property
    def shows_time(self) -> bool:
        """Whether the consent time may break ties; hidden, it counts as missing."""
        return self.visible.shows(self.visible.stream.consent_time_field)


@dataclass(frozen=True, slots=True)
class Rank:
    """A place in the order of hits: score, then time (None last), then id."""

    score: int
    at: datetime | None
    connection_id: str
    stream: str
    record_key: str


class Place(NamedTuple):
    """A match of the branch ``number``; ``at`` are microseconds since 1970."""

    number: int
    score: int
    at: int | None
    connection_id: str
    stream: str
    record_key: str

    @property
    def rank(self) -> Rank:
        at = None if self.at is None else _EPOCH + self.at * _MICROSECOND
        return Rank(self.score, at, self.connection_id, self.stream, self.record_key)


Key: TypeAlias = tuple[Any, ...]


def place_of(rank: Rank) -> Place:
    """A place that compares as the rank does."""
    at = None if rank.at is None else (rank.at - _EPOCH) // _MICROSECOND
    return Place(-1, rank.score, at, rank.connection_id, rank.stream, rank.record_key)


def in_time(place: Place) -> Key:
    """Newest first, those without a time last, then by id."""
    ids = place.connection_id, place.stream, place.record_key
    return (place.at is None, -(place.at or 0), *ids)


def best_first(place: Place) -> Key:
    return (-place.score, *in_time(place))


def newest_first(place: Place) -> Key:
    late, at, *ids = in_time(place)
    return (late, at, -place.score, *ids)


def places_of(rows: Sequence[Sequence[Any]]) -> list[Place]:
    """Rows of the columns of a ``Place``."""
    return [Place(*row) for row in rows]
