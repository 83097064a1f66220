"""``manage.py embed``: vectors for semantic search, for every record that has none."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError
from typing_extensions import override

from evidence.search.embedding import chosen
from evidence.storing.vector_backfill import embed_missing
from evidence.storing.vector_table import prepare


class Command(BaseCommand):
    """``manage.py run`` does the same in the background; running it again changes nothing."""

    help = "Give every record its vectors for semantic search (make semantic installs the model)."

    @override
    def handle(self, *args: Any, **options: Any) -> None:
        embedder = chosen()
        if embedder is None:
            raise CommandError("There is no model: run make semantic, or see PDPP_EMBEDDER.")
        if not prepare(embedder):
            raise CommandError(
                "There is no pgvector here, and no semantic search without it: its package has to be"
                " installed, then CREATE EXTENSION vector be run by a superuser."
            )
        done = 0
        for count in embed_missing(embedder):
            done += count
        self.stdout.write(f"{done} texts got their vectors from {embedder.model_id}.")
