"""How far a client has been told of each connection, as a short text to be sealed.

Numbers take the same room whatever they say, so the length of a bookmark tells of nothing but the
number of connections. For more than eight of those the numbers are stored and the text is a handle
to them: a vector of a hundred would be longer than a page of records.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime

from evidence.access.history import Reach
from evidence.access.secrets import key_for
from evidence.models.bookmarks import Bookmark
from evidence.refusals import CursorExpired

CONNECTIONS_WITHIN = 8
MARK_BYTES = 6
NUMBER_BYTES = 5
HANDLE_BYTES = 16
NOTHING = 256**NUMBER_BYTES - 1


def bookmark(reaches: Mapping[str, Reach], *, owner_id: str, now: datetime) -> str:
    """The text that ``recalled`` reads; one query where it has to be stored."""
    content = b"".join(_packed(each, reaches[each]) for each in sorted(reaches))
    if len(reaches) <= CONNECTIONS_WITHIN:
        return "v" + base64.b64encode(content).decode()
    key = key_for("bookmark")
    handle = hashlib.blake2b(
        owner_id.encode() + b"/" + content, digest_size=HANDLE_BYTES, key=key
    ).digest()
    row = Bookmark(handle=handle, owner_id=owner_id, content=content, used_at=now)
    Bookmark.unscoped.bulk_create(
        [row], update_conflicts=True, unique_fields=["handle"], update_fields=["used_at"]
    )
    return "h" + base64.b64encode(handle).decode()


def length(connections: int) -> int:
    """How long the text is for so many."""
    within = connections <= CONNECTIONS_WITHIN
    packed = connections * (MARK_BYTES + 3 * NUMBER_BYTES) if within else HANDLE_BYTES
    return 1 + -(-packed // 3) * 4


def recalled(text: str, *, owner_id: str, connection_ids: Sequence[str]) -> dict[str, Reach]:
    """The reach of each connection that the bookmark knows of.

    Raises ``CursorExpired`` when it is no longer stored, or names a connection that is not among
    ``connection_ids``: what came through that one has gone all at once.
    """
    content = base64.b64decode(text[1:])
    if text[0] == "h":
        content = _stored(content, owner_id)
    marked = {_mark(each): each for each in connection_ids}
    size = MARK_BYTES + 3 * NUMBER_BYTES
    found: dict[str, Reach] = {}
    for start in range(0, len(content), size):
        mark, numbers = content[start:][:MARK_BYTES], content[start:][MARK_BYTES:size]
        if mark not in marked:
            raise CursorExpired(message="A connection that the bookmark speaks of has gone.")
        found[marked[mark]] = _unpacked(numbers)
    return found


def forget_bookmarks(*, unused_since: datetime) -> int:
    """Deletes stored bookmarks that nobody was given or gave back since; how many."""
    return Bookmark.unscoped.filter(used_at__lt=unused_since).delete()[0]


def _stored(handle: bytes, owner_id: str) -> bytes:
    rows = Bookmark.unscoped.filter(handle=handle, owner_id=owner_id)
    content = rows.values_list("content", flat=True).first()
    if content is None:
        raise CursorExpired(message="The bookmark is older than what is kept.")
    return bytes(content)


def _packed(connection_id: str, reach: Reach) -> bytes:
    numbers = (reach.since, reach.known, reach.until)
    return _mark(connection_id) + b"".join(
        (NOTHING if number is None else number).to_bytes(NUMBER_BYTES, "big") for number in numbers
    )


def _unpacked(numbers: bytes) -> Reach:
    since, known, until = (
        int.from_bytes(numbers[start : start + NUMBER_BYTES], "big")
        for start in range(0, 3 * NUMBER_BYTES, NUMBER_BYTES)
    )
    return Reach(
        since=None if since == NOTHING else since,
        known=known,
        until=None if until == NOTHING else until,
    )


def _mark(connection_id: str) -> bytes:
    return hashlib.blake2b(connection_id.encode(), digest_size=MARK_BYTES).digest()
