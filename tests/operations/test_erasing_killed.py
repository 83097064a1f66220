"""Another process completes a killed erasure and counts rows once."""

import pytest

from evidence.erasure import run_pending_erasures
from evidence.models.connections import Erasure
from evidence.models.records import Record
from tests.world import NOW, PERSONAL, World
from tests.write import processes, stored
from tests.write.test_killed import committed as committed

pytestmark = pytest.mark.slow

RECORDS = 600
PROGRAM = """
from evidence.erasure import run_erasure
from evidence.write import erasure_orders
from evidence.write.erasure_orders import ErasureScope, create_erasure
erasure_orders.BATCH_SIZE = 20
order = create_erasure(ErasureScope.STREAM, owner_id=sys.argv[1], by="a test", now=timezone.now(),
             connection_id="cin_personal", stream="messages")
for so_far in run_erasure(order, now=timezone.now()):
    print(so_far.removed.get("records", 0), flush=True)
    if so_far.removed.get("records", 0) >= 400:
        sys.stdin.read()  # so that it is not over before it is killed
"""


def test_killed_erasure_is_completed_and_counted_once(committed: World) -> None:
    data = [{"id": f"k{number}", "subject": f"Number {number}"} for number in range(RECORDS)]
    committed.put(*[(PERSONAL, "messages", each) for each in data])
    with processes.python(PROGRAM, committed.owner_id) as process:
        assert process.stdout is not None
        removed = 0
        while removed < 60:
            told = process.stdout.readline()
            assert told, f"it ended with {process.wait()} after {removed}"
            removed = int(told)
        process.kill()
        process.stdout.read()
    erased = Erasure.unscoped.get().removed["records"]
    assert 60 <= erased < RECORDS, "it was over before it was killed"
    assert Record.unscoped.count() == RECORDS - erased
    *_, done = run_pending_erasures(now=NOW)
    assert done.removed["records"] == RECORDS
    assert done.finished_at == NOW
    assert stored.true_counts() == {}
