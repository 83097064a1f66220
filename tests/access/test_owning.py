"""The owner's pages see what the owner's token sees."""

from dataclasses import replace

from django.utils import timezone

from evidence.access.owner_scope import SIGNED_IN, owner_scope
from evidence.access.tokens import authenticate
from evidence.models.connections import Connection
from evidence.models.sources import Source
from tests.world import CHAT, PERSONAL, WORK, World


def test_by_page_and_by_token_the_same_is_seen(world: World) -> None:
    world.connect("cin_z", "mail", "A third mailbox", identities=["alice@mail.example"])
    Connection.unscoped.filter(pk=WORK).update(status=Connection.Status.REVOKED)
    Connection.unscoped.filter(pk=CHAT).update(languages=["fi"])
    Source.unscoped.filter(connector_key="account").update(current_declaration=None)

    by_token = authenticate(world.tokens["alice"], resource="/v1", now=timezone.now())
    by_page = owner_scope(world.owner_id)

    assert by_page == replace(by_token, token_id=SIGNED_IN)
    for scope in (by_page, by_token):
        assert [*scope.connections] == ["cin_z", PERSONAL, CHAT]
        assert [each.connector_key for each in scope.sources.values()] == ["mail", "workspace"]
        assert len(scope.connections["cin_z"].identities) == 1
        assert [each.reindexing for each in scope.connections.values()] == [False, False, True]
