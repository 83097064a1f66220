"""The owner's pages and the owner's token have the same scope."""

from dataclasses import replace

from django.utils import timezone

from evidence.access.owner_scope import OWNER_SESSION, owner_scope
from evidence.access.tokens import authenticate
from evidence.models.connections import Connection
from evidence.models.sources import Source
from evidence.search.query_planner import is_stale
from tests.world import CHAT, PERSONAL, WORK, World


def test_owner_pages_and_owner_token_have_the_same_scope(world: World) -> None:
    world.connect("cin_z", "mail", "A third mailbox", identities=["alice@mail.example"])
    Connection.unscoped.filter(pk=WORK).update(status=Connection.Status.REVOKED)
    Connection.unscoped.filter(pk=CHAT).update(languages=["fi"])
    Source.unscoped.filter(connector_key="account").update(current_declaration=None)

    by_token = authenticate(world.tokens["alice"], resource="/v1", now=timezone.now())
    by_page = owner_scope(world.owner_id)

    assert by_page == replace(by_token, token_id=OWNER_SESSION)
    for scope in (by_page, by_token):
        assert [*scope.connections] == ["cin_z", PERSONAL, CHAT]
        assert [source.connector_key for source in scope.sources.values()] == ["mail", "workspace"]
        assert len(scope.connections["cin_z"].identities) == 1
        assert [*map(is_stale, scope.connections.values())] == [False, False, True]
