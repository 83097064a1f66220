"""``manage.py distribute`` on a server that is no cluster; tests/distributed has the others."""

import pytest
from django.core.management import CommandError, call_command

from tests.distributed import cluster

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(cluster.programs() is not None, reason="this server is a cluster"),
]


@pytest.mark.parametrize("command", ["distribute", "undistribute"])
def test_a_single_server_is_refused_with_the_next_step(command: str) -> None:
    with pytest.raises(CommandError, match=r"This database has no Citus\. Run CREATE EXTENSION"):
        call_command(command, dry_run=True)


@pytest.mark.parametrize("number", [0, 1025])
def test_a_senseless_number_of_shards_is_refused(number: int) -> None:
    with pytest.raises(CommandError, match=f"--shards takes 1 to 1024; got {number}"):
        call_command("distribute", shards=number)
