"""``manage.py embed``: compute missing embeddings for semantic search."""

from typing import Any

from django.core.management.base import CommandError
from typing_extensions import override

from evidence.management.owner_command import EveryOwnerCommand
from evidence.models.owners import in_turn
from evidence.search.embedding import configured_embedder
from evidence.write.vectors import embed_missing, prepare_table


class Command(EveryOwnerCommand):
    """``manage.py run`` does the same in the background."""

    help = "Compute missing embeddings for semantic search (make semantic installs the model)."

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        embedder = configured_embedder()
        if embedder is None:
            raise CommandError("No embedding model. Run make semantic, or set PDPP_EMBEDDER.")
        if not prepare_table(embedder):
            raise CommandError(
                "Semantic search needs pgvector. Install its package, then run CREATE EXTENSION"
                " vector as a superuser."
            )
        texts = sum(in_turn(lambda: self.owner_ids(options), lambda: embed_missing(embedder)))
        self.stdout.write(f"Embedded {texts} texts with {embedder.model_id}.")
