"""Keys for things that have no id: by what they say, and by their number among those that say the
same, so that two equal payments on one day stay two."""

from collections import Counter
from hashlib import sha256


class Repeated:
    """Counts within one group, such as a minute or a file; ``begin`` forgets the last group."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._group: object = None
        self._counts: Counter[bytes] = Counter()

    def begin(self, group: object) -> None:
        if group != self._group:
            self._group = group
            self._counts.clear()

    def key(self, *parts: object) -> str:
        said = "\0".join(map(str, parts)).encode("utf-8", "replace")
        digest = sha256(said)
        self._counts[digest.digest()[:12]] += 1
        number = self._counts[digest.digest()[:12]]
        if number > 1:
            digest.update(b"\0%d" % number)
        return f"{self._prefix}{digest.hexdigest()[:28]}"
