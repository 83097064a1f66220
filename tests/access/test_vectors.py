"""What is near to a vector, among the fields that are asked for."""

from django.utils import timezone

from evidence.access.gate import Gate
from evidence.access.ranking.vectors import Meanings, nearest
from evidence.access.tokens import authenticate
from evidence.search.embedding import chosen
from tests.world import PERSONAL, World


def test_only_fields_that_are_asked_for_are_near(embedded: World) -> None:
    scope = authenticate(embedded.tokens["alice"], resource="/v1", now=timezone.now())
    visible = Gate(scope).stream("messages", connection_id=PERSONAL)
    embedder = chosen()
    assert embedder
    [vector] = embedder.embed(["transfer the deposit"])

    def near(*fields: str) -> set[str]:
        asked = [Meanings(visible, fields)]
        return {each.field for each in nearest(asked, vector, floor=-1, limit=5)}

    assert near("body_text") == {"body_text"}
    assert near("subject") == near() == set()
