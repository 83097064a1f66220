"""Nearest passages among the requested fields."""

from django.utils import timezone

from evidence.access.gate import Gate
from evidence.access.ranking.vectors import SemanticFields, nearest_passages
from evidence.access.tokens import authenticate
from evidence.search.embedding import configured_embedder
from tests.world import PERSONAL, World


def test_only_requested_fields_match(embedded: World) -> None:
    scope = authenticate(embedded.tokens["alice"], resource="/v1", now=timezone.now())
    visible = Gate(scope).stream("messages", connection_id=PERSONAL)
    embedder = configured_embedder()
    assert embedder
    [vector] = embedder.embed(["transfer the deposit"])

    def matching_fields(*fields: str) -> set[str]:
        streams = [SemanticFields(visible, fields)]
        return {passage.field for passage in nearest_passages(streams, vector, floor=-1, limit=5)}

    assert matching_fields("body_text") == {"body_text"}
    assert matching_fields("subject") == matching_fields() == set()
