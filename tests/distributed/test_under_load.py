"""An owner moves to another node while six clients read and write over HTTP and MCP."""

import contextlib
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.distributed.cluster import Cluster, programs
from tests.faults.load import Load, hold_to_account
from tests.pdpp_site.installation import installed, running
from tests.pdpp_site.living import Cast, cast_in

pytestmark = pytest.mark.faults

SHARD = """
SELECT p.shardid, p.nodename, p.nodeport FROM pg_dist_shard_placement p, evidence_owner o
WHERE p.shardid = get_shard_id_for_distribution_column('evidence_connection', o.owner_id)
"""
ANOTHER_NODE = (
    "SELECT nodename, nodeport FROM pg_dist_node WHERE groupid > 0 AND nodeport <> %s ORDER BY 2"
)
MOVE = "SELECT citus_move_shard_placement(%s, %s, %s, %s, %s, 'auto')"
WRITTEN_TWICE = """
SELECT record_key FROM evidence_record
GROUP BY owner_id, connection_id, stream, record_key HAVING count(*) > 1
"""


@dataclass
class Served:
    """A server whose database is a cluster."""

    cluster: Cluster
    cast: Cast

    @contextlib.contextmanager
    def six_clients(self, name: str) -> Iterator[tuple[Load, Load]]:
        """Two of each kind of client; at the end each has made progress and nothing is lost."""
        loads = Load(self.cast, f"{name}-1"), Load(self.cast, f"{name}-2")
        with contextlib.ExitStack() as stack:
            for load in loads:
                stack.enter_context(load.going_on())
            for load in loads:
                load.progress()
            yield loads
            for load in loads:
                load.progress()
        assert [load.broken for load in loads] == [0, 0]
        hold_to_account(self.cast, *loads)
        assert self.ask(WRITTEN_TWICE) == []

    def ask(self, statement: str, *values: object) -> list[tuple[object, ...]]:
        with self.cluster.coordinator.connect() as database:
            return database.execute(statement.encode(), values).fetchall()


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    binaries = programs()
    assert binaries, "set CITUS_BIN"
    home = Path(tempfile.mkdtemp(prefix="pdpp-load-"))
    cluster = Cluster(home, binaries)
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, home, ignore_errors=True)
        stack.callback(cluster.stop)
        cluster.start()
        installation = stack.enter_context(installed())
        installation.settings = {
            "DATABASE_URL": cluster.coordinator.url(),
            "PDPP_SECRET_KEY": secrets.token_urlsafe(50),
        }
        for command in (["migrate"], ["distribute", "--shards", "8"]):
            said = installation.say(*command)
            assert said.code == 0, said.out + said.err
        stack.enter_context(running(installation))
        yield Served(cluster, cast_in(installation))


def test_an_owner_moves_to_another_node(served: Served) -> None:
    [(shard, *source)] = served.ask(SHARD)
    target = served.ask(ANOTHER_NODE, source[1])[0]

    with served.six_clients("moved") as loads:
        served.ask(MOVE, shard, *source, *target)

    assert sum(load.refused.total() for load in loads) <= 6, "more than one for each client"
    assert served.ask(SHARD) == [(shard, *target)]
