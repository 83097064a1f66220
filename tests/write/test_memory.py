"""The memory of an import does not depend on its size."""

import pytest

from tests.world import World
from tests.write import processes
from tests.write.test_killed import committed as committed

pytestmark = pytest.mark.slow

MOST_MIB = 300
PROGRAM = r"""
import json
import pathlib
import re

def lines():
    number = 0
    # Lines of the longest kind that the command reads, then very many bad ones.
    for number in range(1, 7):
        data = {"id": f"k{number}", "topic": "e" * 15_900_000}
        yield NdjsonLine(number, json.dumps(
            {"connection_id": "cin_personal", "stream": "threads", "data": data}
        ).encode())
    for number in range(number + 1, 100_000):
        yield NdjsonLine(number, b"{")
    data = {"id": "late", "topic": "x"}
    yield NdjsonLine(number + 1, json.dumps(
        {"connection_id": "cin_personal", "stream": "threads", "data": data}
    ).encode())

outcome = ingest_lines(lines(), owner_id=sys.argv[1], now=timezone.now())
print(outcome.created, outcome.by_code.total(), len(outcome.receipts))
# Not ru_maxrss, which begins with that of the process that started this one.
status = pathlib.Path("/proc/self/status").read_text()
print(int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) // 1024)
"""


def test_import_memory_is_bounded(committed: World) -> None:
    with processes.python(PROGRAM, committed.owner_id) as process:
        out, _ = process.communicate()
    created, refused, receipts, mib = map(int, out.split())
    assert (created, refused, receipts) == (7, 99_993, 10_000)
    assert mib < MOST_MIB
