"""When a package was last used and how often: counted in memory, so that no read has to write.

Each process writes down what it has counted once a minute and when it stops; one that is killed
loses at most that minute. Owners' own tokens are not counted.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

MONTH = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Use:
    """``requests`` are those of the last 30 days."""

    requests: int
    last_at: datetime | None


NEVER = Use(0, None)


class Counter:
    """Requests by package and day that are not written down yet."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counted: dict[tuple[str, date], tuple[int, datetime]] = {}

    def count(self, package_id: str, *, now: datetime) -> None:
        key = (package_id, now.astimezone(UTC).date())
        with self._lock:
            requests, last_at = self._counted.get(key, (0, now))
            self._counted[key] = (requests + 1, max(last_at, now))

    def take(self) -> dict[tuple[str, date], tuple[int, datetime]]:
        with self._lock:
            counted, self._counted = self._counted, {}
        return counted

    def give_back(self, counted: Mapping[tuple[str, date], tuple[int, datetime]]) -> None:
        with self._lock:
            for key, (requests, last_at) in counted.items():
                more, later = self._counted.get(key, (0, last_at))
                self._counted[key] = (requests + more, max(last_at, later))


COUNTER = Counter()
