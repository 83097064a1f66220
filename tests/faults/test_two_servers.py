"""Two servers on one database agree, and one goes on when the other is killed."""

import psycopg
import pytest

from tests.faults.load import Load, hold_to_account
from tests.pdpp_site.installation import Installation, installed, running
from tests.pdpp_site.living import Cast, cast_in
from tests.pdpp_site.web import free_port

pytestmark = pytest.mark.faults


def test_both_write_one_chain_and_one_outlives_the_other() -> None:
    with installed() as one, running(one):
        first = cast_in(one)
        two = Installation(one.var, free_port())
        second = Cast(two, first.tokens)
        here, there = Load(first, "here"), Load(second, "there")
        with running(two) as server, here.going_on():
            with there.going_on():
                here.progress(more=10)
                there.progress(more=10)
                server.process.kill()
                server.process.wait()
            here.progress(more=5)
        hold_to_account(first, here, there)


def test_what_is_revoked_at_one_is_refused_at_the_other_at_once() -> None:
    with installed() as one, running(one):
        first = cast_in(one)
        two = Installation(one.var, free_port())
        second = Cast(two, first.tokens)
        with running(two), second.http("bob") as http:
            assert http.get("/v1/schema").status_code == 200
            with psycopg.connect(first.database) as database:
                [(package_id,)] = database.execute(
                    "SELECT package_id FROM evidence_package JOIN evidence_client USING (client_id)"
                    " WHERE display_name = 'Bob'"
                )
            assert one.say("grant", "--revoke", package_id).code == 0
            assert http.get("/v1/schema").status_code == 403
