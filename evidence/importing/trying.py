"""A part read to its end with nothing written: what a run of it would bring."""

from collections import Counter
from dataclasses import dataclass, field

from evidence.importing.feeding import Feed, said_of
from evidence.importing.key_set import KeySet
from evidence.importing.runs import Said
from evidence.importing.spool import Spool
from evidence.importing.surveying import Part

SAID_KEPT = 10_000


@dataclass(slots=True)
class Tried:
    """``rows`` counts by stream."""

    rows: Counter[str] = field(default_factory=Counter)
    doubles: int = 0
    said: list[Said] = field(default_factory=list)


def try_part(part: Part) -> Tried:
    tried, spool = Tried(), Spool()
    feed = Feed(
        part.kind.read(part.entries, part.options),
        connection_id="",
        skip=0,
        seen=KeySet(),
        spool=spool,
    )
    try:
        while feed.more:
            for _ in feed.lines():
                _count(tried, feed, spool)
            _count(tried, feed, spool)
    finally:
        spool.close()
    return tried


def _count(tried: Tried, feed: Feed, spool: Spool) -> None:
    spool.take(up_to=feed.number)
    spool.shrink()
    for mark in feed.stored(up_to=feed.number):
        tried.rows.update(mark.rows)
        tried.doubles += mark.doubles
        tried.said += said_of(mark)[: SAID_KEPT - len(tried.said)]
