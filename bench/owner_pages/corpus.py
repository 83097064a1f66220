"""Write a corpus of mail, chat, bookings, appointments and health over twelve years.

It repeats the demo data, moved by whole weeks. Four of five copies have generated texts, and each
group of copies has people of its own.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Any

from bench.speed.corpus import Corpus
from demo import life
from demo.generated import TextGenerator

SEED = 20260406
YEARS = 8
"""The years before the demo data, which has four."""
EARLIEST = "1900"
MAX_KEY_CHARS = 100
"""The demo data contains a key that allows no suffix."""
GROUPS = 20
TEXTS = {"body_text": (6.9, 0.75, 5_000), "text": (4.6, 0.8, 1_200)}
"""Fields with generated texts: mean and deviation of the logarithm of their length, and the maximum."""
NAMES = ("from_name", "author_name", "counterparty")
IDS = ("id", "thread_id", "message_id")
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?=T|$)")


def prepare(path: Path, *, size: int) -> Corpus:
    """Return the corpus in a directory, and write it first if it is not there."""
    truth = path / "truth.json"
    if not truth.exists():
        _write(path, size)
    return Corpus(path, json.loads(truth.read_text()), ())


def _write(path: Path, size: int) -> None:
    path.joinpath("manifests").mkdir(parents=True, exist_ok=True)
    for document in life.declarations():
        file = path / "manifests" / f"{document['connector_key']}.json"
        file.write_text(json.dumps(document))
    (path / "connections.json").write_text(json.dumps(life.connections()))
    digest, count = hashlib.sha256(), 0
    with (path / "records.jsonl").open("wb") as lines:
        for record in _records(size):
            line = json.dumps(record, ensure_ascii=False).encode() + b"\n"
            digest.update(line)
            lines.write(line)
            count += 1
    (path / "truth.json").write_text(json.dumps({"n": count, "sha256": digest.hexdigest()}))


def _records(size: int) -> Iterator[dict[str, Any]]:
    originals = [
        each
        for each in life.records()
        if not each["data"].get("blob_ref") and len(each["key"]) <= MAX_KEY_CHARS
    ]
    rng = Random(SEED)  # noqa: S311 - nothing secret is made with it
    writer = TextGenerator(rng)
    copies = max(1, round(size / len(originals)))
    for copy in range(copies):
        weeks = timedelta(weeks=YEARS * 52 * copy // copies)
        for record in originals:
            yield _copied(record, copy, weeks, writer, rng) if copy else dict(record)


def _copied(
    record: Any, copy: int, weeks: timedelta, writer: TextGenerator, rng: Random
) -> dict[str, Any]:
    data = {name: _earlier(value, weeks) for name, value in record["data"].items()}
    key = f"{record['key']}-{copy}"
    first_id = next(iter(data))  # the primary key
    for name in {first_id, *IDS} & data.keys():
        if data[name]:
            data[name] = f"{data[name]}-{copy}"
    for name in NAMES:
        if data.get(name):
            data[name] = f"{data[name]} {copy % GROUPS}"
    if data.get("from_email"):
        data["from_email"] = f"g{copy % GROUPS}.{data['from_email']}"
    if copy % 5:
        data |= _generated_texts(data, writer, rng)
    return {
        **record,
        "key": key,
        "data": data,
        "emitted_at": _earlier(record["emitted_at"], weeks),
    }


def _generated_texts(data: Any, writer: TextGenerator, rng: Random) -> dict[str, str]:
    return {
        name: writer.text(min(maximum, int(rng.lognormvariate(mean, deviation)) + 10))
        for name, (mean, deviation, maximum) in TEXTS.items()
        if data.get(name)
    }


def _earlier(value: Any, weeks: timedelta) -> Any:
    found = _DATE.match(value) if isinstance(value, str) else None
    if found is None or found[0] < EARLIEST:
        return value  # the demo data contains impossible dates
    return (date.fromisoformat(found[0]) - weeks).isoformat() + value[10:]
